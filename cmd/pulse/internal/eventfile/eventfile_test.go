package eventfile_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/cmd/pulse/internal/eventfile"
)

func TestReader_ReadsLinesAndSpreadValues(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	r := eventfile.NewReader(strings.NewReader("\xef\xbb\xbf{\"n\": 1}\n\n{\n  \"n\": 2\n}\n[3]\t\"four\"\n5"))
	var lines []int
	var types []bson.Type
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		is.NoErr(err)
		is.Equal(p.Number, len(lines)+1)
		lines, types = append(lines, p.Line), append(types, p.Data.Type)
	}
	is.Equal(lines, []int{1, 3, 6, 6, 7})
	is.Equal(types, []bson.Type{bson.TypeEmbeddedDocument, bson.TypeEmbeddedDocument, bson.TypeArray, bson.TypeString, bson.TypeInt32})
}

func TestReader_NamesTheLineOfWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\"n\": 1}\n{\"n\": }\n":         "line 2: this is not JSON",
		"{\"n\": 1}\n\n{\"n\": 1":         "line 3: the text ends within",
		"1\n2\n{\"at\": {\"$date\": 7x}}": "line 3: this is not JSON",
		"1\n{\"$oid\": \"zz\"}\n":         "line 2: this is not Extended JSON",
	} {
		is := is.New(t)
		r := eventfile.NewReader(strings.NewReader(text))
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		is.True(!errors.Is(err, io.EOF))
	}
}

func TestParse_KeepsTheTypesOfExtendedJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bson.Type{
		`{"$date": "2026-01-02T03:04:05.678Z"}`: bson.TypeDateTime,
		`{"$oid": "65a1b2c3d4e5f60718293a4b"}`:  bson.TypeObjectID,
		`{"$numberDecimal": "1.10"}`:            bson.TypeDecimal128,
		`9007199254740993`:                      bson.TypeInt64,
		`1.0`:                                   bson.TypeDouble,
		`null`:                                  bson.TypeNull,
		`true`:                                  bson.TypeBoolean,
	} {
		is := is.New(t)
		value, err := eventfile.Parse([]byte(text))
		is.NoErr(err)
		if value.Type != want {
			t.Errorf("%s: %s, want %s", text, value.Type, want)
		}
		back, err := eventfile.Format(value)
		is.NoErr(err)
		again, err := eventfile.Parse(back)
		is.NoErr(err)
		is.True(value.Equal(again)) // what is printed can be published again
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAhead_PassesOnWhatIsThereAndAllOfIt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	r, w := io.Pipe()
	ahead := eventfile.ReadAhead(eventfile.NewReader(r))
	defer ahead.Stop()
	_, _ = w.Write([]byte("{\"n\": 0}\n")) // the input stays open: one value must not wait for the next
	chunk, err := ahead.Next(t.Context())
	is.NoErr(err)
	is.Equal(len(chunk), 1)

	const rest = 5000
	go func() {
		for range rest {
			_, _ = w.Write([]byte("{\"n\": 1}\n"))
		}
		_, _ = w.Write([]byte("{\n"))
		_ = w.Close()
	}()
	seen := 1
	for {
		chunk, err = ahead.Next(t.Context())
		if err != nil {
			break
		}
		is.True(len(chunk) > 0 && len(chunk) <= 1000)
		for _, p := range chunk {
			seen++
			is.Equal(p.Number, seen)
		}
	}
	is.Equal(seen, rest+1)
	is.True(strings.Contains(err.Error(), "line 5003: the text ends within")) // line 5,002 has the brace, 5,003 nothing
}

func TestAhead_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := eventfile.ReadAhead(eventfile.NewReader(r)).Next(ctx)
	is.True(errors.Is(err, context.Canceled))
}

package everykind

import (
	"bytes"
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/orionjs/orion-go/echoes"
)

func TestEncode_7_9_EveryKindAsTheDriver(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]Shared{"sample": sampleShared(t), "zero": {}} {
		complete(&in)
		delete(in.Named, "none") // the driver encodes several keys in any order
		got, err := echoes.EncodeParams(&in, encodeShared)
		if err != nil {
			t.Fatal(err)
		}
		if want := marshal(t, in); !bytes.Equal(got.Value, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", name, bson.Raw(got.Value), bson.Raw(want))
		}
	}
}

// complete fills in what the driver cannot encode when it is not there, and what
// is the same with and without content.
func complete(in *Shared) {
	if in.Raw == nil {
		in.Raw = bson.Raw("\x05\x00\x00\x00\x00")
	}
	if in.RawValue.IsZero() {
		in.RawValue.Type = bson.TypeNull
	}
	if in.Number == "" {
		in.Number = "0"
	}
	if in.Scoped.Scope == nil {
		in.Scoped.Scope = bson.D{}
	}
	if in.Binary.Data == nil {
		in.Binary.Data = []byte{}
	}
}

// TestEncode_7_9_RandomValues that were decoded from random documents come back
// from their encoding as they are, and the driver's encoding says the same.
func TestEncode_7_9_RandomValues(t *testing.T) {
	t.Parallel()
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		_, b, err := bson.MarshalValue(drawFields(t, reflect.TypeFor[Shared](), 4, 12))
		if err != nil {
			t.Fatal(err)
		}
		in, err := echoes.DecodeParams(document(b), decodeShared)
		if err != nil {
			return // a document that is no Shared
		}
		complete(&in)
		v, err := echoes.EncodeParams(&in, encodeShared)
		if err != nil {
			return // a year or a key that not every reader can read
		}
		back, err := echoes.DecodeParams(v, decodeShared)
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(back, in); d != "" {
			t.Fatalf("decoded again%s", d)
		}
		compared++
		theirs, err := bson.Marshal(&in)
		if err != nil {
			return
		}
		same, err := echoes.DecodeParams(document(theirs), decodeShared)
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(same, back); d != "" {
			t.Fatalf("the driver's encoding%s", d)
		}
		if len(theirs) != len(v.Value) {
			t.Fatalf("got  %v\nwant %v", bson.Raw(v.Value), bson.Raw(theirs))
		}
	})
	if compared == 0 {
		t.Error("no random document could be compared")
	}
}

func BenchmarkEncode(b *testing.B) {
	in := sampleShared(b)
	b.Run("echoes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := echoes.EncodeParams(&in, encodeShared); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("driver", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := bson.Marshal(&in); err != nil {
				b.Fatal(err)
			}
		}
	})
}

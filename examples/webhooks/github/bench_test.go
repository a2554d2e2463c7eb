package github

import (
	"os"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/webhooks/jsonbson"
)

// BenchmarkDecode decodes a push, all that this service declares of it and its sender alone, by generated code and by
// the driver.
func BenchmarkDecode(b *testing.B) {
	data, err := os.ReadFile("../testdata/push-branch.json")
	if err != nil {
		b.Fatal(err)
	}
	doc, err := jsonbson.Document(data, 1<<24)
	if err != nil {
		b.Fatal(err)
	}
	v := bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: doc}
	b.Run("push/echoes", func(b *testing.B) { generated(b, v, decodePush) })
	b.Run("push/zerocopy", func(b *testing.B) { generated(b, v, zeroCopy(decodePush)) })
	b.Run("push/driver", func(b *testing.B) { driver[Push](b, v) })
	user, err := doc.LookupErr("sender")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("sender/echoes", func(b *testing.B) { generated(b, user, decodeUser) })
	b.Run("sender/driver", func(b *testing.B) { driver[User](b, user) })
}

func generated[P any](b *testing.B, v bson.RawValue, decode func(*echoes.Decoder, *P)) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := echoes.DecodeParams(v, decode); err != nil {
			b.Fatal(err)
		}
	}
}

func zeroCopy[P any](decode func(*echoes.Decoder, *P)) func(*echoes.Decoder, *P) {
	return func(d *echoes.Decoder, p *P) {
		d.ZeroCopy()
		decode(d, p)
	}
}

func driver[P any](b *testing.B, v bson.RawValue) {
	b.ReportAllocs()
	for b.Loop() {
		var p P
		if err := bson.Unmarshal(v.Value, &p); err != nil {
			b.Fatal(err)
		}
	}
}

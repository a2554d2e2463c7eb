package everykind

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
)

// wider are the parts of the driver's errors about values that docs/types.md
// allows and the driver refuses, although nothing would be lost.
var wider = []string{
	"cannot decode 128-bit decimal into an integer type",
	"cannot decode 128-bit decimal into a float32 or float64 type",
	"cannot decode 128-bit decimal into a json.Number",
	"cannot decode 32-bit integer into a Decimal128",
	"cannot decode 64-bit integer into a Decimal128",
	"cannot decode double into a Decimal128",
	"cannot decode string into a DateTime",
	"decoding key duration: cannot decode string into an integer type", // 1m30s
	"truncated to a lower precision",                                   // a NaN, for float32
	"overflows ",                                                       // the driver reads unsigned integers by way of int64
}

// widerThanDriver returns the part of wider that the driver's error has, or "".
func widerThanDriver(err error) string {
	i := slices.IndexFunc(wider, func(part string) bool { return strings.Contains(err.Error(), part) })
	if i < 0 {
		return ""
	}
	return wider[i]
}

// TestDecode_7_3_EveryTypeIntoEveryField crosses every field with values of every
// type of BSON: mutants and random documents reach few of these pairs.
func TestDecode_7_3_EveryTypeIntoEveryField(t *testing.T) {
	t.Parallel()
	values := []any{
		int32(0), int32(7), int32(-1), int32(300), int64(7), int64(1 << 53), int64(1<<53 + 1), int64(math.MinInt64),
		7.0, 1.5, 0.1, 1e19, 1e300, math.Inf(1), math.NaN(), math.Copysign(0, -1),
		decimal(t, "7"), decimal(t, "7.0"), decimal(t, "0.1"), decimal(t, "18446744073709551615"), decimal(t, "1E+300"), decimal(t, "NaN"), decimal(t, "-Infinity"),
		"", "x", "7", "-12.5e3", "NaN", "2026-01-02T03:04:05.006Z", "2026-01-02T03:04:05.0061Z", "1m30s", "0123456789abcdef01234567", "::1", "http://a/b",
		true, false, bson.DateTime(5), nil,
		bson.Undefined{},
		bson.ObjectID{1},
		bson.Timestamp{T: 1},
		[]byte{},
		[]byte{1, 2, 3, 4},
		bson.Binary{Subtype: 2, Data: []byte{1, 2, 3, 4}},
		bson.Binary{Subtype: 4, Data: make([]byte, 16)},
		bson.Binary{Subtype: 0x80, Data: []byte{1, 2, 3, 4}},
		bson.D{},
		bson.D{{Key: "a", Value: int32(1)}},
		bson.D{{Key: "1", Value: "1"}},
		bson.D{{Key: "1", Value: nil}},
		bson.D{{Key: "sku", Value: int64(1)}},
		bson.A{},
		bson.A{nil},
		bson.A{int32(1)},
		bson.A{int64(1), 2.0, decimal(t, "3")},
		bson.A{"x"},
		bson.A{bson.D{}},
		bson.A{int32(1), int32(2), int32(3), int32(4)},
		bson.Symbol("7"), bson.JavaScript("j"),
		bson.Regex{Pattern: "a"},
		bson.DBPointer{DB: "d"},
		bson.CodeWithScope{Code: "c", Scope: bson.D{}},
		bson.MinKey{},
		bson.MaxKey{},
	}
	met := make(map[string]bool)
	for _, f := range keysOf(reflect.TypeFor[Shared]()) {
		for _, v := range values {
			ours, theirs, err, driver := both(marshal(t, bson.D{{Key: f.key, Value: v}}))
			switch {
			case err == nil && driver == nil:
				if d := difference(ours, theirs); d != "" {
					t.Errorf("%s of %T %v, ours and the driver's: %s", f.key, v, v, d)
				}
			case err == nil:
				part := widerThanDriver(driver)
				if part == "" {
					t.Errorf("%s of %T %v, only ours accepts: %v", f.key, v, v, driver)
				}
				met[part] = true
			}
		}
	}
	for _, part := range wider {
		if !met[part] {
			t.Errorf("no value was accepted that the driver refuses with %q", part)
		}
	}
}

// both decodes with ours and with the driver.
func both(b []byte) (ours, theirs Shared, err, driver error) {
	ours, err = echoes.DecodeParams(document(b), decodeShared)
	theirs, driver = unmarshal(b)
	return ours, theirs, err, driver
}

package pulse

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/internal/hostile"
)

// encode makes a stored value of data, one that every server takes and every reader can read. A panic in
// the data's own methods is an error.
func encode(data any) (value bson.RawValue, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("its encoding panicked: %s", hostile.Print(r))
		}
	}()
	if data == nil { // an interface without a value
		return bson.RawValue{Type: bson.TypeNull}, nil
	}
	raw, ok := data.(bson.RawValue)
	if !ok {
		if raw.Type, raw.Value, err = bson.MarshalValue(data); err != nil {
			return bson.RawValue{}, err
		}
	}
	// The bytes of raw values, and of the data's own methods, are not to be trusted.
	if err := raw.Validate(); err != nil {
		return bson.RawValue{}, fmt.Errorf("it is not BSON: %w", err)
	}
	if err := checkText(raw, ""); err != nil {
		return bson.RawValue{}, err
	}
	return raw, nil
}

// decode reads a stored value. Null and absent leave the zero value. A panic in the type's own methods is
// an error.
func decode[T any](value bson.RawValue, into *T) (err error) {
	raw, passed := any(into).(*bson.RawValue)
	switch absent := value.Type == 0 || value.Type == bson.TypeNull || value.Type == bson.TypeUndefined; {
	case passed && absent:
		*raw = bson.RawValue{Type: bson.TypeNull} // a value that can be published again
		return nil
	case passed:
		*raw = value
		return nil
	case absent:
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("its decoding panicked: %s", hostile.Print(r))
		}
	}()
	return value.Unmarshal(into)
}

var errText = errors.New("text is not valid UTF-8, as BSON requires; binary data belongs in a []byte")

// checkText refuses text that is not UTF-8: some servers refuse it, others store what no reader of another
// language can read. at is the path of the value.
func checkText(value bson.RawValue, at string) error {
	switch value.Type {
	case bson.TypeString, bson.TypeSymbol, bson.TypeJavaScript:
		if text := value.Value[4:]; !utf8.Valid(text) { // behind the length
			return fmt.Errorf("%s: %w", orWhole(at), errText)
		}
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		// Texts and keys lie between bytes that are ASCII, a type or a length's high byte and a final
		// zero: if all bytes together are valid UTF-8, each text is.
		if utf8.Valid(value.Value) {
			return nil
		}
		elements, err := bson.Raw(value.Value).Elements()
		if err != nil {
			return err
		}
		for _, e := range elements {
			key := e.Key()
			if !utf8.ValidString(key) {
				return fmt.Errorf("%s: key %q: %w", orWhole(at), key, errText)
			}
			switch {
			case value.Type == bson.TypeArray:
				key = at + "[" + key + "]"
			case at != "":
				key = at + "." + key
			}
			if err := checkText(e.Value(), key); err != nil {
				return err
			}
		}
	}
	return nil
}

func orWhole(at string) string {
	if at == "" {
		return "the value"
	}
	return at
}

// sameData tells whether two stored values say the same: the keys of a document may have another order,
// since a map is encoded in a different one each time.
func sameData(a, b bson.RawValue) bool {
	if a.Type != b.Type {
		return false
	}
	if bytes.Equal(a.Value, b.Value) {
		return true
	}
	if a.Type != bson.TypeEmbeddedDocument && a.Type != bson.TypeArray {
		return false
	}
	left, errLeft := bson.Raw(a.Value).Elements()
	right, errRight := bson.Raw(b.Value).Elements()
	if errLeft != nil || errRight != nil || len(left) != len(right) {
		return false
	}
	byKey := make(map[string]bson.RawValue, len(right))
	for _, e := range right {
		byKey[e.Key()] = e.Value()
	}
	if len(byKey) != len(right) {
		return false // a key twice: only equal bytes are sure to be the same
	}
	seen := make(map[string]bool, len(left))
	for _, e := range left {
		key := e.Key()
		other, ok := byKey[key]
		if !ok || seen[key] || !sameData(e.Value(), other) {
			return false
		}
		seen[key] = true
	}
	return true
}

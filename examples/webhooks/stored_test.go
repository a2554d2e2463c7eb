package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// sameAsSent compares a stored payload with the text that was sent: every key in its place, every value with
// its exact text. It reads the text on its own, token by token.
func sameAsSent(stored bson.Raw, text []byte) error {
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber()
	return compareValue("", bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: stored}, tokens)
}

func compareValue(path string, got bson.RawValue, tokens *json.Decoder) error {
	token, err := tokens.Token()
	if err != nil {
		return err
	}
	wrong := func() error { return fmt.Errorf("%s: sent %v, stored %v", path, token, got) }
	switch want := token.(type) {
	case json.Delim:
		object, kind := want == '{', bson.TypeArray
		if object {
			kind = bson.TypeEmbeddedDocument
		}
		if got.Type != kind {
			return wrong()
		}
		elements, err := bson.Raw(got.Value).Elements()
		if err != nil {
			return err
		}
		for i, e := range elements {
			if !tokens.More() {
				return fmt.Errorf("%s: more elements are stored than were sent", path)
			}
			key := any(strconv.Itoa(i))
			if object {
				if key, err = tokens.Token(); err != nil {
					return err
				}
			}
			if e.Key() != key {
				return fmt.Errorf("%s: key %d: sent %q, stored %q", path, i, key, e.Key())
			}
			if err := compareValue(path+"."+e.Key(), e.Value(), tokens); err != nil {
				return err
			}
		}
		if tokens.More() {
			return fmt.Errorf("%s: fewer elements are stored than were sent", path)
		}
		_, err = tokens.Token()
		return err
	case nil:
		if got.Type != bson.TypeNull {
			return wrong()
		}
	default:
		var value any
		if err := got.Unmarshal(&value); err != nil {
			return err
		}
		if !same(value, token) {
			return wrong()
		}
	}
	return nil
}

package github

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Moment is a time that push events write in seconds since 1970 and all others as RFC 3339 text. Like every
// type that knows how to read itself from BSON it can be a field of a payload.
type Moment struct{ time.Time }

// UnmarshalBSONValue reads either form, a date, or null, which is the zero time.
func (m *Moment) UnmarshalBSONValue(typ byte, data []byte) error {
	v := bson.RawValue{Type: bson.Type(typ), Value: data}
	if seconds, ok := v.AsInt64OK(); ok {
		m.Time = time.Unix(seconds, 0).UTC()
		return nil
	}
	if text, ok := v.StringValueOK(); ok {
		t, err := time.Parse(time.RFC3339, text)
		m.Time = t.UTC()
		return err
	}
	if t, ok := v.TimeOK(); ok {
		m.Time = t.UTC()
		return nil
	}
	if v.Type == bson.TypeNull {
		m.Time = time.Time{}
		return nil
	}
	return fmt.Errorf("want seconds since 1970 or RFC 3339 text, got %s", v.Type)
}

// MarshalBSONValue writes a date.
func (m Moment) MarshalBSONValue() (byte, []byte, error) {
	t, data, err := bson.MarshalValue(m.Time)
	return byte(t), data, err
}

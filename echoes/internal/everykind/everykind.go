// Package everykind is a service that takes every kind of type that echoesgen
// supports. Its tests prove what docs/types.md promises, on generated code.
package everykind

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"net/url"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

//go:generate go tool echoesgen

// Shared are the types that the driver decodes too, with the same result where it
// loses nothing.
//
//echoes:topic everykind.shared
type Shared struct {
	Text     string
	Name     Name
	Flag     bool
	Int      int
	Int8     int8
	Int16    int16
	Int32    int32
	Int64    int64
	Uint     uint
	Uint8    uint8
	Uint16   uint16
	Uint32   uint32
	Uint64   uint64
	Float32  float32
	Float64  float64
	Level    Level
	Decimal  bson.Decimal128
	Time     time.Time
	Date     bson.DateTime
	Duration time.Duration
	ID       bson.ObjectID

	Bytes  []byte
	Hash   [4]byte
	List   []string
	Triple [3]int
	Map    map[string]int
	Named  map[Name]*Part
	ByInt  map[int8]string
	ByUint map[uint16]string
	ByAddr map[netip.Addr]bool
	ByCode map[Code]int

	Pointer *string
	Deep    **Part
	Part    Part
	Parts   []Part
	Tree    *Tree
	Page    Page[Part]
	Alias   Alias
	Local   struct{ X, Y []int }
	Inline  Inline `bson:",inline"`
	*Behind `bson:",inline,omitempty"`
	Tagged  int8 `bson:"tag_name,omitempty,minsize"`
	Left    int  `bson:"-"`

	Any      any
	M        bson.M
	D        bson.D
	A        bson.A
	Raw      bson.Raw
	RawValue bson.RawValue
	Number   json.Number
	URL      url.URL
	Link     *url.URL

	Binary    bson.Binary
	Symbol    bson.Symbol
	Script    bson.JavaScript
	Timestamp bson.Timestamp
	Regex     bson.Regex
	DBPointer bson.DBPointer
	Scoped    bson.CodeWithScope
	Least     bson.MinKey
	Most      bson.MaxKey
}

// Name, Level and Code are named kinds.
type (
	Name  string
	Level int16
	Code  struct{ Letter byte }
)

// MarshalKey gives the form of a key.
func (c Code) MarshalKey() (string, error) { return string(rune(c.Letter)), nil }

// UnmarshalKey reads a key of one letter.
func (c *Code) UnmarshalKey(key string) error {
	if len(key) != 1 {
		return errors.New("want one letter")
	}
	c.Letter = key[0]
	return nil
}

// Part is a nested document.
type Part struct {
	SKU      string
	Quantity int32
	Price    float64
	Note     *string
}

// Tree contains itself in every way.
type Tree struct {
	Name     string
	Parent   *Tree
	Children []Tree
	ByName   map[string]*Tree
}

// Page is generic.
type Page[T any] struct {
	Items []T
	Next  *Page[T]
}

// Alias is another name of a generic instance.
type Alias = Page[map[string]int64]

// Inline belongs to the document around it.
type Inline struct {
	City   string
	Street *string
}

// Behind is embedded behind a pointer.
type Behind struct{ Country string }

// Foreign are types that the driver does not decode, or not in all their forms.
type Foreign struct {
	UUID   uuid.UUID
	UUIDs  []*uuid.UUID
	Addr   netip.Addr
	Prefix *netip.Prefix
	Big    big.Int
	BigPtr *big.Int
	Float  *big.Float
	JSON   json.RawMessage
	JSONs  []json.RawMessage
	Money  Money
	Sized  Sized
	Shade  Shade
	Rest   map[string]any `bson:",inline"`
}

// Money decodes itself from any value.
type Money struct{ cents int64 }

// UnmarshalBSONValue reads a whole number of cents.
func (m *Money) UnmarshalBSONValue(typ byte, data []byte) error {
	cents, ok := (bson.RawValue{Type: bson.Type(typ), Value: data}).AsInt64OK()
	if !ok {
		return errors.New("want cents")
	}
	m.cents = cents
	return nil
}

// Sized decodes itself from a document.
type Sized struct{ fields int }

// UnmarshalBSON counts the fields.
func (s *Sized) UnmarshalBSON(data []byte) error {
	elements, err := bson.Raw(data).Elements()
	s.fields = len(elements)
	return err
}

// Shade is stored as a number by the driver, and sent as text by others.
type Shade uint8

// UnmarshalText reads one letter.
func (s *Shade) UnmarshalText(text []byte) error {
	if len(text) != 1 {
		return errors.New("want one letter")
	}
	*s = Shade(text[0])
	return nil
}

// Checked are demands on values.
type Checked struct {
	ID       string               `bson:"id" echoes:"required"`
	Status   Status               `echoes:"required,enum"`
	Rank     Rank                 `echoes:"enum"`
	Statuses map[string][]*Status `echoes:"enum"`
	Month    time.Month           `echoes:"enum"`
	Range    Range
	Ranges   []*Range
	Percent  Percent
}

// Status is an enum of text.
type Status string

// The statuses.
const (
	Open Status = "open"
	Paid Status = "paid"
	Done Status = Paid // another name of a value
)

// Rank is an enum of numbers.
type Rank uint8

// The ranks.
const (
	Low Rank = iota + 1
	_
	High
)

// Range checks itself by pointer, Percent by value.
type Range struct{ From, To int }

// ErrRange is what Range.Validate returns.
var ErrRange = errors.New("from is after to")

// Validate reports an empty range.
func (r *Range) Validate() error {
	if r.From > r.To {
		return ErrRange
	}
	return nil
}

// Percent is at most 100.
type Percent int

// Validate reports a percentage out of range.
func (p Percent) Validate() error {
	if p < 0 || p > 100 {
		return errors.New("want 0 to 100")
	}
	return nil
}

// Service takes them all.
type Service struct{}

// Shared takes what the driver decodes too.
//
//echoes:event
func (Service) Shared(context.Context, Shared) error { return nil }

// Foreign takes other types.
//
//echoes:event
func (Service) Foreign(context.Context, Foreign) error { return nil }

// Checked takes what has to fit.
//
//echoes:event
func (Service) Checked(context.Context, Checked) error { return nil }

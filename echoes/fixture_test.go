package echoes

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The types below are decoded by hand in exactly the shape that echoesgen
// emits, so that the decoder is tested as it is used.

type level int16

type invoice struct {
	ID       string            `bson:"id"`
	Number   int64             `bson:"number"`
	Small    int8              `bson:"small"`
	Count    uint32            `bson:"count"`
	Big      uint64            `bson:"big"`
	Level    level             `bson:"level"`
	Rate     float64           `bson:"rate"`
	Ratio    float32           `bson:"ratio"`
	Paid     bool              `bson:"paid"`
	Total    bson.Decimal128   `bson:"total"`
	Issued   time.Time         `bson:"issued"`
	Due      *time.Time        `bson:"due"`
	Span     time.Duration     `bson:"span"`
	Ref      bson.ObjectID     `bson:"ref"`
	Hash     []byte            `bson:"hash"`
	Customer customer          `bson:"customer"`
	Parent   *customer         `bson:"parent"`
	Lines    []line            `bson:"lines"`
	Labels   map[string]string `bson:"labels"`
	Notes    []string          `bson:"notes"`
	Axes     [3]int            `bson:"axes"`
	Grid     [][]int           `bson:"grid"`
	Any      any               `bson:"any"`
	Extra    bson.M            `bson:"extra"`
}

type customer struct {
	Name  string            `bson:"name"`
	Email *string           `bson:"email"`
	Tags  map[string]*level `bson:"tags"`
}

type line struct {
	SKU      string  `bson:"sku"`
	Quantity int     `bson:"quantity"`
	Price    float64 `bson:"price"`
	Discount *int64  `bson:"discount"`
	Gift     bool    `bson:"gift"`
}

func decodeInvoice(d *Decoder, p *invoice) {
	for end := d.Begin(); d.Next(end); {
		switch string(d.Key()) {
		case "id":
			d.String(&p.ID)
		case "number":
			d.Int64(&p.Number)
		case "small":
			d.Int8(&p.Small)
		case "count":
			d.Uint32(&p.Count)
		case "big":
			d.Uint64(&p.Big)
		case "level":
			IntOf(d, &p.Level)
		case "rate":
			d.Float64(&p.Rate)
		case "ratio":
			d.Float32(&p.Ratio)
		case "paid":
			d.Bool(&p.Paid)
		case "total":
			d.Decimal128(&p.Total)
		case "issued":
			d.Time(&p.Issued)
		case "due":
			Ptr(d, &p.Due, (*Decoder).Time)
		case "span":
			d.Duration(&p.Span)
		case "ref":
			d.ObjectID(&p.Ref)
		case "hash":
			d.Bytes(&p.Hash)
		case "customer":
			decodeCustomer(d, &p.Customer)
		case "parent":
			Ptr(d, &p.Parent, decodeCustomer)
		case "lines":
			Slice(d, &p.Lines, decodeLine)
		case "labels":
			Map(d, &p.Labels, (*Decoder).String)
		case "notes":
			Slice(d, &p.Notes, (*Decoder).String)
		case "axes":
			Array(d, p.Axes[:], (*Decoder).Int)
		case "grid":
			Slice(d, &p.Grid, func(d *Decoder, p *[]int) { Slice(d, p, (*Decoder).Int) })
		case "any":
			d.Any(&p.Any)
		case "extra":
			d.M(&p.Extra)
		}
	}
}

func decodeCustomer(d *Decoder, p *customer) {
	for end := d.Begin(); d.Next(end); {
		switch string(d.Key()) {
		case "name":
			d.String(&p.Name)
		case "email":
			Ptr(d, &p.Email, (*Decoder).String)
		case "tags":
			Map(d, &p.Tags, Pointer(IntOf[level]))
		}
	}
}

func decodeLine(d *Decoder, p *line) {
	for end := d.Begin(); d.Next(end); {
		switch string(d.Key()) {
		case "sku":
			d.String(&p.SKU)
		case "quantity":
			d.Int(&p.Quantity)
		case "price":
			d.Float64(&p.Price)
		case "discount":
			Ptr(d, &p.Discount, (*Decoder).Int64)
		case "gift":
			d.Bool(&p.Gift)
		}
	}
}

// strictLine has required fields and checks itself.
type strictLine struct {
	SKU   string
	Price float64
	Rows  []strictLine
	Sub   *strictLine
}

var errNegative = errors.New("price must not be negative")

func (l *strictLine) Validate() error {
	if l.Price < 0 {
		return errNegative
	}
	return nil
}

func decodeStrictLine(d *Decoder, p *strictLine) {
	var seen uint64
	for end := d.Begin(); d.Next(end); {
		switch string(d.Key()) {
		case "sku":
			if d.Present() {
				seen |= 1 << 0
			}
			d.String(&p.SKU)
		case "price":
			if d.Present() {
				seen |= 1 << 1
			}
			d.Float64(&p.Price)
		case "rows":
			Slice(d, &p.Rows, decodeStrictLine)
		case "sub":
			Ptr(d, &p.Sub, decodeStrictLine)
		}
	}
	d.Require(seen, "sku", "price")
	d.Validate(p)
}

// raw marshals v as a whole value.
func raw(t testing.TB, v any) bson.RawValue {
	t.Helper()
	if v == nil {
		return bson.RawValue{Type: bson.TypeNull}
	}
	typ, b, err := bson.MarshalValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return bson.RawValue{Type: typ, Value: b}
}

func decimal128(t testing.TB, s string) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sampleInvoice is about 1.5 KB of BSON, like a real invoice with ten lines.
func sampleInvoice(t testing.TB) invoice {
	due := time.Date(2026, 4, 1, 12, 0, 0, 5e6, time.UTC)
	email := "billing@example.com"
	one, two := level(1), level(2)
	inv := invoice{
		ID: "inv-2026-000817", Number: 817, Small: -7, Count: 42, Big: 1 << 40, Level: 3, Rate: 0.19, Ratio: 0.5, Paid: true,
		Total: decimal128(t, "12345.67"), Issued: due.AddDate(0, -1, 0), Due: &due, Span: 36 * time.Hour,
		Ref: bson.ObjectID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, Hash: []byte("0123456789abcdef"),
		Customer: customer{Name: "Ada Lovelace", Email: &email, Tags: map[string]*level{"vip": &one, "since": &two}},
		Parent:   &customer{Name: "Analytical Engines Ltd."},
		Labels:   map[string]string{"region": "eu-west-1", "channel": "partner", "campaign": "spring"},
		Notes:    []string{"first reminder sent", "customer asked for a copy by post"},
		Axes:     [3]int{1, 2, 3}, Grid: [][]int{{1, 2}, {}, {3}},
		Any: bson.D{{Key: "k", Value: int32(1)}}, Extra: bson.M{"source": "import"},
	}
	for i := range 10 {
		discount := int64(i)
		inv.Lines = append(inv.Lines, line{
			SKU: fmt.Sprintf("sku-%06d", i), Quantity: i + 1, Price: 9.99 * float64(i+1), Discount: &discount, Gift: i%2 == 0,
		})
	}
	return inv
}

// rapidTB lets helpers for testing.TB report to rapid, which then shrinks.
type rapidTB struct {
	testing.TB
	t *rapid.T
}

func (r rapidTB) Helper()                           {}
func (r rapidTB) Fatal(args ...any)                 { r.t.Fatal(args...) }
func (r rapidTB) Fatalf(format string, args ...any) { r.t.Fatalf(format, args...) }

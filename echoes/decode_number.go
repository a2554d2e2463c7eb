package echoes

import (
	"encoding/binary"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

type signed interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64
}

type unsigned interface {
	~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type float interface {
	~float32 | ~float64
}

// Int reads any number without a fraction that fits.
func (d *Decoder) Int(p *int) { IntOf(d, p) }

// Int8 reads any number without a fraction that fits.
func (d *Decoder) Int8(p *int8) { IntOf(d, p) }

// Int16 reads any number without a fraction that fits.
func (d *Decoder) Int16(p *int16) { IntOf(d, p) }

// Int32 reads any number without a fraction that fits.
func (d *Decoder) Int32(p *int32) { IntOf(d, p) }

// Int64 reads any number without a fraction that fits.
func (d *Decoder) Int64(p *int64) { IntOf(d, p) }

// Uint reads any number without a fraction that fits.
func (d *Decoder) Uint(p *uint) { UintOf(d, p) }

// Uint8 reads any number without a fraction that fits.
func (d *Decoder) Uint8(p *uint8) { UintOf(d, p) }

// Uint16 reads any number without a fraction that fits.
func (d *Decoder) Uint16(p *uint16) { UintOf(d, p) }

// Uint32 reads any number without a fraction that fits.
func (d *Decoder) Uint32(p *uint32) { UintOf(d, p) }

// Uint64 reads any number without a fraction that fits.
func (d *Decoder) Uint64(p *uint64) { UintOf(d, p) }

// Float64 reads any number that a float64 holds without loss, which includes a
// Decimal128 whose decimal is the shortest that stands for the float64.
func (d *Decoder) Float64(p *float64) { FloatOf(d, p) }

// Float32 reads any number that a float32 holds without loss.
func (d *Decoder) Float32(p *float32) { FloatOf(d, p) }

// IntOf is Int for every signed integer type, named ones included.
func IntOf[T signed](d *Decoder, p *T) {
	negative, n, ok := d.integer(intName[T])
	if !ok {
		return
	}
	v := int64(n)
	if negative {
		v = -v
	}
	// A magnitude above int64 shows as a wrong sign (-2^63 is its own negation
	// and comes out right), one above T as a change by the conversion.
	if int64(T(v)) != v || n != 0 && negative != (v < 0) {
		d.failRange(intName[T]())
		return
	}
	*p = T(v)
}

// UintOf is Uint for every unsigned integer type, named ones included.
func UintOf[T unsigned](d *Decoder, p *T) {
	negative, n, ok := d.integer(uintName[T])
	if !ok {
		return
	}
	if negative || uint64(T(n)) != n {
		d.failRange(uintName[T]())
		return
	}
	*p = T(n)
}

// FloatOf is Float64 for every floating point type, named ones included.
func FloatOf[T float](d *Decoder, p *T) {
	if d.err != nil {
		return
	}
	b := d.buf[d.off:d.end]
	switch d.typ {
	case bson.TypeDouble:
		f := doubleAt(b)
		if v := T(f); float64(v) == f || f != f {
			*p = v
			return
		}
	case bson.TypeInt32:
		n := int32(binary.LittleEndian.Uint32(b))
		if v := T(n); int64(v) == int64(n) {
			*p = v
			return
		}
	case bson.TypeInt64:
		n := int64(binary.LittleEndian.Uint64(b))
		if v := T(n); exactInt(float64(v), n) {
			*p = v
			return
		}
	case bson.TypeDecimal128:
		bits := 64
		if T(1)+T(1e-10) == 1 {
			bits = 32
		}
		if f, ok := decimalAt(b).float(bits); ok {
			*p = T(f)
			return
		}
	case bson.TypeNull, bson.TypeUndefined:
		*p = 0
		return
	default:
		d.failWant(floatName[T]())
		return
	}
	d.failf("want ", floatName[T](), ", got ", typeName(d.typ), " ", d.numberText(), ", which it cannot hold without loss")
}

// doubleAt reads the 8 bytes of a double.
func doubleAt(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }

// exactInt reports whether f is n.
func exactInt(f float64, n int64) bool {
	// float64(math.MaxInt64) is 2^63, which int64 cannot hold.
	return f < 1<<63 && int64(f) == n
}

// integer reads the number under the cursor as a sign and a magnitude. ok is
// false when there is nothing to store; null is 0. A magnitude above 2^64-1 is
// reported here, tighter bounds by the caller.
func (d *Decoder) integer(name func() string) (negative bool, n uint64, ok bool) {
	if d.err != nil {
		return false, 0, false
	}
	b := d.buf[d.off:d.end]
	switch d.typ {
	case bson.TypeInt32:
		return signMagnitude(int64(int32(binary.LittleEndian.Uint32(b))))
	case bson.TypeInt64:
		return signMagnitude(int64(binary.LittleEndian.Uint64(b)))
	case bson.TypeDouble:
		f := doubleAt(b)
		if f != math.Trunc(f) || math.IsInf(f, 0) {
			d.failInteger(name())
			return false, 0, false
		}
		if abs := math.Abs(f); abs < 1<<64 {
			return f < 0, uint64(abs), true
		}
		d.failRange(name())
	case bson.TypeDecimal128:
		dec := decimalAt(b)
		n, whole, fits := dec.integer()
		switch {
		case !whole:
			d.failInteger(name())
		case !fits:
			d.failRange(name())
		default:
			return dec.negative && n != 0, n, true
		}
	case bson.TypeNull, bson.TypeUndefined:
		return false, 0, true
	default:
		d.failWant(name())
	}
	return false, 0, false
}

func signMagnitude(v int64) (bool, uint64, bool) {
	if v < 0 {
		return true, -uint64(v), true
	}
	return false, uint64(v), true
}

func (d *Decoder) failInteger(want string) {
	d.failf("want ", want, ", got ", typeName(d.typ), " ", d.numberText(), ", which is not a whole number")
}

func (d *Decoder) failRange(want string) {
	d.failf("want ", want, ", got ", typeName(d.typ), " ", d.numberText(), ", which is out of range")
}

// numberText prints the number under the cursor for an error.
func (d *Decoder) numberText() string {
	b := d.buf[d.off:d.end]
	switch d.typ {
	case bson.TypeInt32:
		return strconv.FormatInt(int64(int32(binary.LittleEndian.Uint32(b))), 10)
	case bson.TypeInt64:
		return strconv.FormatInt(int64(binary.LittleEndian.Uint64(b)), 10)
	case bson.TypeDouble:
		return strconv.FormatFloat(doubleAt(b), 'g', -1, 64)
	default:
		return decimalAt(b).value().String()
	}
}

// The names that errors give to T: the kind, also for a named type. They are
// functions because they are needed only on failure.

func intName[T signed]() string {
	bits := 1
	for v := T(1); v > 0; v <<= 1 {
		bits++
	}
	return "int" + strconv.Itoa(bits)
}

func uintName[T unsigned]() string {
	bits := 0
	for v := T(1); v > 0; v <<= 1 {
		bits++
	}
	return "uint" + strconv.Itoa(bits)
}

func floatName[T float]() string {
	if T(1)+T(1e-10) == 1 {
		return "float32"
	}
	return "float64"
}

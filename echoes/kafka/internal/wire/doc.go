// Package wire converts between the parameters of an event, a BSON value, and
// the text that a Kafka record carries (spec 7.7).
//
// # Written
//
// The text is the JSON object {"params": ...}. Node's clients evaluate it as
// JavaScript, which JSON is; other software may parse it. What BSON has and JSON
// has not is written in the form that Node's own values take when they become
// JSON:
//
//	DateTime      "2026-08-04T12:00:00.000Z", which is RFC 3339
//	ObjectID      its 24 hexadecimal digits
//	Decimal128    {"$numberDecimal": "12.50"}
//	Binary        {"type": "Buffer", "data": [0, 255]}, a subtype other than 0
//	              as one more field "subtype"
//	double        with a point or an exponent, so that 1.0 stays a double
//	undefined     null
//
// Four values have no form in JSON at all. They are written in JavaScript, which
// Node and this package read and other JSON parsers refuse: NaN, Infinity,
// -Infinity, and a date outside the years 0 to 9999 as new Date("+012026-...").
// The types that only databases use (timestamp, regular expression, code,
// pointer, symbol, min key, max key) are refused.
//
// # Read
//
// JSON, and what the package serialize-javascript writes, with which Node's
// clients publish: undefined, NaN, Infinity, BigInt("1") or 1n, new Date("..."),
// new Map([...]), new Set([...]), new URL("...") and sparse arrays. It is parsed
// by a grammar that knows these forms and nothing else; nothing is evaluated.
//
// Numbers become the BSON type that loses nothing: int32, int64, double, and
// Decimal128 for those that neither int64 nor double hold. An integer beyond 2^53
// that is the shortest text of a double becomes a Decimal128 too: it may stand for
// either, and from a Decimal128 both a float64 and an int64 can be decoded.
package wire

package resolve

const bsonPath = "go.mongodb.org/mongo-driver/v2/bson"

// exact are the types that a method of the decoder reads, by import path and
// name.
var exact = map[string]string{
	"time.Time":                "Time",
	"time.Duration":            "Duration",
	"encoding/json.Number":     "JSONNumber",
	"encoding/json.RawMessage": "JSON",
	"math/big.Int":             "BigInt",
	"net/url.URL":              "URL",
	bsonPath + ".ObjectID":     "ObjectID",
	bsonPath + ".DateTime":     "DateTime",
	bsonPath + ".Decimal128":   "Decimal128",
	bsonPath + ".Raw":          "Raw",
	bsonPath + ".RawValue":     "RawValue",
	bsonPath + ".M":            "M",
	bsonPath + ".D":            "D",
}

// native are the types that stand for one type of BSON each.
var native = map[string]bool{
	bsonPath + ".Binary":        true,
	bsonPath + ".Symbol":        true,
	bsonPath + ".JavaScript":    true,
	bsonPath + ".Timestamp":     true,
	bsonPath + ".Regex":         true,
	bsonPath + ".DBPointer":     true,
	bsonPath + ".CodeWithScope": true,
	bsonPath + ".MinKey":        true,
	bsonPath + ".MaxKey":        true,
}

// nativeHelper is the function of echoes for them.
const nativeHelper = "Native"

// refused are types that look decodable by their structure and are not, because
// they stand for something else in BSON, and what to use instead.
var refused = map[string]string{
	bsonPath + ".E":         "use bson.D",
	bsonPath + ".Null":      useRawValue,
	bsonPath + ".Undefined": useRawValue,
	bsonPath + ".Vector":    "use bson.Binary, and bson.NewVectorFromBinary in the listener",
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore.Document": "use bson.Raw",
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore.Array":    useRawValue,
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore.Value":    useRawValue,
}

const (
	useRawValue = "use bson.RawValue"
	leaveOut    = "use another type, or leave the field out with `bson:\"-\"`"
)

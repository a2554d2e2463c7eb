package generator_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/orionjs/orion-go/generator"
)

// TestAsyncAPI_7_1_Documents: the document of each scenario is the expected one,
// as YAML and as JSON it is the same, and the schema of AsyncAPI accepts it.
func TestAsyncAPI_7_1_Documents(t *testing.T) {
	t.Parallel()
	m := newModule(t)
	scenarios := m.scenarios("asyncapi")
	valid := asyncAPISchema(t)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			is := is.New(t)
			cfg := generator.Config{Dir: m.dir, Patterns: []string{"./" + s.name + "/..."}, Env: m.env()}
			doc := generator.Document{Title: "Orders", Version: "1.2.3"}
			described, err := generator.AsyncAPI(cfg, doc)
			is.NoErr(err)
			if *update {
				s.setGolden(t, []txtar.File{{Name: "want/asyncapi.yaml", Data: described.Content}})
			} else if want := s.golden()["want/asyncapi.yaml"]; string(described.Content) != want {
				t.Errorf("%s", firstDifference(string(described.Content), want))
			}
			var fromYAML any
			is.NoErr(yaml.Unmarshal(described.Content, &fromYAML))

			doc.JSON = true
			asJSON, err := generator.AsyncAPI(cfg, doc)
			is.NoErr(err)
			var fromJSON any
			is.NoErr(json.Unmarshal(asJSON.Content, &fromJSON))
			is.Equal(normal(t, fromYAML), normal(t, fromJSON))
			instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON.Content))
			is.NoErr(err)
			if err := valid.Validate(instance); err != nil {
				t.Fatalf("not an AsyncAPI document: %v", err)
			}
			for _, part := range []string{`"action": "receive"`, `"channels": {`, `"$ref": "#/channels/order.created"`, `"title": "Orders",`} {
				broken := strings.Replace(string(asJSON.Content), part, strings.Replace(part, ":", "x:", 1), 1)
				broken = strings.Replace(broken, `"x: `, `x": `, 1)
				instance, err := jsonschema.UnmarshalJSON(strings.NewReader(broken))
				is.NoErr(err)
				if valid.Validate(instance) == nil {
					t.Errorf("the schema accepts a document without %s", part)
				}
			}
			checkPayloads(t, instance)
		})
	}
}

// normal gives values that are equal in JSON the same form.
func normal(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// asyncAPISchema is the schema of AsyncAPI 3.0.0. See its licence beside it.
func asyncAPISchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("internal", "asyncapi", "testdata", "asyncapi-3.0.0.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("http://asyncapi.com/definitions/3.0.0/asyncapi.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("http://asyncapi.com/definitions/3.0.0/asyncapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// checkPayloads compares what the schema of order.created accepts with what the
// listener does.
func checkPayloads(t *testing.T, document any) {
	t.Helper()
	const at = "https://example.com/asyncapi.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	if err := c.AddResource(at, document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(at + "#/channels/order.created/messages/Order/payload")
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"_id": "0123456789abcdef01234567", "status": "open", "customerId": "c", "lines": [{"price": 1.5, "other": "x"}]`
	for text, ok := range map[string]bool{
		`{"params": ` + good + `}}`:                                                                                            true,
		`{"params": ` + good + `, "level": 10, "parent": ` + good + `}}}`:                                                      true,
		`{"params": ` + good + `, "level": null, "paidAt": null, "parent": null, "x": 1}}`:                                     true,
		`{"params": ` + good + `, "labels": {"a": 1, "b": null}, "tree": [[], [[]]]}}`:                                         true,
		`{"params": ` + strings.Replace(good, "customerId", "customerid", 1) + `}}`:                                            true,
		`{"params": ` + good + `, "total": {"$numberDecimal": "12.50"}, "blob": {"type": "Buffer", "data": [1, 255]}}}`:        true,
		`{"params": ` + good + `, "total": 12.5, "blob": null, "raw": null, "trace": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}}`: true,
		`{"params": ` + good + `, "total": "12.50"}}`:                                                                          false,
		`{"params": ` + good + `, "blob": {"type": "Buffer", "data": [256]}}}`:                                                 false,
		good + `}`: false,
		`{"params": ` + strings.Replace(good, `"open"`, `"broken"`, 1) + `}}`:                     false,
		`{"params": ` + strings.Replace(good, `"customerId": "c", `, ``, 1) + `}}`:                false,
		`{"params": ` + strings.Replace(good, `"_id"`, `"id"`, 1) + `}}`:                          false,
		`{"params": ` + strings.Replace(good, `[{"price": 1.5, "other": "x"}]`, `null`, 1) + `}}`: false,
		`{"params": ` + good + `, "level": 2}}`:                                                   false,
		`{"params": ` + good + `, "labels": {"a": 128}}}`:                                         false,
		`{"params": ` + good + `, "parent": {}}}`:                                                 false,
		`{"params": ` + good + `, "pair": [1, 2, 3]}}`:                                            false,
		`{"params": ` + good + `, "count": -1}}`:                                                  false,
		`{"params": ` + good + `, "paid": "yes"}}`:                                                false,
		`{"params": ` + strings.Replace(good, `"x"`, `1`, 1) + `}}`:                               false,
	} {
		instance, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := schema.Validate(instance); (err == nil) != ok {
			t.Errorf("%s: want accepted %v, got %v", text, ok, err)
		}
	}
}

// Package asyncapi describes the topics and payloads of services as an AsyncAPI 3
// document, from the model that their code is generated from.
package asyncapi

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// Info is what a document says about itself.
type Info struct {
	// Title and Version are those of the application that is described.
	Title, Version string
}

// JSON returns the document of packages, indented. The same model gives the same
// bytes.
func JSON(info Info, pkgs []*resolve.Package) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(describe(info, pkgs)); err != nil {
		return nil, fmt.Errorf("writing the AsyncAPI document: %w", err)
	}
	return out.Bytes(), nil
}

// YAML returns the same document as YAML.
func YAML(info Info, pkgs []*resolve.Package) ([]byte, error) {
	content, err := JSON(info, pkgs)
	if err != nil {
		return nil, err
	}
	// JSON is YAML: read it as such, and write it in YAML's own style. The order of
	// keys stays.
	var node yaml.Node
	if err := yaml.Unmarshal(content, &node); err != nil {
		return nil, fmt.Errorf("writing the AsyncAPI document: %w", err)
	}
	ownStyle(&node)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return nil, fmt.Errorf("writing the AsyncAPI document: %w", err)
	}
	return out.Bytes(), nil
}

// ownStyle takes braces and quotes away where YAML does without. What is empty
// has no other form.
func ownStyle(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		ownStyle(c)
	}
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

func (o *object) set(name string, value any) { *o = append(*o, member{name, value}) }

func (o object) has(name string) bool {
	for _, m := range o {
		if m.name == name {
			return true
		}
	}
	return false
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		var value bytes.Buffer
		enc := json.NewEncoder(&value)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), bytes.TrimSpace(value.Bytes())...)
	}
	return append(out, '}'), nil
}

package doccheck

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// diagrams begin with their kind; what GitHub draws was looked at when they were written (see CONTRIBUTING.md).
var diagrams = regexp.MustCompile(`^(flowchart (LR|TD)|sequenceDiagram|stateDiagram-v2)\n`)

// TestPages_DataIsWellFormed parses blocks of JSON and YAML, and looks at the heads of diagrams.
func TestPages_DataIsWellFormed(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			switch b.lang {
			case "json":
				for line := range strings.SplitSeq(jsonTexts(b.text), "\x00") {
					if !json.Valid([]byte(line)) {
						t.Errorf("%s:%d: not JSON: %s", b.page, b.line, line)
					}
				}
			case "yaml":
				var into any
				if err := yaml.Unmarshal([]byte(b.text), &into); err != nil {
					t.Errorf("%s:%d: not YAML: %v", b.page, b.line, err)
				}
			case "mermaid":
				if !diagrams.MatchString(b.text) {
					t.Errorf("%s:%d: a diagram of an unknown kind: want %s", b.page, b.line, diagrams)
				}
			}
		}
	}
}

// jsonTexts separates the lines of a block that has a document on each.
func jsonTexts(text string) string {
	if json.Valid([]byte(text)) {
		return text
	}
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\x00")
}

package doccheck

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
)

var fieldRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")

// TestConfiguration_HasEveryField: the tables of docs/configuration.md name the fields of the structs, in their order.
// What pulse.Config is, with its values, package pulse tests itself.
func TestConfiguration_HasEveryField(t *testing.T) {
	t.Parallel()
	prose := pageNamed(t, "docs/configuration.md").prose
	for name, config := range map[string]any{
		"echoes.Config": echoes.Config{}, "echoes.Pulse": echoes.Pulse{}, "kafka.Config": kafka.Config{},
	} {
		_, section, found := strings.Cut(prose, "\n## "+name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var listed, want []string
		for _, row := range fieldRow.FindAllStringSubmatch(section, -1) {
			listed = append(listed, row[1])
		}
		for field := range reflect.TypeOf(config).Fields() {
			want = append(want, field.Name)
		}
		if !found || !reflect.DeepEqual(listed, want) {
			t.Errorf("docs/configuration.md lists of %s the fields %v, want %v", name, listed, want)
		}
	}
}

package console

import (
	"html"
	"html/template"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/internal/visible"
)

// maxPayload is how much of a payload's text is shown. A page with more of it helps nobody.
const maxPayload = 32 << 10

// payload is the data of an event as Extended JSON, with its parts marked for the style sheet.
type payload struct {
	Text template.HTML
	// Cut tells that it was longer.
	Cut bool
	// Bytes is the size of the stored document.
	Bytes int
}

// formatPayload never fails: what is no document is said to be none.
func formatPayload(raw bson.RawValue) payload {
	size := len(raw.Value)
	text, err := extendedJSON(raw)
	if err != nil {
		return payload{Text: template.HTML(html.EscapeString("not readable as BSON: " + trouble(err))), Bytes: size} //nolint:gosec // escaped
	}
	text = visible.Text(text)
	cut := len(text) > maxPayload
	if cut {
		text = text[:maxPayload]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	return payload{Text: highlight(text), Cut: cut, Bytes: size}
}

// extendedJSON writes a value in the relaxed form, in which ordinary numbers and texts are plain.
func extendedJSON(raw bson.RawValue) (string, error) {
	// Only documents can be marshaled, so the value is put into one and taken out again.
	out, err := bson.MarshalExtJSONIndent(bson.D{{Key: "v", Value: raw}}, false, false, "", "  ")
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(string(out)), "{\n  \"v\": "), "\n}")
	return oneLine.ReplaceAllString(strings.ReplaceAll(text, "\n  ", "\n"), "{$1}"), nil
}

// oneLine matches what Extended JSON makes of an ObjectID, a time and the like: a document of one plain field. No
// string has a line break in it, JSON escapes them.
var oneLine = regexp.MustCompile(`\{\n\s*("\$\w+": (?:"(?:[^"\\]|\\.)*"|[^{\[\n]+))\n\s*\}`)

// jsonToken matches the parts of JSON that are marked: a string with the colon that makes it a key, a number, a word.
var jsonToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[\d.eE+-]*|\b(?:true|false|null)\b`)

// highlight escapes the text and marks keys, strings and other values.
func highlight(text string) template.HTML {
	var b strings.Builder
	end := 0
	for _, m := range jsonToken.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(html.EscapeString(text[end:m[0]]))
		end = m[1]
		class, stop := "v", m[1]
		switch {
		case m[2] >= 0:
			class, stop = "k", m[2]
		case text[m[0]] == '"':
			class = "s"
		}
		b.WriteString(`<span class="j-` + class + `">` + html.EscapeString(text[m[0]:stop]) + `</span>` + html.EscapeString(text[stop:m[1]]))
	}
	b.WriteString(html.EscapeString(text[end:]))
	return template.HTML(b.String()) //nolint:gosec // each part is escaped
}

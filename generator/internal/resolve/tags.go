package resolve

import (
	"fmt"
	"go/types"
	"reflect"
	"regexp"
	"strings"

	"github.com/orionjs/orion-go/internal/spelling"
)

// tag is what the tags of a field say.
type tag struct {
	key string
	// given says that there is a bson or echoes tag, named that it has a name.
	given, named           bool
	skip, inline, required bool
	omitEmpty, minSize     bool
	// enum says that only constants of the field's type are values.
	enum bool
}

// lostTag finds tags that are there and not found: a blank behind the colon, a
// comma between tags, a missing quote.
var lostTag = regexp.MustCompile(`(?:^|[\s,;])(bson|echoes)\s*[:=]`)

var bsonOptions = []string{"omitempty", "minsize", "truncate", "inline"}

// tag reads the tags of a field as the driver does, and reports what would be
// ignored silently.
func (r *resolver) tag(v *types.Var, text string) tag {
	st := reflect.StructTag(text)
	out := tag{key: strings.ToLower(v.Name())}
	bson, given := st.Lookup("bson")
	if !given && text != "" && !strings.Contains(text, ":") {
		bson, given = text, true // the driver takes such a tag as a whole
	}
	echoes, marked := st.Lookup("echoes")
	for _, m := range lostTag.FindAllStringSubmatch(text, -1) {
		if m[1] == "bson" && given || m[1] == "echoes" && marked {
			continue
		}
		r.within("."+v.Name(), func() {
			r.unsupported(v, fmt.Sprintf("the %s tag is malformed, so it would be ignored", m[1]), "tags are separated by blanks and quoted, like `json:\"id\" bson:\"id\"`")
		})
	}
	r.tagKeys(v, text)
	out.given = given || marked
	if bson == "-" {
		out.skip = true
		if marked {
			r.within("."+v.Name(), func() {
				r.unsupported(v, "the field is left out by its bson tag, so its echoes tag has no effect", "remove one of the tags")
			})
		}
		return out
	}
	name, options, _ := strings.Cut(bson, ",")
	if name != "" {
		out.key, out.named = name, true
	}
	for _, option := range strings.Split(options, ",") {
		switch option {
		case "inline":
			out.inline = true
		case "omitempty":
			out.omitEmpty = true
		case "minsize":
			out.minSize = true
		case "truncate":
			r.within("."+v.Name(), func() {
				r.unsupported(v, "the bson option truncate loses digits, and numbers convert only without loss", "use float64, or remove the option")
			})
		case "required", "enum":
			r.within("."+v.Name(), func() {
				r.unsupported(v, fmt.Sprintf("the bson option %s has no effect", option), fmt.Sprintf("the tag is `echoes:%q`", option))
			})
		default:
			if near, ok := spelling.Nearest(option, bsonOptions); ok && near != option {
				r.within("."+v.Name(), func() {
					r.unsupported(v, fmt.Sprintf("unknown bson option %q", option), fmt.Sprintf("did you mean %s?", near))
				})
			}
		}
	}
	if marked {
		r.echoesTag(v, echoes, &out)
	}
	return out
}

// echoesTag reads the options of an echoes tag.
func (r *resolver) echoesTag(v *types.Var, text string, out *tag) {
	if out.inline {
		r.within("."+v.Name(), func() {
			r.unsupported(v, "an inlined field has no key of its own, so its echoes tag has no effect", "mark the fields in it")
		})
		return
	}
	for _, option := range strings.Split(text, ",") {
		switch option {
		case "required":
			out.required = true
		case "enum":
			out.enum = true
		default:
			r.within("."+v.Name(), func() {
				r.unsupported(v, fmt.Sprintf("unknown echoes option %q", option), "write `echoes:\"required\"`, `echoes:\"enum\"` or `echoes:\"required,enum\"`")
			})
		}
	}
}

// tagKey matches the key of one tag.
var tagKey = regexp.MustCompile(`([A-Za-z]+):"(?:[^"\\]|\\.)*"`)

// tagKeys reports tags that nobody reads, because their key is nearly bson or
// echoes. Structs of other modules are none of the reader's business.
func (r *resolver) tagKeys(v *types.Var, text string) {
	if v.Pkg() == nil || !r.ours(v.Pkg()) {
		return
	}
	for _, m := range tagKey.FindAllStringSubmatch(text, -1) {
		lower := strings.ToLower(m[1])
		for meant, most := range map[string]int{"bson": 1, "echoes": 2} {
			// Every J of json is one replacement away from bson.
			if m[1] != meant && lower != "json" && spelling.Distance(lower, meant) <= most {
				r.within("."+v.Name(), func() {
					r.unsupported(v, fmt.Sprintf("the tag %s has no effect", m[0]), fmt.Sprintf("did you mean %s%s?", meant, m[0][len(m[1]):]))
				})
			}
		}
	}
}

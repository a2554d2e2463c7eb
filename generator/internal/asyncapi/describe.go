package asyncapi

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/orionjs/orion-go/generator/internal/directive"
	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// about tells readers how the two forms of a payload relate.
const about = "Written by echoesgen. Payloads are described in their JSON form, which Kafka carries. " +
	"Pulse stores the same structure as BSON: date-time is a date, whole numbers are int32 or int64."

// describe builds the document.
func describe(info Info, pkgs []*resolve.Package) object {
	s := &schemas{}
	for _, p := range pkgs {
		for _, service := range p.Services {
			for _, l := range service.Listeners {
				s.collect(l.Params)
			}
		}
		for _, t := range p.Topics {
			s.collect(t.Params)
		}
	}
	s.nameComponents()

	c := &channels{schemas: s, ids: make(map[string]string), taken: make(map[string]bool)}
	operations := object{}
	for _, p := range pkgs {
		for _, service := range p.Services {
			for _, l := range service.Listeners {
				operations.set(operationID(l.FullName, operations), c.receive(l))
			}
		}
		for _, t := range p.Topics {
			name := p.Types.Name() + "." + t.Publish
			operations.set(operationID(name, operations), c.send(name, t))
		}
	}
	doc := object{
		{"asyncapi", "3.0.0"},
		{"info", object{{"title", info.Title}, {"version", info.Version}, {"description", about}}},
		{"defaultContentType", "application/json"},
		{"channels", c.object()},
		{"operations", operations},
	}
	if components := s.object(); len(components) > 0 {
		doc.set("components", object{{"schemas", components}})
	}
	return doc
}

// channels are the topics in the order of their first listener.
type channels struct {
	schemas *schemas
	list    []*channel
	ids     map[string]string // by topic
	taken   map[string]bool
}

type channel struct {
	id, topic string
	// messages are the payloads of the topic as listeners read them, by name.
	messages object
	// payloads has the name of the message with each payload.
	payloads typeutil.Map
}

// unsafe matches what a key of the document should not contain.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// channel returns the channel of a topic.
func (c *channels) channel(topic string) *channel {
	if id, ok := c.ids[topic]; ok {
		return c.list[slices.IndexFunc(c.list, func(x *channel) bool { return x.id == id })]
	}
	id := unique(unsafe.ReplaceAllString(topic, "_"), func(id string) bool { return c.taken[id] })
	c.ids[topic], c.taken[id] = id, true
	out := &channel{id: id, topic: topic, messages: object{}}
	c.list = append(c.list, out)
	return out
}

// unique adds a number to a name that is taken.
func unique(name string, taken func(string) bool) string {
	if name == "" {
		name = "_"
	}
	for i, base := 2, name; taken(name); i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	return name
}

func (c *channels) object() object {
	out := object{}
	for _, x := range c.list {
		out.set(x.id, object{{"address", x.topic}, {"messages", x.messages}})
	}
	return out
}

// receive is the operation of a listener.
func (c *channels) receive(l *resolve.Listener) object {
	out := c.operation("receive", l.FullName, l.Topic, docText(l), l.Params)
	out.set("x-echoes", settings(l))
	return out
}

// send is the operation of a type with a topic.
func (c *channels) send(name string, t *resolve.Topic) object {
	return c.operation("send", name, t.Name, "", t.Params)
}

func (c *channels) operation(action, title, topic, doc string, t *resolve.Type) object {
	x := c.channel(topic)
	message := c.message(x, t)
	out := object{{"action", action}, {"channel", reference("channels", x.id)}, {"title", title}}
	if doc != "" {
		out.set("description", doc)
	}
	out.set("messages", []object{reference("channels", x.id, "messages", message)})
	return out
}

// message adds the payload of a listener to a channel, once for each type. What
// is on the wire is the payload under the key params.
func (c *channels) message(x *channel, t *resolve.Type) string {
	if name, ok := x.payloads.At(t.Go).(string); ok {
		return name
	}
	name := unique(unsafe.ReplaceAllString(shortName(t.Go), "_"), x.messages.has)
	x.payloads.Set(t.Go, name)
	x.messages.set(name, object{
		{"name", x.topic},
		{"payload", object{
			{"type", "object"},
			{"required", []string{"params"}},
			{"properties", object{{"params", c.schemas.schema(t)}}},
		}},
	})
	return name
}

// settings are what the directive says.
func settings(l *resolve.Listener) object {
	out := object{{"kind", string(l.Kind)}}
	if l.Kind == directive.Batch {
		out.set(string(directive.BatchSize), l.BatchSize)
	}
	for _, s := range l.Settings {
		value := s.Value
		if d, ok := value.(time.Duration); ok {
			value = d.String()
		}
		out.set(string(s.Key), value)
	}
	return out
}

// docText is the doc comment of a method, without its directive.
func docText(l *resolve.Listener) string {
	if l.Decl == nil || l.Decl.Doc == nil {
		return ""
	}
	return strings.TrimSpace(l.Decl.Doc.Text())
}

// operationID makes a key of a method's name: shop.(*Orders).Created becomes
// shop.Orders.Created.
func operationID(fullName string, taken object) string {
	id := strings.NewReplacer("(*", "", ")", "").Replace(fullName)
	return unique(unsafe.ReplaceAllString(id, "_"), taken.has)
}

// reference points into the document.
func reference(path ...string) object {
	for i, p := range path {
		path[i] = url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
	}
	return object{{"$ref", "#/" + strings.Join(path, "/")}}
}

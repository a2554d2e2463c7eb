package directive

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/diag"
	"github.com/orionjs/orion-go/internal/spelling"
)

// topicName is the name of the directive that gives a type its topic:
//
//	//echoes:topic order.created
//	type OrderCreated struct {
const topicName = "topic"

// TypeTopic is a type with a topic.
type TypeTopic struct {
	Spec *ast.TypeSpec
	// Pos is where the directive begins, and TopicPos where the topic stands.
	Pos, TopicPos token.Pos
	Topic         string
}

// Topics returns the types of a file that have a topic, in the order of the
// source, and reports every //echoes:topic that has no effect.
func Topics(file File, problems *diag.List) []TypeTopic {
	s := &scanner{file, problems}
	specs := typeDocs(file.Syntax)
	var out []TypeTopic
	for _, group := range file.Syntax.Comments {
		spec := specs[group]
		first := ""
		for _, c := range group.List {
			d, ok := ast.ParseDirective(c.Pos(), c.Text)
			if !ok && spec != nil && file.Ineffective == "" {
				s.topicSlip(c)
			}
			if !ok || d.Tool != tool || d.Name != topicName {
				continue
			}
			switch topic, pos := s.topicArg(d); {
			case file.Ineffective != "":
				s.report(c.Pos(), fmt.Sprintf("//%s:%s has no effect: %s", d.Tool, d.Name, topicless(file.Ineffective)), strings.Replace(file.Fix, "method", "type", 1))
			case spec == nil:
				s.misplacedTopic(c)
			case topic == "":
			case first != "":
				s.report(c.Pos(), fmt.Sprintf("%s has two topics, first %s", spec.Name.Name, first), "one type has one topic: declare another type for the second, as in type Other "+spec.Name.Name)
			default:
				first = topic
				out = append(out, TypeTopic{Spec: spec, Pos: d.Slash, TopicPos: pos, Topic: topic})
			}
		}
	}
	return out
}

// topicless says why a file's directives have no effect, for a type.
func topicless(why string) string {
	switch {
	case strings.Contains(why, "test file"):
		return "generated code does not see test files"
	case strings.Contains(why, "listener"):
		return "build constraints exclude the file"
	}
	return why
}

// typeDocs has the comments that belong to one type each.
func typeDocs(file *ast.File) map[*ast.CommentGroup]*ast.TypeSpec {
	out := make(map[*ast.CommentGroup]*ast.TypeSpec)
	for _, decl := range file.Decls {
		types, ok := decl.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		for _, spec := range types.Specs {
			t := spec.(*ast.TypeSpec)
			if t.Doc != nil {
				out[t.Doc] = t
			}
			if types.Doc != nil && !types.Lparen.IsValid() {
				out[types.Doc] = t
			}
		}
	}
	return out
}

const writeTopic = "write //echoes:topic order.created"

// topicArg reads the topic of a directive. It is empty after a problem, which is
// reported where the directive could have an effect.
func (s *scanner) topicArg(d ast.Directive) (string, token.Pos) {
	if s.file.Ineffective != "" {
		return "", d.Slash
	}
	args, err := d.ParseArgs()
	switch {
	case err != nil:
		s.report(d.ArgsPos, "//echoes:topic: a quote is not closed", `write //echoes:topic order.created, or "order created" when it has blanks`)
		return "", d.Slash
	case len(args) == 0:
		s.report(d.Slash, "//echoes:topic names no topic", writeTopic)
		return "", d.Slash
	}
	topic, pos := args[0].Arg, args[0].Pos
	name, value, isSetting := strings.Cut(topic, "=")
	switch {
	case isSetting && strings.EqualFold(name, string(Topic)) && value != "" && !strings.ContainsAny(value, "\"'`"):
		s.report(pos, "//echoes:topic takes the topic alone", "write //echoes:topic "+value)
		return "", pos
	case isSetting || strings.ContainsAny(topic, "\"'`"):
		s.report(pos, fmt.Sprintf("//echoes:topic takes a topic, not %s", topic), writeTopic+"; settings belong to listeners")
		return "", pos
	case strings.TrimSpace(topic) == "":
		s.report(pos, "//echoes:topic names an empty topic", writeTopic)
		return "", pos
	case len(args) > 1:
		fix := writeTopic + " alone"
		switch next := args[1].Arg; {
		case strings.HasPrefix(next, "//") || strings.HasPrefix(next, "#"):
			fix = "move the text to the doc comment above it"
		case strings.Contains(next, "="):
			fix = "settings belong to listeners, //echoes:event or //echoes:batch"
		case len(args) == 2:
			fix = fmt.Sprintf("write //echoes:topic %q if it belongs to the topic", topic+" "+next)
		}
		s.report(args[1].Pos, fmt.Sprintf("//echoes:topic takes one topic, and %s follows", args[1].Arg), fix)
		return "", pos
	}
	if _, p := topicValue(topic); p != nil {
		s.report(pos, p.message, p.fix)
		return "", pos
	}
	return topic, pos
}

// misplacedTopic reports a directive that is not in the doc comment of a type.
func (s *scanner) misplacedTopic(c *ast.Comment) {
	what, _ := s.place(c)
	const aboveType = "put it directly above the type of what is published"
	for _, decl := range s.file.Syntax.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc != nil && d.Recv != nil && within(c, d.Doc.Pos(), d.Doc.End()) {
				s.report(c.Pos(), fmt.Sprintf("//echoes:topic stands above the method %s", d.Name.Name), "a listener is //echoes:event topic=NAME; "+aboveType)
				return
			}
		case *ast.GenDecl:
			if d.Tok == token.TYPE && d.Lparen.IsValid() && d.Doc != nil && within(c, d.Doc.Pos(), d.Doc.End()) {
				s.report(c.Pos(), "//echoes:topic stands above a group of types", "put it directly above one of them")
				return
			}
			if d.Tok == token.TYPE && d.Pos() > c.End() && strings.HasPrefix(what, "stands apart") && s.nextDecl(c) == decl {
				s.report(c.Pos(), "//echoes:topic is detached from the type", "remove the blank line below the directive")
				return
			}
		}
	}
	if strings.Contains(what, "method") { // which a type's topic has nothing to do with
		what = "stands apart from any type"
	}
	s.report(c.Pos(), "//echoes:topic "+what, aboveType)
}

// nextDecl is the first declaration behind a comment.
func (s *scanner) nextDecl(c *ast.Comment) ast.Decl {
	for _, decl := range s.file.Syntax.Decls {
		if decl.Pos() > c.End() {
			return decl
		}
	}
	return nil
}

// topicSlip reports a comment above a type that was meant as //echoes:topic: with
// blanks, capitals or another sign.
func (s *scanner) topicSlip(c *ast.Comment) {
	line := strings.TrimSpace(strings.TrimSuffix(c.Text, "*/"))
	m := slip.FindStringSubmatch(line)
	if m == nil || strings.Contains(line, "\n") {
		return
	}
	head, word, rest := m[4], m[6], strings.Fields(m[7])
	if len(rest) > 1 || !resemblesTool(head) || spelling.Distance(strings.ToLower(word), topicName) > 1 {
		return // a sentence, or something else
	}
	topic := "order.created"
	if len(rest) == 1 {
		topic = rest[0]
	}
	s.report(c.Pos(), line+" has no effect: a directive is //tool:name without blanks, in lower case", "write //echoes:topic "+topic)
}

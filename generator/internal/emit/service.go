package emit

import (
	"fmt"
	"strings"
	"time"

	"github.com/dave/jennifer/jen"

	"github.com/orionjs/orion-go/generator/internal/directive"
	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// service writes the method that registers the listeners of a service.
func (e *emitter) service(s *resolve.Service) []jen.Code {
	name := s.Named.Obj().Name()
	recv := jen.Id(e.local.recv).Op("*").Id(name)
	if !s.Pointer {
		recv = jen.Id(e.local.recv).Id(name)
	}
	listeners := jen.Index().Add(e.echoes("Listener")).ValuesFunc(func(g *jen.Group) {
		for _, l := range s.Listeners {
			g.Line().Add(e.listener(l))
		}
		g.Line()
	})
	body := []jen.Code{jen.Return(listeners)}
	if len(s.Embedded) > 0 {
		body = []jen.Code{jen.Id(e.local.all).Op(":=").Add(listeners)}
		for _, path := range s.Embedded {
			inner := jen.Id(e.local.recv)
			for _, step := range path {
				inner = inner.Dot(step)
			}
			body = append(body, jen.Id(e.local.all).Op("=").Append(
				jen.Id(e.local.all), inner.Dot("EchoesListeners").Call().Op("...")))
		}
		body = append(body, jen.Return(jen.Id(e.local.all)))
	}
	method := jen.Func().Params(recv).Id("EchoesListeners").Params().Index().Add(e.echoes("Listener")).Block(body...)
	doc := fmt.Sprintf("EchoesListeners returns the annotated methods of %s for echoes.New.", name)
	if len(s.Embedded) > 0 {
		doc = fmt.Sprintf("EchoesListeners returns the annotated methods of %s for echoes.New, and those of the\nservices embedded in it.", name)
	}
	return []jen.Code{
		jen.Line().Add(comment(doc)),
		method,
	}
}

// comment writes a comment of several lines as line comments.
func comment(text string) *jen.Statement {
	return jen.Op("// " + strings.ReplaceAll(text, "\n", "\n// "))
}

var constructors = map[resolve.Shape]string{resolve.Plain: "On", resolve.Item: "OnItem", resolve.Items: "OnBatch"}

// wrapOptions is from how many options on each gets a line of its own.
const wrapOptions = 3

func (e *emitter) listener(l *resolve.Listener) *jen.Statement {
	args := []jen.Code{jen.Lit(l.Topic)}
	if l.Shape == resolve.Items {
		args = append(args, jen.Lit(l.BatchSize))
	}
	args = append(args, e.handler(l), e.value(l.Params))
	for _, setting := range l.Settings {
		option := e.option(setting)
		if len(l.Settings) >= wrapOptions {
			option = jen.Line().Add(option)
		}
		args = append(args, option)
	}
	if len(l.Settings) >= wrapOptions {
		args = append(args, jen.Line())
	}
	out := e.echoes(constructors[l.Shape]).Call(args...).Dot("At").Call(jen.Lit(l.Position))
	if l.NoResult {
		// The runtime cannot find out which method stands behind the function.
		out = out.Dot("Named").Call(jen.Lit(l.FullName))
	}
	return out
}

// handler is the method itself, or a function around one that returns nothing.
func (e *emitter) handler(l *resolve.Listener) jen.Code {
	method := jen.Id(e.local.recv).Dot(l.Method)
	if !l.NoResult {
		return method
	}
	arg := e.typ(l.Params.Go)
	switch l.Shape {
	case resolve.Item:
		arg = e.echoes("Item").Types(arg)
	case resolve.Items:
		arg = jen.Index().Add(e.echoes("Item").Types(arg))
	}
	return jen.Func().Params(
		jen.Id(e.local.ctx).Id(e.names.pkg("context", "context")).Dot("Context"),
		jen.Id(e.local.arg).Add(arg),
	).Error().Block(
		method.Call(jen.Id(e.local.ctx), jen.Id(e.local.arg)),
		jen.Return(jen.Nil()),
	)
}

// option is echoes.MaxRetries(5) for maxRetries=5: every key has an option of
// its name.
func (e *emitter) option(s directive.Setting) *jen.Statement {
	name := strings.ToUpper(string(s.Key[:1])) + string(s.Key[1:])
	value := jen.Lit(s.Value)
	if d, ok := s.Value.(time.Duration); ok {
		value = e.duration(d)
	}
	return e.echoes(name).Call(value)
}

var units = []struct {
	unit time.Duration
	name string
}{
	{time.Hour, "Hour"},
	{time.Minute, "Minute"},
	{time.Second, "Second"},
	{time.Millisecond, "Millisecond"},
}

// duration writes a duration in the largest unit that divides it.
func (e *emitter) duration(d time.Duration) *jen.Statement {
	if d == 0 {
		return jen.Lit(0)
	}
	for _, u := range units {
		if d%u.unit != 0 {
			continue
		}
		unit := jen.Id(e.names.pkg("time", "time")).Dot(u.name)
		if d == u.unit {
			return unit
		}
		return jen.Lit(int(d / u.unit)).Op("*").Add(unit)
	}
	return jen.Lit(int(d))
}

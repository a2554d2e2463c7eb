package emit

import (
	"fmt"

	"github.com/dave/jennifer/jen"

	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// topic writes the constant and the publish functions of a type with a topic.
func (e *emitter) topic(t *resolve.Topic) []jen.Code {
	params := t.Named.Obj().Name()
	ctx := func() *jen.Statement {
		return jen.Id(e.local.ctx).Id(e.names.pkg("context", "context")).Dot("Context")
	}
	to := func() *jen.Statement { return jen.Id(e.local.to).Add(e.echoes("Publisher")) }
	return []jen.Code{
		jen.Line().Add(comment(fmt.Sprintf("%s is the topic of %s.", t.Const, params))),
		jen.Const().Id(t.Const).Op("=").Lit(t.Name),

		jen.Line().Add(comment(fmt.Sprintf("%s publishes on %s. Params that are not valid\nor cannot be encoded are an *echoes.InvalidEventError, and nothing is stored.", t.Publish, t.Const))),
		jen.Func().Id(t.Publish).Params(
			ctx(), to(), jen.Id(e.local.arg).Id(params), jen.Id(e.local.opts).Op("...").Add(e.echoes("PublishOption")),
		).Params(e.echoes("EventRef"), jen.Error()).Block(jen.Return(e.echoes("PublishEncoded").Call(
			jen.Id(e.local.ctx), jen.Id(e.local.to), jen.Id(t.Const), jen.Op("&").Id(e.local.arg), e.encodeValue(t.Params), jen.Id(e.local.opts).Op("..."),
		))),

		jen.Line().Add(comment(fmt.Sprintf("%s publishes many events on %s, as\nechoes.App.PublishMany does.", t.PublishMany, t.Const))),
		jen.Func().Id(t.PublishMany).Params(
			ctx(), to(), jen.Id(e.local.drafts).Index().Add(e.echoes("Draft").Types(jen.Id(params))),
		).Params(jen.Index().Add(e.echoes("Published")), jen.Error()).Block(jen.Return(e.echoes("PublishManyEncoded").Call(
			jen.Id(e.local.ctx), jen.Id(e.local.to), jen.Id(t.Const), jen.Id(e.local.drafts), e.encodeValue(t.Params),
		))),
	}
}

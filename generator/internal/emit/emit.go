// Package emit writes the Go source of a generated file from its model. It is
// the only importer of the code printer.
package emit

import (
	"bytes"
	"fmt"
	"go/types"

	"github.com/dave/jennifer/jen"

	"github.com/orionjs/orion-go/generator/internal/load"
	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// File returns the source of the generated file of a package. The same model
// gives the same bytes.
func File(p *resolve.Package) ([]byte, error) {
	e := &emitter{pkg: p.Types, names: newNames(p)}
	// Names come first: an import must not take one that a body uses.
	e.local = locals{
		recv: e.names.local("s"), ctx: e.names.local("ctx"), arg: e.names.local("p"),
		dec: e.names.local("d"), ptr: e.names.local("p"), seen: e.names.local("seen"),
		end: e.names.local("end"), key: e.names.local("key"), val: e.names.local("v"),
		enc: e.names.local("e"), start: e.names.local("start"), to: e.names.local("to"),
		opts: e.names.local("opts"), drafts: e.names.local("drafts"),
		all: e.names.local("all"), changed: e.names.local("changedSoRunEchoesgenAgain"),
	}
	var body []jen.Code
	for _, s := range p.Services {
		body = append(body, e.service(s)...)
	}
	for _, t := range p.Topics {
		body = append(body, e.topic(t)...)
	}
	for _, f := range p.Funcs {
		body = append(body, jen.Line().Add(e.function(f)))
	}
	for _, f := range p.Encoders {
		body = append(body, jen.Line().Add(e.encodeFunction(f)))
	}
	if len(p.Guards) > 0 {
		body = append(body, jen.Line().Comment("The conversions below stop compiling when a struct has changed since this file"),
			jen.Comment("was generated: generate it again then."))
		for _, g := range p.Guards {
			body = append(body, jen.Line().Add(e.guard(g)))
		}
	}

	file := jen.NewFile(p.Types.Name())
	file.HeaderComment(load.Header)
	file.Add(e.names.imports())
	for _, decl := range body {
		file.Add(decl)
	}
	var out bytes.Buffer
	if err := file.Render(&out); err != nil {
		return nil, fmt.Errorf("writing the generated code of %s: %w", p.Types.Path(), err)
	}
	return out.Bytes(), nil
}

type emitter struct {
	pkg   *types.Package
	names *names
	local locals
}

// locals are the names of variables in generated functions. They are the short
// ones below unless the package declares a type of such a name.
type locals struct {
	recv, ctx, arg, dec, ptr, seen, end, key, val, all, changed string
	enc, start, to, opts, drafts                                string
}

// echoes refers to a name of the runtime.
func (e *emitter) echoes(name string) *jen.Statement {
	return jen.Id(e.names.pkg(resolve.EchoesPath, "echoes")).Dot(name)
}

// decoder is the parameter every decode function takes first.
func (e *emitter) decoder() *jen.Statement {
	return jen.Id(e.local.dec).Op("*").Add(e.echoes("Decoder"))
}

// caller calls a method of the decoder, or of the encoder.
type caller func(method string, args ...jen.Code) *jen.Statement

// d calls a method of the decoder.
func (e *emitter) d(method string, args ...jen.Code) *jen.Statement {
	return jen.Id(e.local.dec).Dot(method).Call(args...)
}

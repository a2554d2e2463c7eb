package asyncapi

import (
	"cmp"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/orionjs/orion-go/generator/internal/resolve"
)

// schemas collects the types that get a schema of their own: structs, lists and
// maps with a name, which can contain themselves, and enumerations.
type schemas struct {
	list []*component
	// plain and enums have the *component of each type; the same type may be used
	// with and without the constraint to its constants.
	plain, enums typeutil.Map
}

type component struct {
	name string
	t    *resolve.Type
}

// components is where a type's component is kept.
func (s *schemas) components(t *resolve.Type) *typeutil.Map {
	if t.Func != nil && t.Func.Known != nil {
		return &s.enums
	}
	return &s.plain
}

// component returns the component of a type, nil if it has none.
func (s *schemas) component(t *resolve.Type) *component {
	c, _ := s.components(t).At(t.Go).(*component)
	return c
}

// content is how a type is decoded, in its function or without one.
func content(t *resolve.Type) *resolve.Type {
	if t.Func != nil && t.Func.Content != nil {
		return t.Func.Content
	}
	return t
}

// isComponent reports whether a type has a schema of its own.
func isComponent(t *resolve.Type) bool {
	if _, named := types.Unalias(t.Go).(*types.Named); !named || t.Func == nil {
		return false
	}
	switch content(t).Form {
	case resolve.Struct, resolve.Slice, resolve.Array, resolve.Map, resolve.Pointer:
		return true
	}
	return t.Func.Known != nil
}

// collect finds the components that a type leads to.
func (s *schemas) collect(t *resolve.Type) {
	if t == nil {
		return
	}
	if isComponent(t) {
		if s.component(t) != nil {
			return
		}
		c := &component{t: t}
		s.components(t).Set(t.Go, c)
		s.list = append(s.list, c)
	}
	in := content(t)
	s.collect(in.Elem)
	for _, f := range in.Fields {
		s.collect(f.Type)
	}
	if in.Rest != nil {
		s.collect(in.Rest.Type.Elem)
	}
}

// nameComponents gives each component its type's name, with the package in front
// where two would have the same.
func (s *schemas) nameComponents() {
	path := func(c *component) string { return types.TypeString(types.Unalias(c.t.Go), nil) }
	slices.SortStableFunc(s.list, func(a, b *component) int { return cmp.Compare(path(a), path(b)) })
	count := make(map[string]int)
	for _, c := range s.list {
		count[shortName(c.t.Go)]++
	}
	taken := make(map[string]bool)
	for _, c := range s.list {
		c.name = shortName(c.t.Go)
		if count[c.name] > 1 {
			c.name = wholeName(c.t.Go)
		}
		c.name = unique(c.name, func(name string) bool { return taken[name] })
		taken[c.name] = true
	}
	slices.SortFunc(s.list, func(a, b *component) int { return cmp.Compare(a.name, b.name) })
}

// object is the part of the document with the components.
func (s *schemas) object() object {
	out := object{}
	for _, c := range s.list {
		out.set(c.name, s.definition(c.t))
	}
	return out
}

// shortName is a type's name without packages, as a key may be: Page_Order for
// shop.Page[shop.Order].
func shortName(t types.Type) string {
	return keyOf(types.TypeString(types.Unalias(t), func(*types.Package) string { return "" }))
}

// wholeName is the name with the packages.
func wholeName(t types.Type) string {
	return keyOf(types.TypeString(types.Unalias(t), (*types.Package).Name))
}

var notWord = regexp.MustCompile(`[^A-Za-z0-9.]+`)

func keyOf(name string) string { return strings.Trim(notWord.ReplaceAllString(name, "_"), "_") }

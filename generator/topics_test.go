package generator_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/generator"
)

const contractSource = `package contract

//echoes:topic order.created
type Order struct{ ID string }
`

// TestTopics_7_9_ListenersThatTakeAnotherTypeAreNoted over all packages of a run.
// They are no problem: a consumer may read less than was published.
func TestTopics_7_9_ListenersThatTakeAnotherTypeAreNoted(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newModule(t)
	m.write("contract/contract.go", contractSource)
	m.write("again/again.go", strings.Replace(contractSource, "package contract", "package again", 1))
	m.write("shop/shop.go", `package shop

import (
	"context"

	"github.com/orionjs/orion-go/echoes"

	"example.com/shop/contract"
)

type View struct{ ID string }

type A struct{}

//echoes:event topic=order.created
func (A) Same(context.Context, contract.Order) error { return nil }

type B struct{}

//echoes:event topic=order.created
func (B) Pointer(context.Context, echoes.Item[*contract.Order]) error { return nil }

type C struct{}

//echoes:batch topic=order.created batchSize=2
func (C) Other(context.Context, []echoes.Item[View]) error { return nil }

//echoes:event topic=unknown
func (C) Elsewhere(context.Context, View) error { return nil }
`)
	result, err := generator.Generate(generator.Config{Dir: m.dir, Patterns: []string{"./..."}, Env: m.env()})
	is.NoErr(err)
	is.Equal(result.Topics, 2)
	var notes []string
	for _, n := range result.Notes {
		notes = append(notes, filepath.ToSlash(n.String()))
	}
	is.Equal(notes, []string{
		"contract/contract.go:3:1: note: topic order.created belongs to again.Order and to contract.Order (publish one type on a topic, so that all share one contract)",
		"shop/shop.go:15:1: note: shop.A.Same takes contract.Order, and topic order.created belongs to again.Order (take that type, unless the listener is to see a part of it only)",
		"shop/shop.go:20:1: note: shop.B.Pointer takes contract.Order, and topic order.created belongs to again.Order (take that type, unless the listener is to see a part of it only)",
		"shop/shop.go:25:1: note: shop.C.Other takes shop.View, and topic order.created belongs to again.Order (take that type, unless the listener is to see a part of it only)",
	})

	// With one owner of the topic only the view is left. What is generated for a
	// package goes with its last topic.
	m.write("again/again.go", "package again\n\ntype Order struct{ ID string }\n")
	result, err = generator.Generate(generator.Config{Dir: m.dir, Patterns: []string{"./..."}, Env: m.env()})
	is.NoErr(err)
	is.Equal(len(result.Notes), 1)
	is.True(strings.HasPrefix(result.Notes[0].Message, "note: shop.C.Other takes shop.View"))
	is.Equal(len(result.Stale()), 1)
	is.Equal(result.Stale()[0].Status, generator.Removed)
	out, err := m.run("vet", "./...")
	if err != nil {
		t.Fatal(out)
	}
}

// TestTopics_7_9_CodeThatUsesTheFunctionsBeforeTheyExist, in the package itself
// and in another one, keeps nothing from being generated.
func TestTopics_7_9_CodeThatUsesTheFunctionsBeforeTheyExist(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newModule(t)
	m.write("contract/contract.go", contractSource+`
var publish = PublishOrder

func Topics() []string { return []string{TopicOrder} }
`)
	m.write("shop/shop.go", `package shop

import (
	"context"

	"github.com/orionjs/orion-go/echoes"

	"example.com/shop/contract"
)

var topic = contract.TopicOrder

func Place(ctx context.Context, app *echoes.App) error {
	_, err := contract.PublishOrder(ctx, app, contract.Order{ID: topic})
	return err
}
`)
	result, err := m.generate()
	is.NoErr(err)
	is.Equal(len(result.Files), 1)
	out, err := m.run("vet", "./...")
	if err != nil {
		t.Fatal(out)
	}
	// A changed type is a compile error until the encoder is written anew.
	m.write("contract/contract.go", strings.Replace(contractSource, "ID string", "ID string; Total int", 1))
	out, err = m.run("build", "./...")
	is.True(err != nil)
	is.True(strings.Contains(out, "changedSoRunEchoesgenAgain"))
	check, err := m.check()
	is.NoErr(err)
	is.Equal(len(check.Stale()), 1)
}

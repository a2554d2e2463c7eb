package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
)

const listedSource = `package orders

import (
	"context"

	"github.com/orionjs/orion-go/echoes"
)

type Order struct {
	ID string ` + "`bson:\"_id\" echoes:\"required\"`" + `
}

type Orders struct{}

//echoes:event topic=order.created retryDelay=90s ordered=false
func (o *Orders) Created(ctx context.Context, order Order) error { return nil }

//echoes:batch batchSize=3
func (o *Orders) Shipped(ctx context.Context, items []echoes.Item[Order]) error { return nil }

//echoes:event
func (o *Orders) Paid(ctx context.Context, id string) error { return nil }

//echoes:topic order.done
type Done struct{ ID string }
`

// newOrders is a repository whose service stands in a folder of its own.
func newOrders(t *testing.T) *repository {
	r := newService(t, "echoesgen ./...")
	r.write("main.go", "package main\n\nimport _ \"example.com/service/orders\"\n\nfunc main() {}\n")
	if err := os.Mkdir(filepath.Join(r.dir, "orders"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.write("orders/orders.go", listedSource)
	return r
}

// TestList_7_1_Listeners: every listener with its topic, kind, method, options and
// position, as lines and as JSON, and nothing is written.
func TestList_7_1_Listeners(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "off")
	is := is.New(t)
	r := newOrders(t)
	status, stdout, stderr := r.echoesgen("-list", "./...")
	is.Equal(status, 0)
	is.Equal(stderr, "")
	is.Equal(filepath.ToSlash(stdout), `order.created  event    orders.(*Orders).Created  ordered=false retryDelay=1m30s  orders/orders.go:15:1
shipped        batch    orders.(*Orders).Shipped  batchSize=3                     orders/orders.go:18:1
paid           event    orders.(*Orders).Paid     -                               orders/orders.go:21:1
order.done     publish  orders.PublishDone        -                               orders/orders.go:24:1
`)
	_, err := os.Stat(filepath.Join(r.dir, "orders", "echoes_gen.go"))
	is.True(os.IsNotExist(err))

	status, stdout, _ = r.echoesgen("-list", "-json", "./...")
	is.Equal(status, 0)
	var got []struct {
		Topic, Kind, Method, Payload, File string
		Options                            map[string]any
		Line, Column                       int
	}
	is.NoErr(json.Unmarshal([]byte(stdout), &got))
	is.Equal(len(got), 4)
	is.Equal(got[3].Kind+" "+got[3].Payload, "publish orders.Done")
	is.Equal(got[0].Topic+" "+got[0].Kind+" "+got[0].Method+" "+got[0].Payload, "order.created event orders.(*Orders).Created orders.Order")
	is.Equal(got[0].Options, map[string]any{"ordered": false, "retryDelay": "1m30s"})
	is.Equal(got[1].Options, map[string]any{"batchSize": 3.0})
	is.Equal(got[2].Payload, "string")
	is.Equal(got[2].Options, map[string]any{})
	is.Equal(filepath.ToSlash(got[2].File), "orders/orders.go")
	is.Equal(got[2].Line*100+got[2].Column, 2101)

	status, stdout, stderr = r.echoesgen("-list", "-json", ".")
	is.Equal(status, 0)
	is.Equal(stdout, "[]\n")
	is.Equal(stderr, "")

	// A hint and a problem.
	r.write("orders/orders.go", strings.Replace(listedSource, "//echoes:event\n", "//echoes:event maxConcurrency=4\n", 1))
	status, _, stderr = r.echoesgen("-list", "./...")
	is.Equal(status, 0)
	is.True(strings.Contains(stderr, "orders.go:21:16: note: maxConcurrency=4 needs ordered=false"))
	r.write("orders/orders.go", strings.Replace(listedSource, "batchSize=3", "", 1))
	status, stdout, stderr = r.echoesgen("-list", "./...")
	is.Equal(status, 1)
	is.Equal(stdout, "")
	is.True(strings.Contains(stderr, "orders.go:18:1: a batch needs batchSize"))
}

// TestOutput_7_2_OtherName: -o names the generated file, and -check says the whole
// command to run.
func TestOutput_7_2_OtherName(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "off")
	is := is.New(t)
	r := newOrders(t)
	status, _, stderr := r.echoesgen("-check", "-o", "listeners_gen.go", "./...")
	is.Equal(status, 1)
	is.Equal(filepath.ToSlash(stderr), "orders/listeners_gen.go: is missing\nechoesgen: 1 file not up to date: run go generate ./... or echoesgen -o=listeners_gen.go ./...\n")
	status, stdout, _ := r.echoesgen("-o", "listeners_gen.go", "./...")
	is.Equal(status, 0)
	is.Equal(filepath.ToSlash(stdout), "orders/listeners_gen.go: created\n")
	status, stdout, _ = r.echoesgen("./...")
	is.Equal(status, 0)
	is.Equal(filepath.ToSlash(stdout), "orders/echoes_gen.go: created\norders/listeners_gen.go: removed\n")
}

// TestAsyncAPI_7_1_Files: the document is printed, or written when it changed, and
// never over something else.
func TestAsyncAPI_7_1_Files(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "off")
	is := is.New(t)
	r := newOrders(t)
	status, printed, stderr := r.echoesgen("asyncapi", "./...")
	is.Equal(status, 0)
	is.Equal(stderr, "")
	is.True(strings.HasPrefix(printed, "asyncapi: 3.0.0\ninfo:\n  title: service\n  version: 0.0.0\n"))
	is.True(strings.Contains(printed, "\n  order.created:\n    address: order.created\n"))

	for _, c := range []struct {
		args   []string
		status int
		stdout string
	}{
		{[]string{"-check", "-o", "api.yaml", "./..."}, 1, ""},
		{[]string{"-o", "api.yaml", "./..."}, 0, "api.yaml: created\n"},
		{[]string{"-o", "api.yaml", "./..."}, 0, ""},
		{[]string{"-check", "-o", "api.yaml", "./..."}, 0, ""},
		{[]string{"-o", "api.yaml", "-title", "Orders", "-apiversion", "2.0.0", "./..."}, 0, "api.yaml: updated\n"},
		{[]string{"-o", "api.json", "./..."}, 0, "api.json: created\n"},
		{[]string{"-o", "notes.yaml", "./..."}, 1, ""},
	} {
		r.write("notes.yaml", "mine: true\n")
		status, stdout, _ := r.echoesgen(append([]string{"asyncapi"}, c.args...)...)
		if status != c.status || stdout != c.stdout {
			t.Errorf("%v: status %d, printed %q", c.args, status, stdout)
		}
	}
	content, err := os.ReadFile(filepath.Join(r.dir, "api.yaml"))
	is.NoErr(err)
	is.True(strings.HasPrefix(string(content), "asyncapi: 3.0.0\ninfo:\n  title: Orders\n  version: 2.0.0\n"))
	content, err = os.ReadFile(filepath.Join(r.dir, "api.json"))
	is.NoErr(err)
	is.True(json.Valid(content))
	content, err = os.ReadFile(filepath.Join(r.dir, "notes.yaml"))
	is.NoErr(err)
	is.Equal(string(content), "mine: true\n")
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/templates"
)

// TestInit_7_2_Templates: each template can be chosen, and the next steps are its own.
func TestInit_7_2_Templates(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	dir := t.TempDir()
	var usage bytes.Buffer
	is.Equal(run([]string{"init", "-h"}, dir, &usage, &usage), 0)
	for _, word := range []string{"-module", "-template"} {
		var all bytes.Buffer
		is.Equal(run([]string{"-h"}, dir, &all, &all), 0)
		is.True(strings.Contains(all.String(), word) && strings.Contains(usage.String(), word))
	}
	for i, template := range templates.All() {
		is.True(strings.Contains(usage.String(), template.Name+" "))
		is.True(strings.Contains(usage.String(), template.About))
		var stdout, stderr bytes.Buffer
		is.Equal(run([]string{"init", template.Name, "--template", template.Name}, dir, &stdout, &stderr), 0)
		is.True(strings.Contains(stdout.String(), "\n  "+template.Run+"\n"))
		readme, err := os.ReadFile(filepath.Join(dir, template.Name, "README.md"))
		is.NoErr(err)
		if i == 0 { // the default
			is.Equal(run([]string{"init", "plain", "-module", template.Name}, dir, &stdout, &stderr), 0)
			plain, err := os.ReadFile(filepath.Join(dir, "plain", "README.md"))
			is.NoErr(err)
			is.Equal(string(plain), string(readme))
		}
	}
	var stdout, stderr bytes.Buffer
	is.Equal(run([]string{"init", "x", "-template", "pulsar"}, dir, &stdout, &stderr), 1)
	is.Equal(stderr.String(), "echoesgen: there is no template \"pulsar\": choose one of pulse, migration\n")
	stderr.Reset()
	is.Equal(run([]string{"init", "time"}, dir, &stdout, &stderr), 1)
	is.Equal(stderr.String(), "echoesgen: the go command keeps \"time\" for itself, so that a module of this path does not build: give another one with -module, such as example.com/billing\n")
	_, err := os.Stat(filepath.Join(dir, "x"))
	is.True(os.IsNotExist(err))
}

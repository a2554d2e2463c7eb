package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/orionjs/orion-go/generator"
)

// printListeners prints every listener and every publish function on a line, or all
// as one JSON array.
func printListeners(result generator.Result, asJSON bool, stdout, stderr io.Writer) int {
	listeners := []generator.Listener{} // an empty array, and not null
	for _, f := range result.Files {
		listeners = append(append(listeners, f.Listeners...), f.Publishers...)
	}
	if asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(listeners); err != nil {
			return failed(stderr, fmt.Errorf("printing the listeners: %w", err))
		}
		return exitOK
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, l := range listeners {
		options := l.Options.String()
		if options == "" {
			options = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.Topic, l.Kind, l.Method, options, l.Position())
	}
	if err := w.Flush(); err != nil {
		return failed(stderr, fmt.Errorf("printing the listeners: %w", err))
	}
	noListeners(len(listeners), result.Packages, stderr)
	return exitOK
}

package generator_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/orionjs/orion-go/generator"
)

// Compare the generated files of a module with its source, as a check before a
// commit does.
func ExampleGenerate() {
	result, err := generator.Generate(generator.Config{Patterns: []string{"./..."}, Check: true})
	var source *generator.SourceError
	switch {
	case errors.As(err, &source):
		for _, d := range source.Diagnostics {
			fmt.Println(d) // file:line:col: message (fix)
		}
		os.Exit(1)
	case err != nil:
		fmt.Println(err)
		os.Exit(1)
	}
	for _, file := range result.Stale() {
		fmt.Println(file.Path, "is not up to date")
	}
}

package main

import (
	"fmt"
	"os"

	"github.com/orionjs/orion-go/generator"
)

func main() {
	r, err := generator.Generate(generator.Config{Patterns: os.Args[1:]})
	fmt.Println(r)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

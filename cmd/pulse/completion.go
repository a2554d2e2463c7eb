package main

import (
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/orionjs/orion-go/cmd/pulse/internal/completion"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Your shell: bash, zsh or fish."`
}

// Help is the long text of `pulse completion --help`.
func (completionCommand) Help() string {
	return `Prints what your shell has to read to complete commands and flags of pulse. Put the line into its start file:
  bash   source <(pulse completion bash)
  zsh    source <(pulse completion zsh)      after compinit
  fish   pulse completion fish | source`
}

// Run prints the script.
func (c *completionCommand) Run() error {
	script, err := completion.Script(c.Shell, "pulse")
	fmt.Print(script)
	return err
}

type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run answers a shell.
func (c *completeCommand) Run(parser *kong.Kong) error {
	fmt.Print(completion.Format(completion.Complete(parser.Model.Node, withoutSeparator(c.Words))))
	return nil
}

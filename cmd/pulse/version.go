package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
)

type versionCommand struct {
	JSON bool `name:"json" help:"Print a JSON document."`
}

// Help is the long text of `pulse version --help`.
func (versionCommand) Help() string {
	return `Prints the module's version, or (devel) for a build from a checkout, with what it was built from and how.`
}

// buildInfo is what a binary knows about itself.
type buildInfo struct {
	Version   string `json:"version"`
	Revision  string `json:"revision,omitempty"`
	Time      string `json:"time,omitempty"`
	Modified  bool   `json:"modified,omitempty"`
	Go        string `json:"go"`
	Platform  string `json:"platform"`
	Driver    string `json:"mongoDriver,omitempty"`
	Toolchain string `json:"compiler"`
}

// Run prints the module version, or the revision of a build from a checkout.
func (c *versionCommand) Run() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this binary was built without module support and does not know its version")
	}
	b := describeBuild(info)
	if c.JSON {
		return printJSON(b)
	}
	revision := b.Revision
	if b.Modified {
		revision += " with changes"
	}
	fmt.Println("pulse", b.Version)
	terminal.Fields(os.Stdout,
		[2]string{"revision", revision}, [2]string{"of", b.Time}, [2]string{"go", b.Go + " " + b.Platform}, [2]string{"mongo driver", b.Driver})
	return nil
}

func describeBuild(info *debug.BuildInfo) buildInfo {
	b := buildInfo{
		Version: info.Main.Version, Go: info.GoVersion, Platform: runtime.GOOS + "/" + runtime.GOARCH, Toolchain: runtime.Compiler,
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	for _, d := range info.Deps {
		if d.Path == "go.mongodb.org/mongo-driver/v2" {
			b.Driver = d.Version
		}
	}
	return b
}

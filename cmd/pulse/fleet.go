package main

import (
	"maps"
	"os"

	"github.com/orionjs/orion-go/cmd/pulse/internal/bench"
	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
)

type memberCommand struct {
	Role string `arg:""`
}

// Run is a process of a stress or a bench, see package fleet.
func (c memberCommand) Run() error {
	roles := map[string]fleet.Role{load.ReplicaRole: load.ServeReplica, load.PublisherRole: load.ServePublisher}
	maps.Copy(roles, bench.Roles())
	return fleet.Serve(c.Role, roles, os.Stdin, os.Stdout)
}

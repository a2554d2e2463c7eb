package mongoserver_test

import (
	"context"
	"fmt"
	"time"

	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// A test of what happens when the server crashes in the middle of something.
func ExampleStart() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := mongoserver.Start(ctx, mongoserver.Options{SyncOnCommit: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Println(err)
		}
	}()

	// ... connect to server.URI() and begin something ...
	if err := server.Kill(); err != nil {
		fmt.Println(err)
	}
	// ... see what the program does without a server ...
	if err := server.Restart(ctx); err != nil {
		fmt.Println(err)
	}
	// ... and whether it goes on.
}

package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// asService makes the test binary the service itself.
const asService = "WEBHOOKS_TEST_RUN_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestRun_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	err := run(context.Background(), nil, func(string) string { return "" })
	is.True(err != nil)
	is.True(strings.HasPrefix(err.Error(), "the environment variable MONGODB_URI is not set: start this with `go run ./cmd/pulse dev -- go run ./examples/webhooks`"))
	err = run(context.Background(), nil, func(string) string { return "http://db" })
	is.True(err != nil)
	is.True(strings.HasPrefix(err.Error(), "the connection string in MONGODB_URI cannot be used: "))
}

// The service as a process: it receives, handles, and ends in order when it is asked to.
func TestService_2_9_FinishesOnSIGTERM(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	command := exec.Command(os.Args[0], "-addr", "127.0.0.1:0", "-database", db.Name())
	command.Env = append(os.Environ(), asService+"=1", "MONGODB_URI="+pulsetest.URI(t), "WEBHOOK_SECRET=")
	output, err := command.StderrPipe()
	is.NoErr(err)
	is.NoErr(command.Start())
	var lines pulsetest.Recorder[string]
	read := make(chan struct{})
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			lines.Add(scanner.Text())
		}
	}()
	t.Cleanup(func() {
		if command.ProcessState == nil {
			_ = command.Process.Kill()
			<-read
			_ = command.Wait()
		}
		if t.Failed() {
			t.Log(strings.Join(lines.Values(), "\n"))
		}
	})

	address := regexp.MustCompile(`address=(http://\S+)/webhook`)
	var base string
	lines.WaitFor(t, "the address", func(lines []string) bool {
		if found := address.FindStringSubmatch(strings.Join(lines, "\n")); found != nil {
			base = found[1]
		}
		return base != ""
	})
	d := ownDelivery(t, "release")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status, _, err := send(client, base, d)
	is.NoErr(err)
	is.Equal(status, 202)
	pulsetest.Eventually(t, "the activity is in the feed", func(ctx context.Context) error {
		return db.Collection("activity").FindOne(ctx, bson.D{{Key: "_id", Value: d.ID}}).Err()
	})
	is.NoErr(command.Process.Signal(syscall.SIGTERM))
	<-read
	is.NoErr(command.Wait())
	is.True(strings.Contains(strings.Join(lines.Values(), "\n"), "stopping: requests and handlers under way finish"))
}

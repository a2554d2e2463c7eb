package kafka_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// childVariable makes this test binary a member of a group: "brokers group topic
// hold". It prints the number of each order that it begins and ends; at the one
// numbered hold it stays for ever.
const childVariable = "ECHOES_KAFKA_TEST_CHILD"

func runChild() {
	words := strings.Fields(os.Getenv(childVariable))
	app, err := echoes.New(echoes.Config{Kafka: kafka.New(kafka.Config{
		Brokers: strings.Split(words[0], ","), ConsumerGroup: words[1], Options: quick(fastSession, fastRebalance),
	})}, service{on(words[2], func(ctx context.Context, o echoes.Item[order]) error {
		fmt.Println("begin", o.Params.N)
		if o.Params.N == atoi(words[3]) {
			<-ctx.Done()
		}
		fmt.Println("end", o.Params.N)
		return nil
	})})
	if err == nil {
		err = app.Start(context.Background())
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	select {}
}

// A process that is killed in the middle of a handler leaves its event, and those
// behind it, to the next member; what it had finished and committed does not come
// again.
func TestKafka_7_7_KilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 1)
	const total, hold = 50, 20
	s.fill(t, topic, 1, 0, total)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{strings.Join(s.brokers, ","), s.group, topic, fmt.Sprint(hold)}, " "))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	is.NoErr(err)
	is.NoErr(child.Start())
	t.Cleanup(func() { cancel(); _ = child.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != fmt.Sprint("begin ", hold) {
		if strings.HasPrefix(lines.Text(), "error") {
			t.Fatal(lines.Text())
		}
	}
	s.waitCommitted(t, topic, hold) // up to the one in hand, and not beyond
	is.NoErr(child.Process.Kill())

	var seen pulsetest.Recorder[int]
	s.join(t, s.config(quick(fastSession, fastRebalance)...), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		is.Equal(o.Attempt, 1) // a lost process is no failure of the handler
		seen.Add(o.Params.N)
		return nil
	}))
	got := seen.Wait(t, total-hold)
	for i, n := range got {
		is.Equal(n, hold+i)
	}
	s.waitCommitted(t, topic, total)
}

package kafkaserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/orionjs/orion-go/pulse/pulsetest/internal/child"
)

// checkTimeout bounds Check: a broker that is there answers within milliseconds.
const checkTimeout = 5 * time.Second

// Check reports whether something listens at one of the addresses, which are separated by commas as in
// KAFKA_BROKERS, within five seconds. More it cannot know: how a broker wants to be talked to is a matter of
// its clients.
func Check(ctx context.Context, brokers string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var causes []error
	for addr := range strings.SplitSeq(brokers, ",") {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimSpace(addr))
		if err == nil {
			return conn.Close()
		}
		causes = append(causes, err)
	}
	return fmt.Errorf("no Kafka broker answers at %s: %w", brokers, errors.Join(causes...))
}

// awaitReady waits until the broker tells a client of itself, which it does as soon as it serves.
func awaitReady(ctx context.Context, proc *child.Process, port int, opts []kgo.Opt) error {
	if err := child.AwaitListening(ctx, proc, port); err != nil {
		return err
	}
	// A stranger that listens on the port could keep us waiting: the end of our process ends all waiting.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-proc.Done:
			cancel(child.ErrEnded)
		case <-ctx.Done():
		}
	}()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(child.Addr(port))}, opts...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		reply, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
		if err == nil && len(reply.Brokers) == 1 && !proc.Ended() {
			return nil
		}
		if err := child.Pause(ctx, proc); err != nil {
			return err
		}
	}
}

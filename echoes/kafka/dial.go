package kafka

import (
	"context"
	"errors"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"
)

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// patient changes how the client takes a refused connection. It gives up at once
// on one, and with it the membership in the group, which cancels all handlers;
// it retries one that timed out for as long as the group's session lasts. A broker
// that restarts refuses connections for some seconds, and then still knows the
// member: refused is made to look like timed out. What no retry mends, a host
// that does not exist for example, stays as it is.
func patient(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		var op *net.OpError
		var unknown *net.DNSError
		if err == nil || ctx.Err() != nil || !errors.As(err, &op) || op.Op != "dial" || errors.As(err, &unknown) {
			return conn, err
		}
		away := *op
		away.Err = refused{op.Err}
		return conn, &away
	}
}

type refused struct{ error }

func (refused) Timeout() bool   { return true }
func (r refused) Unwrap() error { return r.error }

// dialOptions wrap the dialer that the options have led to, TLS included. Only a
// client can tell it.
func dialOptions(client *kgo.Client) []kgo.Opt {
	dial, ok := client.OptValue(kgo.Dialer).(dialer)
	if !ok {
		return nil
	}
	return []kgo.Opt{kgo.DialTLSConfig(nil), kgo.Dialer(patient(dial))}
}

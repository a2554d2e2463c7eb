package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// ask makes a raw member ask to join the group. Nothing ever comes from it again: for the brokers it dies when its
// session has ended. Its answer is waited for only when wait is set.
func (s *setup) ask(t *testing.T, topic string, wait bool) {
	t.Helper()
	is := is.New(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.DisableClientMetrics())
	is.NoErr(err)
	ctx, cancel := context.WithCancel(t.Context())
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Version, metadata.Topics = 1, []string{topic}
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "cooperative-sticky", metadata.AppendTo(nil)
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.Protocols = s.group, "consumer", append(req.Protocols, protocol)
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 60_000, 60_000
	resp, err := req.RequestWith(ctx, client) // an ID comes first
	is.NoErr(err)
	is.True(errors.Is(kerr.ErrorForCode(resp.ErrorCode), kerr.MemberIDRequired))
	req.MemberID = resp.MemberID
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = req.RequestWith(ctx, client)
	}()
	t.Cleanup(func() {
		cancel()
		<-answered
		client.Close()
	})
	if wait {
		<-answered
	}
}

// joinRequests records when a client asks to join its group.
type joinRequests struct{ pulsetest.Recorder[int] }

func (j *joinRequests) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, bytes int, _, _ time.Duration, _ error) {
	if key == kmsg.NewPtrJoinGroupRequest().Key() {
		j.Add(bytes)
	}
}

// groupState waits until the group is in a state.
func (s *setup) groupState(t *testing.T, state string) {
	t.Helper()
	pulsetest.Eventually(t, "the group is "+state, func(ctx context.Context) error {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{s.group}
		resp, err := req.RequestWith(ctx, s.client)
		if err == nil && resp.Groups[0].State != state {
			err = fmt.Errorf("it is %s", resp.Groups[0].State)
		}
		return err
	})
}

// The group is divided anew, and a member that has died holds that up: this one waits for its answer, in which time
// its client commits nothing. It handles what it has, and what it has handled is committed when it closes.
func TestKafka_7_7_CloseCommitsWhileTheGroupIsDividedAnew(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newSetup(t)
	topic := s.topic(t, 1)
	s.fill(t, topic, 1, 0, 2)
	var started pulsetest.Recorder[int]
	var joins joinRequests
	let := make(chan struct{})
	m := s.join(t, s.config(kgo.HeartbeatInterval(100*time.Millisecond), kgo.WithHooks(&joins)), on(topic, func(_ context.Context, o echoes.Item[order]) error {
		started.Add(o.Params.N)
		if o.Params.N == 1 {
			<-let
		}
		return nil
	}))
	started.Wait(t, 2)
	s.waitCommitted(t, topic, 1)
	s.ask(t, topic, true)
	s.groupState(t, "Stable")
	before := joins.Len()
	s.ask(t, topic, false)
	s.groupState(t, "PreparingRebalance")
	joins.Wait(t, before+1)
	close(let)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	is.NoErr(m.Close(ctx))
	committed, err := s.committed(t.Context(), topic)
	is.NoErr(err)
	is.Equal(committed, int64(2))
}

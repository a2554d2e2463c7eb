package kafka

import (
	"errors"
	"testing"

	"github.com/matryer/is"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse/observe"
)

// newQueue makes a partition of a client that never connects.
func newQueue(t *testing.T) (*partition, func() bool) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	p := newPartition(&consumer{client: client, slots: make(chan struct{}, 1)}, &receiver{}, topicPartition{"t", 3})
	return p, func() bool { return len(client.PauseFetchPartitions(nil)["t"]) == 1 }
}

// A full queue pauses the fetching of its partition until it is half empty; a
// partition that is given up leaves no pause behind.
func TestKafka_7_7_QueueIsBounded(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	records := func(n, size int) []*kgo.Record {
		rs := make([]*kgo.Record, n)
		for i := range rs {
			rs[i] = &kgo.Record{Offset: int64(i), Value: make([]byte, size)}
		}
		return rs
	}
	p, paused := newQueue(t)
	p.add(records(highRecords-1, 1))
	is.True(!paused())
	p.add(records(1, 1))
	is.True(paused())
	for range highRecords/2 - 1 {
		p.next()
	}
	is.True(paused())
	is.Equal(p.next().Offset, int64(highRecords/2-1))
	is.True(!paused())

	p, paused = newQueue(t)
	p.add(records(2, highBytes/2))
	is.True(paused()) // by bytes
	p.stopTaking()
	is.True(!paused())
	is.True(p.next() == nil)
	p.add(records(1, 1))
	is.True(p.next() == nil) // what was on its way is not taken
	is.True(!p.acquire())
	is.Equal(len(p.consumer.slots), 0)
}

func TestKafka_7_7_TextOfAnError(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(errorText(errors.New("a\xffb")), "a\ufffdb")
	is.Equal(errorText((*kgo.ErrDataLoss)(nil)), "(the error's own Error method panicked: runtime.errorString)")
	is.Equal(len(errorText(errors.New(string(make([]byte, 5000))))), maxErrorText)
}

// neverEnds is an error that unwraps to itself.
type neverEnds struct{}

func (neverEnds) Error() string   { return "never ends" }
func (e neverEnds) Unwrap() error { return e }

func TestOutcome_4_2_AnErrorThatUnwrapsToItself(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(failureOf(neverEnds{}), &observe.Failure{Code: "handler_error", Name: "kafka.neverEnds", Message: "never ends"})
	is.Equal(codeOf(errors.Join(&echoes.DecodeError{}, neverEnds{})), "decode_error")
}

package kafkaserver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"
)

// patience ends a test whose awaited event never comes.
const patience = 2 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a broker, which under -short there is not.
func start(t *testing.T, opts Options) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("brokers are not started under -short")
	}
	opts.Progress = t.Output()
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t *testing.T, s *Server, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.Addr()), kgo.AllowAutoTopicCreation(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// produce writes to the topic things.
func produce(t *testing.T, client *kgo.Client, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "things", Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// consume returns the first n values of the topic things.
func consume(t *testing.T, s *Server, n int) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := connect(t, s, kgo.ConsumeTopics("things"), kgo.ConsumerGroup("readers"))
	values := map[string]int{}
	for len(values) < n {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d of %d values: %v", len(values), n, fetches.Errors())
		}
		fetches.EachRecord(func(r *kgo.Record) { values[string(r.Value)]++ })
	}
	return values
}

// One broker goes through all that can happen to it: a start takes seconds.
func TestServer_RecordsSurviveRestartAndKillUntilStop(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := start(t, Options{})
	addr := s.Addr()
	client := connect(t, s)

	produce(t, client, "before a restart")
	is.NoErr(s.Restart(t.Context()))
	produce(t, client, "before a crash")
	exited := s.Exited()
	is.NoErr(s.Kill())
	<-exited
	is.NoErr(s.Kill()) // a killed broker may be killed again

	l, err := net.Listen("tcp", addr) // takes connections and never answers
	is.NoErr(err)
	err = s.Restart(t.Context())
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "is taken by another process"))
	is.NoErr(l.Close())

	is.NoErr(s.Restart(t.Context()))
	is.Equal(s.Addr(), addr)
	is.Equal(consume(t, s, 2), map[string]int{"before a restart": 1, "before a crash": 1})

	exited = s.Exited()
	is.NoErr(s.Stop())
	<-exited
	_, err = os.Stat(filepath.Dir(s.dir.LogPath()))
	is.True(errors.Is(err, os.ErrNotExist))
	is.NoErr(s.Stop())
	is.True(errors.Is(s.Restart(t.Context()), ErrStopped))
	is.True(errors.Is(s.Kill(), ErrStopped))
	is.True(Check(t.Context(), addr) != nil)
}

func TestServer_KeepsStoragePathForOneBrokerAtATime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "data")
	first := start(t, Options{StoragePath: path})
	produce(t, connect(t, first), "kept")
	_, err := Start(t.Context(), Options{StoragePath: path})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "is in use by another server"))
	is.NoErr(first.Stop())

	second := start(t, Options{StoragePath: path}) // on other ports
	is.Equal(consume(t, second, 1), map[string]int{"kept": 1})
}

func TestServer_PropertiesWin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	login := kgo.SASL(plain.Auth{User: "ada", Pass: `se\cret`}.AsMechanism())
	jaas := `org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="se\\cret" user_ada="se\\cret";`
	s := start(t, Options{
		Properties: map[string]string{
			"listener.security.protocol.map":              "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
			"sasl.enabled.mechanisms":                     "PLAIN",
			"sasl.mechanism.inter.broker.protocol":        "PLAIN",
			"listener.name.client.plain.sasl.jaas.config": jaas,
		},
		Client: []kgo.Opt{login},
	})
	produce(t, connect(t, s, login), "allowed")
	stranger := connect(t, s, kgo.SASL(plain.Auth{User: "ada", Pass: "guess"}.AsMechanism()))
	is.True(stranger.Ping(t.Context()) != nil)
}

func TestStart_SaysWhatTheBrokerHasSaid(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("brokers are not started under -short")
	}
	is := is.New(t)
	_, err := Start(t.Context(), Options{Properties: map[string]string{"num.partitions": "many"}})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "Invalid value many for configuration num.partitions"))
}

func TestStart_TakenPort(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	defer l.Close()
	_, err = Start(t.Context(), Options{Port: l.Addr().(*net.TCPAddr).Port})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "is taken by another process"))
}

func TestCheck_OneOfSeveralAddressesIsEnough(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	there := l.Addr().String()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	is.NoErr(gone.Close())
	is.NoErr(Check(t.Context(), gone.Addr().String()+", "+there))
	is.NoErr(l.Close())
	err = Check(t.Context(), there)
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "no Kafka broker answers at "+there))
}

package pulse_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// problemsOf returns what a *pulse.ConfigurationError lists, and fails for any other error.
func problemsOf(t *testing.T, err error) []string {
	t.Helper()
	var wrong *pulse.ConfigurationError
	if !errors.As(err, &wrong) {
		t.Fatalf("got %v, want a *ConfigurationError", err)
	}
	texts := make([]string, len(wrong.Problems))
	for i, p := range wrong.Problems {
		texts[i] = p.String()
	}
	return texts
}

// unreachable is a client that has no server: whoever contacts it fails.
func unreachable(t *testing.T) *mongo.Client {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1/").SetServerSelectionTimeout(time.Millisecond))
	is.New(t).NoErr(err)
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
	return c
}

func TestConfig_2_11_EveryProblemOfAFieldIsNamed(t *testing.T) {
	t.Parallel()
	client := unreachable(t)
	for _, test := range []struct {
		name   string
		change func(*pulse.Config)
		want   string // "" for none
	}{
		{"group missing", func(c *pulse.Config) { c.ConsumerGroup = "" }, "ConsumerGroup is empty: name the group whose work this client shares, e.g. the service's name"},
		{"group blank", func(c *pulse.Config) { c.ConsumerGroup = "  " }, "ConsumerGroup is empty: name the group whose work this client shares, e.g. the service's name"},
		{"group not UTF-8", func(c *pulse.Config) { c.ConsumerGroup = "\xff" }, `ConsumerGroup "\xff" is not valid UTF-8: name the group whose work this client shares, e.g. the service's name`},
		{"database missing", func(c *pulse.Config) { c.Database = "" }, "Database is empty: set it, or name it in the URI (mongodb://host/database)"},
		{"database with dot", func(c *pulse.Config) { c.Database = "a.b" }, `Database "a.b": MongoDB does not allow / \ . space " $ * < > : | ? in a database's name`},
		{"database too long", func(c *pulse.Config) { c.Database = strings.Repeat("d", 64) }, `Database "` + strings.Repeat("d", 64) + `": MongoDB allows at most 63 bytes in a database's name`},
		{"longest database", func(c *pulse.Config) { c.Database = strings.Repeat("d", 63) }, ""},
		{"prefix with dollar", func(c *pulse.Config) { c.CollectionPrefix = "a$b" }, `CollectionPrefix "a$b": must not contain $ or NUL`},
		{"prefix not UTF-8", func(c *pulse.Config) { c.CollectionPrefix = "\xff" }, `CollectionPrefix "\xff" is not valid UTF-8`},
		{"no workers", func(c *pulse.Config) { c.WorkerCount = -1 }, "WorkerCount -1: must be from 1 to 10000, or 0 for the default of 4"},
		{"poll too short", func(c *pulse.Config) { c.PollInterval = time.Millisecond }, "PollInterval 1ms: must be from 10ms to 24h0m0s, or 0 for the default of 3s"},
		{"shortest poll", func(c *pulse.Config) { c.PollInterval = 10 * time.Millisecond }, ""},
		{"negative lease", func(c *pulse.Config) { c.LockTimeout = -time.Second }, "LockTimeout -1s: must be from 100ms to 24h0m0s, or 0 for the default of 30s"},
		{"discovery lease too short", func(c *pulse.Config) { c.DiscoveryLockTimeout = time.Millisecond }, "DiscoveryLockTimeout 1ms: must be from 100ms to 24h0m0s, or 0 for the default of 10s"},
		{"event retention too short", func(c *pulse.Config) { c.EventRetention = time.Microsecond }, "EventRetention 1µs: must be from 1ms to 876600h0m0s, or pulse.NoTTL to keep for ever"},
		{"negative event retention", func(c *pulse.Config) { c.EventRetention = -time.Second }, "EventRetention -1s: must be from 1ms to 876600h0m0s, or pulse.NoTTL to keep for ever"},
		{"history retention too short", func(c *pulse.Config) { c.HistoryRetention = -2 }, "HistoryRetention -2ns: must be from 1ms to 876600h0m0s, or pulse.NoTTL to keep for ever"},
		{"look back too short", func(c *pulse.Config) { c.LookBack = time.Millisecond }, "LookBack 1ms: must be from 1s to 24h0m0s, or 0 for the default of 10s"},
		{"most workers", func(c *pulse.Config) { c.WorkerCount = 10_000 }, ""},
		{"longest times", func(c *pulse.Config) {
			c.PollInterval, c.LockTimeout, c.DiscoveryLockTimeout, c.LookBack = 24*time.Hour, 24*time.Hour, 24*time.Hour, 24*time.Hour
			c.EventRetention, c.HistoryRetention = 36525*24*time.Hour, 36525*24*time.Hour
		}, ""},
		{"both kept for ever", func(c *pulse.Config) { c.EventRetention, c.HistoryRetention = pulse.NoTTL, pulse.NoTTL }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			is := is.New(t)
			config := pulse.Config{ConsumerGroup: "billing", Database: "commerce", ManualStart: true}
			test.change(&config)
			c, err := pulse.New(t.Context(), client, config)
			if test.want == "" {
				is.NoErr(err)
				is.NoErr(c.Close(t.Context()))
				return
			}
			is.True(c == nil)
			is.Equal(problemsOf(t, err), []string{test.want})
			is.Equal(err.Error(), "pulse: configuration: "+test.want)
		})
	}
}

// No number is taken that would overflow where it is added to, or reserve memory that is not there: each field that
// holds one is refused by name, value and range. A new field is tried as soon as it exists.
func TestConfig_2_11_AbsurdNumbersAreRefused(t *testing.T) {
	t.Parallel()
	client := unreachable(t)
	fields := reflect.TypeFor[pulse.Config]()
	tried := 0
	for i := range fields.NumField() {
		if !fields.Field(i).Type.ConvertibleTo(reflect.TypeFor[int64]()) {
			continue
		}
		tried++
		name := fields.Field(i).Name
		for _, n := range []int64{math.MinInt64, -2, 1 << 40 * int64(time.Microsecond), math.MaxInt64 - 1, math.MaxInt64} {
			is := is.New(t)
			config := pulse.Config{ConsumerGroup: "billing", Database: "commerce", ManualStart: true}
			field := reflect.ValueOf(&config).Elem().Field(i)
			field.SetInt(n)
			if limit := 36525 * 24 * time.Hour; n > 0 && n < int64(limit) && strings.HasSuffix(name, "Retention") {
				continue // a long one
			}
			c, err := pulse.New(t.Context(), client, config)
			is.True(c == nil)
			found := problemsOf(t, err)
			is.Equal(len(found), 1)
			is.True(strings.HasPrefix(found[0], fmt.Sprintf("%s %v: must be from ", name, field)))
		}
	}
	is.New(t).Equal(tried, 7)
}

func TestConfig_2_11_AllProblemsTogether(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	bad := pulse.Config{WorkerCount: -1, PollInterval: -1, EventRetention: -2}
	c, err := pulse.New(t.Context(), nil, bad)
	is.True(c == nil)
	is.Equal(problemsOf(t, err), []string{
		"ConsumerGroup is empty: name the group whose work this client shares, e.g. the service's name",
		"WorkerCount -1: must be from 1 to 10000, or 0 for the default of 4",
		"PollInterval -1ns: must be from 10ms to 24h0m0s, or 0 for the default of 3s",
		"EventRetention -2ns: must be from 1ms to 876600h0m0s, or pulse.NoTTL to keep for ever",
		"Database is empty: set it, or name it in the URI (mongodb://host/database)",
		"the mongo.Client is nil",
	})
	is.Equal(err.Error(), "pulse: configuration: 6 problems:\n  - "+strings.Join(problemsOf(t, err), "\n  - "))

	c, err = pulse.Connect(t.Context(), "mongo://host", bad)
	is.True(c == nil)
	is.Equal(problemsOf(t, err), []string{
		"ConsumerGroup is empty: name the group whose work this client shares, e.g. the service's name",
		"WorkerCount -1: must be from 1 to 10000, or 0 for the default of 4",
		"PollInterval -1ns: must be from 10ms to 24h0m0s, or 0 for the default of 3s",
		"EventRetention -2ns: must be from 1ms to 876600h0m0s, or pulse.NoTTL to keep for ever",
		`the MongoDB URI is not usable: error parsing uri: scheme must be "mongodb" or "mongodb+srv"`,
	})
}

// Every default can be seen where it takes effect: the retentions in stored documents (TestPublish_1_1_...),
// the worker count in the subscription, the rest in how the client behaves elsewhere.
func TestConfig_2_3_WorkerCountIsTheDefaultConcurrency(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for given, want := range map[int]int{0: 4, 7: 7} {
		c, err := pulse.New(t.Context(), unreachable(t), pulse.Config{ConsumerGroup: "g", Database: "d", WorkerCount: given, ManualStart: true})
		is.NoErr(err)
		sub, err := pulse.NewTopic[int]("t").Subscribe(t.Context(), c, func(context.Context, *pulse.Event[int]) error { return nil }, unordered()...)
		is.NoErr(err)
		is.Equal(sub.Info().MaxConcurrency, want)
		is.NoErr(c.Close(t.Context()))
	}
}

func TestConfig_CollectionPrefix(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, db := publisher(t, func(c *pulse.Config) { c.CollectionPrefix = "our.events" })
	_, err := pulse.NewTopic[int]("t").Publish(t.Context(), c, 1)
	is.NoErr(err)
	n, err := db.Collection("our.events.events").CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	is.Equal(n, int64(1))
	names, err := db.ListCollectionNames(t.Context(), bson.D{})
	is.NoErr(err)
	for _, name := range names {
		is.True(strings.HasPrefix(name, "our.events."))
	}
}

func TestConnect_URIProblemsKeepThePasswordOut(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"":                                               `error parsing uri: scheme must be "mongodb" or "mongodb+srv"`,
		"user:s3cr3t@host/db":                            `error parsing uri: scheme must be "mongodb" or "mongodb+srv"`,
		"mongodb://user:s3cr3t@":                         "error parsing uri: must have at least 1 host",
		"mongodb://user:s3cr3t@host:99999/db":            "port must be in the range [1, 65535]",
		"mongodb://user:s3cr%3t@host/db":                 "error parsing uri: invalid password: percent-encode its special characters",
		"mongodb://user:s3cr@3t@host/db":                 "error parsing uri: unescaped @ sign in user info",
		"mongodb://user:s3cr/3t@host/db":                 "error parsing uri: unescaped slash in password",
		"mongodb://user:s3cr3t@host/db?w=x&x&":           "error parsing uri: invalid option",
		"mongodb://user:s3cr3t@host/?maxPoolSize=s3cr3t": `invalid value for "maxPoolSize": "***"`,
		"mongodb://user:s3cr3t@host/db?tlsCAFile=/nowhere/s3cr3t.pem": "open /nowhere/***.pem: no such file or directory",
	} {
		t.Run(uri, func(t *testing.T) {
			is := is.New(t)
			c, err := pulse.Connect(t.Context(), uri, pulse.Config{ConsumerGroup: "g", Database: "d", ManualStart: true})
			is.True(c == nil)
			problems := problemsOf(t, err)
			is.Equal(len(problems), 1)
			is.True(strings.HasPrefix(problems[0], "the MongoDB URI is not usable: "))
			if !strings.Contains(problems[0], want) {
				t.Errorf("got  %s\nwant %s", problems[0], want)
			}
			is.True(!strings.Contains(err.Error(), "s3cr"))
			is.True(!strings.Contains(err.Error(), "3t"))
		})
	}
}

func TestConnect_WrongPasswordIsNotInTheError(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	scheme, rest, _ := strings.Cut(pulsetest.URI(t), "://")
	uri := scheme + "://somebody:s3cr3t@" + rest
	c, err := pulse.Connect(t.Context(), uri, pulse.Config{ConsumerGroup: "g", Database: "d"})
	is.True(c == nil)
	is.True(err != nil)
	is.True(!strings.Contains(err.Error(), "s3cr3t"))
}

func TestConnect_ServerOutOfReach(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c, err := pulse.Connect(t.Context(), "mongodb://127.0.0.1:1/d?serverSelectionTimeoutMS=50", pulse.Config{ConsumerGroup: "g"})
	is.True(c == nil)
	is.True(err != nil)
	is.True(strings.HasPrefix(err.Error(), "pulse: MongoDB does not answer; is the connection string right, and the server up? server selection error"))
	// Nothing is left behind of it: TestMain looks for goroutines.
}

// withPath puts a database, and options, into the URI of the tests.
func withPath(t *testing.T, database, more string) string {
	t.Helper()
	scheme, rest, _ := strings.Cut(pulsetest.URI(t), "://")
	hosts, rest, _ := strings.Cut(rest, "/")
	_, query, _ := strings.Cut(rest, "?")
	return scheme + "://" + hosts + "/" + database + "?" + strings.Trim(query+"&"+more, "&")
}

func TestConnect_TakesTheDatabaseFromTheURI(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ path, config, want string }{
		"from the URI":       {"%DB%", "", "%DB%"},
		"percent-encoded":    {"pt%5F%DB%", "", "pt_%DB%"},
		"Config has its say": {"elsewhere", "%DB%", "%DB%"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			named := func(s string) string { return strings.ReplaceAll(s, "%DB%", db.Name()) }
			want := db.Client().Database(named(test.want))
			defer func() { is.NoErr(want.Drop(context.Background())) }()
			c, err := pulse.Connect(t.Context(), withPath(t, named(test.path), ""), pulse.Config{ConsumerGroup: "g", Database: named(test.config)})
			is.NoErr(err)
			_, err = pulse.NewTopic[int]("t").Publish(t.Context(), c, 1)
			is.NoErr(err)
			is.NoErr(c.Close(t.Context()))
			is.Equal(len(events(t, want)), 1)
		})
	}
	t.Run("in neither", func(t *testing.T) {
		is := is.New(t)
		_, err := pulse.Connect(t.Context(), withPath(t, "", ""), pulse.Config{ConsumerGroup: "g"})
		is.Equal(problemsOf(t, err), []string{"Database is empty: set it, or name it in the URI (mongodb://host/database)"})
	})
}

// The name that rollouts and operators look for is in the greeting of every connection (spec 4.13).
func TestConnect_4_13_AppendsTheApplicationName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ given, want string }{
		"none":           {"", "@orion-js/pulse-bridge-v2"},
		"one":            {"billing-api", "billing-api @orion-js/pulse-bridge-v2"},
		"ours":           {"x%20%40orion-js%2Fpulse-bridge-v2", "x @orion-js/pulse-bridge-v2"},
		"too long":       {strings.Repeat("n", 128), strings.Repeat("n", 102) + " @orion-js/pulse-bridge-v2"},
		"cut in a rune":  {strings.Repeat("n", 101) + strings.Repeat("%C3%BC", 10), strings.Repeat("n", 101) + " @orion-js/pulse-bridge-v2"},
		"longest to fit": {strings.Repeat("m", 102), strings.Repeat("m", 102) + " @orion-js/pulse-bridge-v2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			is.NoErr(err)
			defer listener.Close()
			c, err := pulse.Connect(t.Context(), "mongodb://"+listener.Addr().String()+"/d?directConnection=true&appName="+test.given,
				pulse.Config{ConsumerGroup: "g", ManualStart: true})
			is.NoErr(err)
			defer func() { is.NoErr(c.Close(context.Background())) }()
			conn, err := listener.Accept()
			is.NoErr(err)
			defer conn.Close()
			greeting := make([]byte, 4096)
			n, err := conn.Read(greeting)
			is.NoErr(err)
			is.Equal(applicationName(greeting[:n]), test.want)
		})
	}
}

// applicationName finds client.application.name in the bytes of a greeting.
func applicationName(greeting []byte) string {
	_, application, _ := bytes.Cut(greeting, []byte("\x03application\x00"))
	_, name, _ := bytes.Cut(application, []byte("\x02name\x00"))
	if len(name) < 4 {
		return ""
	}
	length := binary.LittleEndian.Uint32(name)
	return string(name[4 : 4+length-1])
}

func TestConfigValidate_2_11_SaysWhatConnectWouldWithoutIO(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	good := pulse.Config{ConsumerGroup: "g"}
	is.NoErr(good.Validate("mongodb://127.0.0.1:1/db"))
	is.NoErr(pulse.Config{ConsumerGroup: "g", Database: "db"}.Validate(""))
	is.Equal(problemsOf(t, good.Validate("")), []string{"Database is empty: set it, or name it in the URI (mongodb://host/database)"})
	is.Equal(problemsOf(t, good.Validate("mongodb+srv://no-such-host.invalid/")), []string{"Database is empty: set it, or name it in the URI (mongodb://host/database)"})
	for _, uri := range []string{"mongodb://127.0.0.1:1/", "mongodb://u:p@/", "http://x/", "mongodb://h/a.b?maxPoolSize=x"} {
		bad := pulse.Config{WorkerCount: -1, PollInterval: 1}
		_, err := pulse.Connect(t.Context(), uri, bad)
		is.Equal(problemsOf(t, bad.Validate(uri)), problemsOf(t, err)) // all of them, in its words
	}
}

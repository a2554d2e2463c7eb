// Package session connects a command of an operator to the database that it works on.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/orionjs/orion-go/pulse"
)

// AppName is the application name of the connections: whoever looks for who is connected must not take this tool for a
// replica of a service.
const AppName = "pulse-cli"

// Flags say which database a command works on, and how it prints.
type Flags struct {
	URI      string        `env:"MONGODB_URI" placeholder:"URI" help:"Connection string of MongoDB. Prefer the variable: other users of the machine can read command lines." group:"Connection"`
	Database string        `env:"PULSE_DATABASE" placeholder:"NAME" help:"Database of the collections. Default: the one that the URI names." group:"Connection"`
	Prefix   string        `env:"PULSE_PREFIX" default:"orionjs.pulse" placeholder:"NAME" help:"First part of the collections' names. Default: ${default}." group:"Connection"`
	Timeout  time.Duration `default:"10s" help:"How long to wait for the server. Default: ${default}." group:"Connection"`
	JSON     bool          `name:"json" help:"Print for programs: one JSON document, or one a line for lists." group:"Connection"`
}

// Validate is called by the parser of the command line.
func (f *Flags) Validate() error {
	if f.URI == "" {
		return errors.New("no server is given: set MONGODB_URI, or give --uri; pulse dev brings up a server for a try")
	}
	if f.Timeout <= 0 {
		return errors.New("--timeout must be more than 0")
	}
	var wrong *pulse.ConfigurationError
	if !errors.As(f.config().Validate(f.URI), &wrong) {
		return nil
	}
	texts := make([]string, len(wrong.Problems))
	for i, p := range wrong.Problems {
		texts[i] = p.Text
		if strings.HasPrefix(p.Text, "Database") && f.Database == "" {
			texts[i] = "the URI names no database: add it (mongodb://host/NAME), give --database NAME, or set PULSE_DATABASE"
		}
	}
	return errors.New(strings.Join(texts, "; "))
}

// config is that of a client that only publishes or reads.
func (f *Flags) config() pulse.Config {
	return pulse.Config{
		ConsumerGroup: AppName, Database: f.Database, CollectionPrefix: f.Prefix,
		ManualStart: true, Logger: slog.New(slog.DiscardHandler),
	}
}

// Session is the connection of one command.
type Session struct {
	DB    *mongo.Database
	Flags Flags

	hosts string
}

// Open connects and asks whether the server answers and takes the user.
func Open(ctx context.Context, f Flags) (*Session, error) {
	opts := options.Client().ApplyURI(f.URI).SetAppName(AppName).SetServerSelectionTimeout(f.Timeout)
	client, err := mongo.Connect(opts)
	if err != nil {
		// Flags.Validate has judged the URI; what is left are the lookups of mongodb+srv, whose errors name the host.
		return nil, fmt.Errorf("connect to MongoDB: %w", err)
	}
	s := &Session{Flags: f, hosts: strings.Join(opts.Hosts, ",")}
	if s.Flags.Database == "" {
		s.Flags.Database = databaseOf(f.URI)
	}
	s.DB = client.Database(s.Flags.Database)
	ping, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	if err := client.Ping(ping, readpref.Primary()); err != nil {
		s.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, s.refused(err)
	}
	return s, nil
}

// closeTimeout bounds the farewell.
const closeTimeout = 2 * time.Second

// Close disconnects.
func (s *Session) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// The work is done or has failed by now; a farewell that fails changes neither.
	_ = s.DB.Client().Disconnect(ctx)
}

// Publisher returns a client that publishes, under a name that is stored with the events, and reads the history.
func (s *Session) Publisher(ctx context.Context, name string) (*pulse.Client, error) {
	config := s.Flags.config()
	config.Database = s.Flags.Database
	if name != "" {
		config.ConsumerGroup = name
	}
	return pulse.New(ctx, s.DB.Client(), config)
}

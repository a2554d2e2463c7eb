package pulse

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	// bridgeAppName tells operators which connections come from software that serves both execution
	// versions (spec 4.13). The Node implementation of the same ability uses the same name.
	bridgeAppName = "@orion-js/pulse-bridge-v2"
	// maxAppName is MongoDB's limit, in bytes; it refuses connections with a longer name.
	maxAppName = 128
	// maxDatabaseName is MongoDB's limit, in bytes.
	maxDatabaseName = 63
	// poolIdleTime is how long our connections stay open unused.
	poolIdleTime = 30 * time.Second
	// minPool is how many connections a change stream leaves room with for anything else: it holds one all the time.
	minPool = 2
	// ownConnections is about how many the engine's own loops use at once, beside those of workers.
	ownConnections = 12
)

// Connect opens connections to MongoDB and returns a started client, which Close disconnects. With
// Config.ManualStart it contacts nothing until Start.
//
// It returns a *ConfigurationError for settings that cannot work, an *IndexError, or MongoDB's error.
func Connect(ctx context.Context, uri string, config Config) (*Client, error) {
	opts := options.Client().ApplyURI(uri)
	config, problems := config.complete(uri, opts)
	if err := configurationError(problems); err != nil {
		return nil, err
	}
	given := ""
	if opts.AppName != nil {
		given = *opts.AppName
	}
	opts.SetAppName(appName(given))
	if opts.MaxConnIdleTime == nil {
		opts.SetMaxConnIdleTime(poolIdleTime)
	}
	mc, err := mongo.Connect(opts)
	if err != nil {
		return nil, fmt.Errorf("pulse: connect to MongoDB: %w", err)
	}
	c := newClient(mc, true, config)
	if config.ManualStart {
		return c, nil
	}
	if err := c.Start(ctx); err != nil {
		_ = c.Close(ctx)
		return nil, err
	}
	return c, nil
}

// appName appends our application name to the one that the caller gave. Ours is what tools look for: a name
// that leaves no room for it is cut.
func appName(given string) string {
	switch {
	case given == "":
		return bridgeAppName
	case strings.Contains(given, bridgeAppName):
		return given
	}
	if most := maxAppName - len(bridgeAppName) - 1; len(given) > most {
		for most > 0 && !utf8.RuneStart(given[most]) {
			most--
		}
		given = given[:most]
	}
	return given + " " + bridgeAppName
}

// splitURI returns the credentials and the database of a MongoDB URI, as they are written there.
func splitURI(uri string) (users, database string) {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "?")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		users, rest = rest[:at], rest[at+1:]
	}
	_, database, _ = strings.Cut(rest, "/")
	return users, database
}

// databaseOf returns the database that a MongoDB URI names, if any.
func databaseOf(uri string) string {
	_, database := splitURI(uri)
	if plain, err := url.PathUnescape(database); err == nil {
		return plain
	}
	return database
}

// withoutPassword is the text of an error about the URI, which ends in logs.
func withoutPassword(err error, uri string) string {
	text := err.Error()
	if before, _, found := strings.Cut(text, "invalid password"); found {
		return before + "invalid password: percent-encode its special characters"
	}
	users, _ := splitURI(uri)
	if _, password, _ := strings.Cut(users, ":"); password != "" {
		text = strings.ReplaceAll(text, password, "***")
	}
	return text
}

// poolProblem says what is wrong with the bound of a URI's connections, or nothing.
func (c Config) poolProblem(opts *options.ClientOptions) string {
	if n := opts.MaxPoolSize; n != nil && *n != 0 && *n < minPool && !c.DisableChangeStreams {
		return fmt.Sprintf("maxPoolSize=%d in the MongoDB URI: must be at least %d, since the change stream holds one connection; leave it out for the driver's 100, or set DisableChangeStreams", *n, minPool)
	}
	return ""
}

// databaseProblem says what is wrong with the name of the database, or nothing.
func databaseProblem(name string) string {
	switch problem := nameProblem("Database", name); {
	case problem != "":
		return problem + ": set it, or name it in the URI (mongodb://host/database)"
	case len(name) > maxDatabaseName:
		return fmt.Sprintf("Database %q: MongoDB allows at most %d bytes in a database's name", name, maxDatabaseName)
	case strings.ContainsAny(name, "/\\. \"$*<>:|?\x00"):
		return fmt.Sprintf("Database %q: MongoDB does not allow / \\ . space \" $ * < > : | ? in a database's name", name)
	default:
		return ""
	}
}

package devserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// mongoEnv is the variable that leads to the server, both for us and for the command.
const mongoEnv = "MONGODB_URI"

// mongo is the MongoDB server: one that the user provides, or one of our own.
type mongo struct {
	cfg    Config
	server *mongoserver.Server // nil when the user provides it
}

func newMongo(cfg Config) *mongo { return &mongo{cfg: cfg} }

func (m *mongo) start(ctx context.Context) ([]string, error) {
	if uri := os.Getenv(mongoEnv); uri != "" {
		if err := mongoserver.Check(ctx, uri); err != nil {
			return nil, fmt.Errorf("%s is set, but %w; start that server, or unset %s to have one started here", mongoEnv, err, mongoEnv)
		}
		if m.cfg.Port != 0 || m.cfg.Keep || len(m.cfg.ServerArgs) > 0 {
			say(m.cfg.Stderr, "--port, --keep and --server-arg have no effect on the server of %s", mongoEnv)
		}
		return []string{mongoEnv + "=" + uri}, nil
	}
	opts := mongoserver.Options{Port: m.cfg.Port, Args: m.cfg.ServerArgs, Progress: &linePrefixer{w: m.cfg.Stderr}}
	if m.cfg.Keep {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("--keep has no place for the data: %w", err)
		}
		opts.StoragePath = filepath.Join(cache, "pulse", "data")
	}
	server, err := mongoserver.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	m.server = server
	return []string{mongoEnv + "=" + server.URI()}, nil
}

func (m *mongo) exited() <-chan struct{} {
	if m.server == nil {
		return nil
	}
	return m.server.Exited()
}

func (m *mongo) describe() string {
	switch {
	case m.server == nil:
		return "MongoDB: the server of " + mongoEnv
	case m.cfg.Keep:
		return fmt.Sprintf("MongoDB: %s at %s, data kept", m.server.Name(), m.server.URI())
	default:
		return fmt.Sprintf("MongoDB: %s at %s", m.server.Name(), m.server.URI())
	}
}

func (m *mongo) logTail() string { return m.server.LogTail() }

func (m *mongo) stop() error {
	if m.server == nil {
		return nil
	}
	return m.server.Stop()
}

// linePrefixer says each line that is written to it.
type linePrefixer struct {
	w    io.Writer
	rest []byte
}

func (p *linePrefixer) Write(data []byte) (int, error) {
	p.rest = append(p.rest, data...)
	for {
		line, rest, found := bytes.Cut(p.rest, []byte("\n"))
		if !found {
			return len(data), nil
		}
		say(p.w, "%s", line)
		p.rest = rest
	}
}

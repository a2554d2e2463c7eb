package session

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// The codes of MongoDB that an operator can do something about.
const (
	codeUnauthorized         = 13
	codeAuthenticationFailed = 18
	codeNotPrimary           = 10107
)

// refused says why the first command failed.
func (s *Session) refused(err error) error {
	var answer mongo.CommandError
	text := err.Error()
	switch {
	case errors.As(err, &answer) && answer.Code == codeAuthenticationFailed, strings.Contains(text, "auth error"), strings.Contains(text, "Authentication failed"):
		return fmt.Errorf("MongoDB at %s does not accept the user: check the URI's user, password (special characters percent-encoded) and authSource", s.hosts)
	case errors.As(err, &answer):
		return s.Explain(err)
	}
	return fmt.Errorf("no MongoDB server at %s accepts commands (waited %s): is it up, is the host right, does it want tls=true? %s", s.hosts, s.Flags.Timeout, briefly(err))
}

// Explain adds to an error of the database what can be done about it, where that is known.
func (s *Session) Explain(err error) error {
	var answer mongo.CommandError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && answer.Code == codeUnauthorized:
		return fmt.Errorf("%w; the user of the URI lacks that right: docs/security.md has the roles of operators, publishers and who deploys", err)
	case errors.As(err, &answer) && answer.Code == codeNotPrimary:
		return fmt.Errorf("%w; the replica set elects a primary: try again in some seconds", err)
	case mongo.IsTimeout(err) && !errors.Is(err, context.Canceled), mongo.IsNetworkError(err):
		return fmt.Errorf("%w; what the command had changed before stays, and it can be given again", err)
	}
	return err
}

// topology is the state of the driver that ends its errors, pages long.
var topology = regexp.MustCompile(`,? ?(current topology: .*Last error: ([^}]*)}.*|current topology: .*)$`)

// briefly is the text of an error of the driver without what only its authors can use.
func briefly(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	if m := topology.FindStringSubmatch(text); m != nil {
		if last := strings.TrimSpace(m[2]); last != "" {
			return "(" + last + ")"
		}
		text = strings.TrimSpace(strings.TrimSuffix(text, m[0]))
	}
	return "(" + text + ")"
}

// databaseOf is the database that a URI names.
func databaseOf(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "?")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = rest[at+1:]
	}
	_, name, _ := strings.Cut(rest, "/")
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

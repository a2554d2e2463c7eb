package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func TestExplain_SaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := &Session{hosts: "db.example.com:27017", Flags: Flags{Timeout: time.Second}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{s.Explain(fmt.Errorf("pulse: read: %w", mongo.CommandError{Code: codeUnauthorized, Message: "not authorized"})), "the user of the URI lacks that right: docs/security.md has the roles"},
		{s.Explain(mongo.CommandError{Code: codeNotPrimary, Message: "not primary"}), "the replica set elects a primary: try again"},
		{s.refused(mongo.CommandError{Code: codeAuthenticationFailed, Message: "Authentication failed."}), "db.example.com:27017 does not accept the user: check the URI's user, password"},
		{s.refused(mongo.CommandError{Code: codeUnauthorized, Message: "not authorized"}), "docs/security.md"},
		{
			s.refused(errors.New("server selection error: context deadline exceeded, current topology: { Type: Unknown, Servers: [{ Addr: db:1, Type: Unknown, Last error: dial tcp: lookup db: no such host }, ] }")),
			"no MongoDB server at db.example.com:27017 accepts commands (waited 1s): is it up, is the host right, does it want tls=true? (dial tcp: lookup db: no such host)",
		},
		{s.refused(errors.New("server selection error: timed out")), "(server selection error: timed out)"},
	} {
		if !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v\nhas no %q", c.err, c.want)
		}
	}
	is := is.New(t)
	is.Equal(s.Explain(nil), nil)
	plain := errors.New("plain")
	is.Equal(s.Explain(plain), plain)
}

func TestFlags_AreJudgedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	good := Flags{URI: "mongodb://host/shop", Prefix: "orionjs.pulse", Timeout: time.Second}
	is.New(t).NoErr(good.Validate())
	for want, change := range map[string]func(*Flags){
		"no server is given":        func(f *Flags) { f.URI = "" },
		"the URI names no database": func(f *Flags) { f.URI = "mongodb://host" },
		"--timeout must be more":    func(f *Flags) { f.Timeout = 0 },
		"does not allow":            func(f *Flags) { f.Database = "a/b" },
		"must not contain $":        func(f *Flags) { f.Prefix = "$x" },
		"percent-encode":            func(f *Flags) { f.URI = "mongodb://ana:hunter%2@host/shop" },
	} {
		f := good
		change(&f)
		err := f.Validate()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestDatabaseOf(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(databaseOf("mongodb://ana:p%40ss@a:1,b:2/shop?tls=true"), "shop")
	is.Equal(databaseOf("mongodb+srv://a.example.com/sh%20op"), "sh op")
	is.Equal(databaseOf("mongodb://a/?tls=true"), "")
	is.Equal(databaseOf("mongodb://a"), "")
}

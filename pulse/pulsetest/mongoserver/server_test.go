package mongoserver

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/pulsetest/internal/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a server, which under -short there is not.
func start(t *testing.T, opts Options) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("servers are not started under -short")
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

func connect(t *testing.T, s *Server) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(s.URI()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disconnect(client) })
	return client
}

func TestServer_DataSurvivesRestartAndKill(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := start(t, Options{SyncOnCommit: true})
	things := connect(t, s).Database("test").Collection("things")
	uri := s.URI()
	insert := func(id string) {
		_, err := things.InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}})
		is.NoErr(err)
	}

	insert("before a restart")
	is.NoErr(s.Restart(t.Context()))
	insert("before a crash")
	exited := s.Exited()
	is.NoErr(s.Kill())
	<-exited
	is.NoErr(s.Kill()) // a killed server may be killed again
	is.NoErr(s.Restart(t.Context()))
	insert("after")

	is.Equal(s.URI(), uri)
	n, err := things.CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	is.Equal(n, int64(3))
}

func TestServer_StopIsFinalAndRemovesStorage(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := start(t, Options{})
	_, err := os.Stat(filepath.Dir(s.dir.LogPath()))
	is.NoErr(err)
	exited := s.Exited()
	is.NoErr(s.Stop())
	<-exited
	_, err = os.Stat(filepath.Dir(s.dir.LogPath()))
	is.True(errors.Is(err, os.ErrNotExist))
	is.NoErr(s.Stop())
	is.True(errors.Is(s.Restart(t.Context()), ErrStopped))
	is.True(errors.Is(s.Kill(), ErrStopped))
}

func TestServer_KeepsStoragePathForOneServerAtATime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path := filepath.Join(t.TempDir(), "data")
	first := start(t, Options{StoragePath: path})
	_, err := connect(t, first).Database("test").Collection("things").InsertOne(t.Context(), bson.D{})
	is.NoErr(err)
	_, err = Start(t.Context(), Options{StoragePath: path})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "is in use by another server"))
	is.NoErr(first.Stop())

	second := start(t, Options{StoragePath: path}) // on another port
	n, err := connect(t, second).Database("test").Collection("things").CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	is.Equal(n, int64(1))
}

func TestServer_StandaloneHasNoReplicaSet(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	hello := func(s *Server) bson.M {
		var reply bson.M
		is.NoErr(connect(t, s).Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&reply))
		return reply
	}
	is.Equal(hello(start(t, Options{Standalone: true}))["setName"], nil)
	is.True(hello(start(t, Options{}))["setName"] != nil)
}

func TestServer_AcceptsFailPoints(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	admin := connect(t, start(t, Options{})).Database("admin")
	is.NoErr(admin.RunCommand(t.Context(), bson.D{
		{Key: "configureFailPoint", Value: "failCommand"},
		{Key: "mode", Value: bson.D{{Key: "times", Value: 1}}},
		{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{"ping"}}, {Key: "errorCode", Value: 50}}},
	}).Err())
	var failure mongo.CommandError
	is.True(errors.As(admin.RunCommand(t.Context(), bson.D{{Key: "ping", Value: 1}}).Err(), &failure))
	is.Equal(failure.Code, int32(50))
}

func TestServer_PortTakenMeanwhileIsRecognized(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	is.NoErr(err)
	defer l.Close()
	s := start(t, Options{})
	is.NoErr(s.Kill())
	s.port = l.Addr().(*net.TCPAddr).Port
	is.True(errors.Is(s.launch(t.Context()), child.ErrPortTaken)) // so that Start takes another one
}

func TestStart_ImpossiblePort(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, err := Start(t.Context(), Options{Port: 70000})
	is.True(err != nil)
	is.Equal(err.Error(), "port 70000 does not exist: choose one from 1 to 65535, or 0 for a free one")
}

func TestCheck_SaysWhatIsWrongWithoutThePassword(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	is.NoErr(l.Close())
	for _, uri := range []string{
		"mongodb://user:secret@" + l.Addr().String() + "/?connectTimeoutMS=100",
		"mongodb://user:secret@h:x@y/",
		"user:secret@h",
	} {
		err := Check(t.Context(), uri)
		is.True(err != nil)
		is.True(!strings.Contains(err.Error(), "secret"))
	}
	is.NoErr(Check(t.Context(), start(t, Options{}).URI()))
}

func TestContainer_KeepsItsNameOverARestart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	calls := filepath.Join(t.TempDir(), "calls")
	docker := filepath.Join(t.TempDir(), "docker")
	is.NoErr(os.WriteFile(docker, []byte("#!/bin/sh\necho \"$@\" >> '"+calls+"'\n"), 0o755))
	c := &container{runtime: "docker", path: docker}

	first := c.command(run{port: 4711, dataDir: "/data", ownStorage: true, standalone: true, args: []string{"--quiet"}})
	name := c.id
	is.Equal(strings.Join(first.Args[1:], " "), "run --name "+name+" --publish 127.0.0.1:4711:4711 --volume /data:/data/db "+
		"mongo:8 mongod --bind_ip_all --port 4711 --setParameter enableTestCommands=1 --quiet")
	is.Equal(strings.Join(c.command(run{port: 4711}).Args[1:], " "), "start --attach "+name)
	c.kill(nil)
	c.remove()
	c.remove()
	data, err := os.ReadFile(calls)
	is.NoErr(err)
	is.Equal(string(data), "kill "+name+"\nrm --force --volumes "+name+"\n")
}

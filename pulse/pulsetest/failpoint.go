package pulsetest

import (
	"context"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// FailPoint makes the server itself fail the commands of one client: with an error, by closing the
// connection, or by answering late. The server must run with its test commands enabled. Make one with
// NewFailPoint; it belongs to the goroutine of its test.
type FailPoint struct {
	t     testing.TB
	admin *mongo.Database
}

// Failure says which commands fail, and how.
type Failure struct {
	AppName         string        // of the client that is to fail (options.ClientOptions.SetAppName); required: others share the server
	Commands        []string      // names as in the driver's command monitor: insert, update, createIndexes, ...; required
	Times           int           // how many commands fail; 0: all until Off
	ErrorCode       int           // 0: no error, the command is executed
	ErrorLabels     []string      // replace the labels that the server gives to the error; nil: those of the server
	CloseConnection bool          // close the connection and answer nothing
	Block           time.Duration // wait that long before anything else
}

// NewFailPoint waits until no other test holds the server's only fail point, also in other processes on
// this machine, and holds it until the test and its subtests have ended; it is off then. A test must not
// make a second one. The client sends the commands that set it, and should not be the one that fails.
func NewFailPoint(t testing.TB, client *mongo.Client) *FailPoint {
	t.Helper()
	// The file's lock ends with the process that holds it, however that ends.
	server := fnv.New32a()
	_, _ = server.Write([]byte(URI(t)))
	path := filepath.Join(os.TempDir(), "pulsetest-failpoint-"+strconv.FormatUint(uint64(server.Sum32()), 36)+".lock")
	unlock, err := lockedfile.MutexAt(path).Lock()
	if err != nil {
		t.Fatalf("lock the server's fail point: %v", err)
	}
	f := &FailPoint{t: t, admin: client.Database("admin")}
	t.Cleanup(func() {
		defer unlock()
		f.Off()
	})
	return f
}

// Set replaces the failure in force.
func (f *FailPoint) Set(failure Failure) {
	f.t.Helper()
	if failure.AppName == "" || len(failure.Commands) == 0 {
		f.t.Fatal("a Failure needs AppName and Commands: without them it would hit the other tests of this server")
	}
	data := bson.D{{Key: "appName", Value: failure.AppName}, {Key: "failCommands", Value: failure.Commands}}
	add := func(key string, value any) { data = append(data, bson.E{Key: key, Value: value}) }
	if failure.ErrorCode != 0 {
		add("errorCode", failure.ErrorCode)
	}
	if failure.ErrorLabels != nil {
		add("errorLabels", failure.ErrorLabels)
	}
	if failure.CloseConnection {
		add("closeConnection", true)
	}
	if failure.Block > 0 {
		add("blockConnection", true)
		add("blockTimeMS", failure.Block.Milliseconds())
	}
	var mode any = "alwaysOn"
	if failure.Times > 0 {
		mode = bson.D{{Key: "times", Value: failure.Times}}
	}
	f.configure(mode, data)
}

// Off ends the failure in force.
func (f *FailPoint) Off() {
	f.t.Helper()
	f.configure("off", nil)
}

func (f *FailPoint) configure(mode any, data bson.D) {
	f.t.Helper()
	// The test's own context has ended when its clean-ups run.
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	command := bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode}}
	if data != nil {
		command = append(command, bson.E{Key: "data", Value: data})
	}
	if err := f.admin.RunCommand(ctx, command).Err(); err != nil {
		f.t.Errorf("set the server's fail point: %v (was it started with its test commands enabled?)", err)
	}
}

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// witnessEnv is the address of the witness that helpers tell of their lives.
const witnessEnv = "PULSE_TEST_WITNESS"

// helper is a command or server that pulse dev runs, in the test binary. It returns the exit status.
func helper(name string, args []string) int {
	witness, err := net.Dial("tcp", os.Getenv(witnessEnv))
	if err != nil {
		return fail(err)
	}
	// Never closed: the kernel does that when the process ends, and so the test sees the end. The other
	// direction ends with the test, and then nobody needs us any more.
	_, _ = fmt.Fprintln(witness, name)
	go func() {
		_, _ = io.Copy(io.Discard, witness)
		os.Exit(98)
	}()

	switch name {
	case "mongod", "secantusd":
		return serveMongo(args, name == "mongod")
	case "kafka":
		return serveKafka(args)
	case "exit":
		n, _ := strconv.Atoi(args[0])
		return n
	case "die":
		n, _ := strconv.Atoi(args[0])
		_ = syscall.Kill(os.Getpid(), syscall.Signal(n))
		select {}
	case "ping": // the database can be reached, and standard input arrives
		if err := pingDatabase(); err != nil {
			return fail(err)
		}
		in, _ := io.ReadAll(os.Stdin)
		fmt.Printf("reached, read %q\n", in)
		return 0
	case "pingkafka": // the database and the broker can be reached
		if err := errors.Join(pingDatabase(), pingBroker()); err != nil {
			return fail(err)
		}
		fmt.Println("reached both")
		n, _ := strconv.Atoi(args[0])
		return n
	case "serve": // ends gracefully, with the database still there
		return serveUntilSignal()
	case "stubborn":
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		ready()
		select {}
	case "leave": // leaves a process behind, as go run does when SIGTERM ends it
		if err := start(args[0]); err != nil {
			return fail(err)
		}
		ready()
		if len(args) > 1 {
			return 0
		}
		select {}
	case "hang":
		ready()
		select {}
	case "gorun": // started under the name go, runs pulse dev as go run does
		signal.Ignore(syscall.SIGINT)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		_ = cmd.Run()
		return 1
	default:
		return fail(fmt.Errorf("no helper %q", name))
	}
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "helper:", err)
	return 99
}

// start starts a helper that outlives this process and returns when it is ready.
func start(name string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0], helperPrefix+name)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{w}
	cmd.Env = append(os.Environ(), readyEnv+"=3")
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = w.Close()
	_, err = r.Read(make([]byte, 1))
	return err
}

// readyEnv is set for helpers that report to another one, at that descriptor, instead of to the test.
const readyEnv = "PULSE_TEST_READY"

func ready() {
	if os.Getenv(readyEnv) != "" {
		_, _ = os.NewFile(3, "ready").WriteString(".")
		return
	}
	fmt.Println("ready")
}

func serveUntilSignal() int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ready()
	first := <-signals
	if err := pingDatabase(); err != nil {
		return fail(err)
	}
	// Nothing can be waited for that does not come, so this is a time: whoever sends a second signal by
	// mistake does so at once.
	select {
	case second := <-signals:
		return fail(fmt.Errorf("%v came after %v", second, first))
	case <-time.After(100 * time.Millisecond):
	}
	fmt.Println("graceful", first)
	return 5
}

func pingDatabase() error {
	client, err := mongo.Connect(options.Client().ApplyURI(os.Getenv("MONGODB_URI")).SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		return err
	}
	return errors.Join(client.Ping(context.Background(), nil), client.Disconnect(context.Background()))
}

func pingBroker() error {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA_BROKERS")))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return client.Ping(ctx)
}

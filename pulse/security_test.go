package pulse_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// certificate writes a certificate for this machine, signed by a new authority, and returns the files of
// the authority, of the certificate with its key, and of both apart.
func certificate(t *testing.T, dir string) (ca, cert, key, both string) {
	t.Helper()
	is := is.New(t)
	file := func(name string, blocks ...*pem.Block) string {
		path := filepath.Join(dir, name)
		var text []byte
		for _, b := range blocks {
			text = append(text, pem.EncodeToMemory(b)...)
		}
		is.NoErr(os.WriteFile(path, text, 0o600))
		return path
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pulse test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	is.NoErr(err)
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	is.NoErr(err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	is.NoErr(err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, &leafKey.PublicKey, authorityKey)
	is.NoErr(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	is.NoErr(err)
	certBlock, keyBlock := &pem.Block{Type: "CERTIFICATE", Bytes: leafDER}, &pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}
	return file("ca.pem", &pem.Block{Type: "CERTIFICATE", Bytes: authorityDER}),
		file("cert.pem", certBlock), file("key.pem", keyBlock), file("both.pem", certBlock, keyBlock)
}

// securedServer starts a server with access control and encryption, on which the roles of docs/security.md
// and a user for each of them exist, for the database. The user's password is its role's name, with a few
// characters that have to be escaped.
func securedServer(t *testing.T, database string) (uriOf func(role string) string) {
	t.Helper()
	is := is.New(t)
	dir := t.TempDir()
	storage := filepath.Join(dir, "data")
	open, err := mongoserver.Start(t.Context(), mongoserver.Options{StoragePath: storage})
	is.NoErr(err)
	text, err := os.ReadFile("../docs/security.md")
	is.NoErr(err)
	root, err := mongo.Connect(options.Client().ApplyURI(open.URI()))
	is.NoErr(err)
	admin := root.Database("admin")
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		var command bson.D
		is.NoErr(bson.UnmarshalExtJSON([]byte(strings.ReplaceAll(block[1], "commerce", database)), false, &command))
		is.NoErr(admin.RunCommand(t.Context(), command).Err())
		name := command[0].Value.(string)
		is.NoErr(admin.RunCommand(t.Context(), bson.D{
			{Key: "createUser", Value: name},
			{Key: "pwd", Value: password(name)},
			{Key: "roles", Value: bson.A{bson.D{{Key: "role", Value: name}, {Key: "db", Value: "admin"}}}},
		}).Err())
	}
	name := open.Name()
	is.NoErr(root.Disconnect(t.Context()))
	is.NoErr(open.Stop())

	ca, cert, key, both := certificate(t, dir)
	args := []string{"--auth", "--tls-cert-file", cert, "--tls-key-file", key}
	if name != "secantusd-rs" {
		args = []string{"--auth", "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", both, "--tlsCAFile", ca, "--tlsAllowConnectionsWithoutCertificates"}
	}
	server, err := mongoserver.Start(t.Context(), mongoserver.Options{StoragePath: storage, Args: args, Query: "tls=true&tlsCAFile=" + url.QueryEscape(ca)})
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(server.Stop()) })
	return func(role string) string {
		u, err := url.Parse(server.URI())
		is.NoErr(err)
		u.User = url.UserPassword(role, password(role))
		u.Path = "/" + database
		u.RawQuery += "&authSource=admin"
		return u.String()
	}
}

func password(role string) string { return "p:w/" + role + "@ 1" }

// Encryption, authentication, and the roles that the documentation names: each can do what it is for, and
// not more.
func TestSecurity_6_1_RolesOfTheDocumentation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const database = "commerce_test"
	uriOf := securedServer(t, database)
	connect := func(role string, more ...func(*pulse.Config)) (*pulse.Client, error) {
		config := pulse.Config{ConsumerGroup: "billing", PollInterval: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
		for _, f := range more {
			f(&config)
		}
		c, err := pulse.Connect(t.Context(), uriOf(role), config)
		if err == nil {
			t.Cleanup(func() { _ = c.Close(context.Background()) })
		}
		return c, err
	}
	topic := pulse.NewTopic[order]("order.created")

	// Without the indexes only the deployer can start.
	var missing *pulse.IndexError
	_, err := connect("pulseConsumer")
	is.True(errors.As(err, &missing))
	_, err = connect("pulseDeployer")
	is.NoErr(err)

	var reported pulsetest.Recorder[error]
	onError := func(c *pulse.Config) { c.OnError = func(err error) { reported.Add(err) } }
	consumer, err := connect("pulseConsumer", onError)
	is.NoErr(err)
	publisher, err := connect("pulsePublisher", onError)
	is.NoErr(err)
	var single, batch, inOrder pulsetest.Recorder[int]
	is.NoErr(second(topic.Subscribe(t.Context(), consumer, func(_ context.Context, e *pulse.Event[order]) error {
		single.Add(e.Data.Number)
		if e.Attempt == 1 {
			return fmt.Errorf("once")
		}
		return nil
	}, pulse.Unordered(), pulse.ExecutionVersion(2), pulse.RetryDelay(0))))
	is.NoErr(second(pulse.NewTopic[order]("batch").SubscribeBatch(t.Context(), consumer, 10, func(_ context.Context, es []*pulse.Event[order]) error {
		batch.Add(len(es))
		return nil
	})))
	is.NoErr(second(pulse.NewTopic[order]("ordered").Subscribe(t.Context(), consumer, func(_ context.Context, e *pulse.Event[order]) error {
		inOrder.Add(e.Data.Number)
		return nil
	})))
	is.NoErr(second(topic.Publish(t.Context(), publisher, order{Number: 1}, pulse.WithID("one"))))
	again, err := topic.Publish(t.Context(), publisher, order{Number: 1}, pulse.WithID("one"))
	is.NoErr(err)
	is.True(again.Duplicate)
	is.NoErr(second(pulse.NewTopic[order]("batch").Publish(t.Context(), publisher, order{})))
	is.NoErr(second(pulse.NewTopic[order]("ordered").Publish(t.Context(), publisher, order{Number: 7})))
	is.Equal(single.Wait(t, 2), []int{1, 1})
	is.Equal(batch.Wait(t, 1), []int{1})
	is.Equal(inOrder.Wait(t, 1), []int{7})

	// In a transaction, too.
	mc, err := mongo.Connect(options.Client().ApplyURI(uriOf("pulsePublisher")))
	is.NoErr(err)
	defer func() { _ = mc.Disconnect(context.Background()) }()
	joined, err := pulse.New(t.Context(), mc, pulse.Config{ConsumerGroup: "shop", Database: database, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	is.NoErr(err)
	defer func() { is.NoErr(joined.Close(context.Background())) }()
	is.NoErr((&outbox{Client: joined, mongo: mc}).within(t.Context(), func(ctx context.Context) error {
		return second(topic.Publish(ctx, joined, order{Number: 2}))
	}))
	is.Equal(single.Wait(t, 4)[2:], []int{2, 2})

	// A publisher cannot consume.
	_, err = topic.Subscribe(t.Context(), publisher, func(context.Context, *pulse.Event[order]) error { return nil })
	is.True(err != nil)
	is.True(strings.Contains(strings.ToLower(err.Error()), "not authorized"))
	is.NoErr(consumer.Close(t.Context()))
	for _, err := range reported.Values() {
		t.Errorf("reported: %v", err)
	}
}

// Who looks sees everything and changes nothing; who acts retries, cancels and pauses.
func TestSecurity_9_2_OperatorsOfTheDocumentation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const database, group = "commerce_test", "billing"
	uriOf := securedServer(t, database)
	administrator := func(role string) *admin.Admin {
		client, err := mongo.Connect(options.Client().ApplyURI(uriOf(role)))
		is.NoErr(err)
		t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
		a, err := admin.New(client.Database(database), admin.Config{})
		is.NoErr(err)
		return a
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	deployer, err := pulse.Connect(t.Context(), uriOf("pulseDeployer"), pulse.Config{ConsumerGroup: group, Logger: quiet})
	is.NoErr(err)
	is.NoErr(deployer.Close(t.Context()))
	consumer, err := pulse.Connect(t.Context(), uriOf("pulseConsumer"), pulse.Config{ConsumerGroup: group, Logger: quiet})
	is.NoErr(err)
	versions := map[string]int{"order.created": 2, "order.paid": 1}
	for name, version := range versions {
		topic := pulse.NewTopic[order](name)
		is.NoErr(second(topic.Subscribe(t.Context(), consumer, func(context.Context, *pulse.Event[order]) error {
			return errors.New("refused")
		}, pulse.Unordered(), pulse.ExecutionVersion(version), pulse.MaxRetries(0))))
		is.NoErr(second(topic.Publish(t.Context(), consumer, order{Number: version})))
	}
	viewer, operator := administrator("pulseViewer"), administrator("pulseOperator")
	failed := admin.DeliveryQuery{Group: group, States: []admin.State{admin.Failed}}
	var ended []admin.Delivery
	pulsetest.Eventually(t, "both events have failed", func(ctx context.Context) error {
		page, err := viewer.Deliveries(ctx, failed)
		if ended = page.Deliveries; err == nil && len(ended) < len(versions) {
			err = fmt.Errorf("%d have", len(ended))
		}
		return err
	})
	is.NoErr(consumer.Close(t.Context()))

	subscriptions, err := viewer.Subscriptions(t.Context(), admin.SubscriptionQuery{})
	is.NoErr(err)
	is.Equal(len(subscriptions), len(versions))
	_, err = viewer.Rollout(t.Context(), group, "order.created")
	is.NoErr(err)
	by := admin.By{Name: "ada", Reason: "the card service is back"}
	for _, d := range ended {
		is.NoErr(second(viewer.Delivery(t.Context(), d.ID)))
		_, err = viewer.Retry(t.Context(), d.ID, by)
		is.True(err != nil && strings.Contains(strings.ToLower(err.Error()), "not authorized"))
		is.NoErr(second(operator.Retry(t.Context(), d.ID, by)))
		is.NoErr(second(operator.Cancel(t.Context(), d.ID, by)))
		is.NoErr(second(operator.Pause(t.Context(), group, d.Topic, by)))
		is.NoErr(second(operator.Resume(t.Context(), group, d.Topic, by)))
	}
}

// Passwords are in no error, whatever is wrong with the connection.
func TestSecurity_6_1_CredentialsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	uriOf := securedServer(t, "commerce_test")
	right := uriOf("pulseConsumer")
	secret := url.QueryEscape(password("pulseConsumer"))
	var log strings.Builder
	for name, uri := range map[string]string{
		"wrong password":    strings.Replace(right, "pulseConsumer:", "pulseConsumer:x", 1),
		"unknown authority": regexp.MustCompile(`tlsCAFile=[^&]*`).ReplaceAllString(right, "tls=true"),
		"not encrypted":     regexp.MustCompile(`tls=true&tlsCAFile=[^&]*`).ReplaceAllString(right, "tls=false"),
		"no such file":      regexp.MustCompile(`tlsCAFile=[^&]*`).ReplaceAllString(right, "tlsCAFile=none.pem"),
		"not a URI":         strings.Replace(right, "127.0.0.1:", "127.0.0.1:x", 1),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := pulse.Connect(ctx, uri+"&serverSelectionTimeoutMS=500", pulse.Config{ConsumerGroup: "billing", Database: "x", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		cancel()
		if err == nil {
			t.Errorf("%s: connected", name)
			continue
		}
		for _, part := range []string{secret, password("pulseConsumer"), "p%3Aw", "p:w"} {
			if strings.Contains(err.Error(), part) || strings.Contains(log.String(), part) {
				t.Errorf("%s: the password is told: %v %s", name, err, log.String())
			}
		}
	}
	is.Equal(log.String(), "")
}

package console_test

import (
	"log"
	"net/http"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/console"
)

// A service mounts the console behind its own sign-in: everybody who is signed in looks, operators change.
func Example() {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://localhost"))
	if err != nil {
		log.Fatal(err)
	}
	a, err := admin.New(client.Database("shop"), admin.Config{})
	if err != nil {
		log.Fatal(err)
	}
	look := console.New(a, console.Config{Name: "shop", HidePayloads: true})
	change := console.New(a, console.Config{Name: "shop", ReadWrite: true, Operator: userOf})

	mux := http.NewServeMux()
	mux.Handle("/pulse/", signedIn(http.StripPrefix("/pulse", look)))
	mux.Handle("/operate/pulse/", operatorsOnly(http.StripPrefix("/operate/pulse", change)))
	_ = mux // ... the service serves it
}

// The service's own.
func userOf(r *http.Request) string                { return r.Header.Get("X-User") }
func signedIn(next http.Handler) http.Handler      { return next }
func operatorsOnly(next http.Handler) http.Handler { return next }

package pulsetest

import (
	"testing"

	"github.com/matryer/is"
)

func TestBrokers_AreThoseOfTheEnvironment(t *testing.T) {
	if testing.Short() {
		t.Skip("Brokers skips under -short")
	}
	t.Setenv(brokersVariable, "a:1, b:2,")
	is.New(t).Equal(Brokers(t), []string{"a:1", "b:2"})
	t.Setenv(brokersVariable, " ,")
	wantParts(t, (&fakeT{TB: t}).run(func(t testing.TB) { Brokers(t) }),
		"KAFKA_BROKERS is not set", "go tool pulse dev --kafka -- go test ./...", "make test")
}

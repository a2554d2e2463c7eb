package directive

import (
	"testing"

	"github.com/matryer/is"
)

func TestDefaultTopic_7_1_LowersTheFirstWord(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{
		"Created":       "created",
		"HTTPReceived":  "httpReceived",
		"OrderCreated":  "orderCreated",
		"ID":            "id",
		"A":             "a",
		"HTTP2Received": "http2Received",
		"URLs":          "urLs", // the last capital of a run begins the next word
		"received":      "received",
		"Äpfel":         "äpfel",
		"X_Y":           "x_Y",
	} {
		t.Run(method, func(t *testing.T) {
			is.New(t).Equal(DefaultTopic(method), want)
		})
	}
}

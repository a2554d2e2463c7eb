package spelling_test

import (
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/internal/spelling"
)

func TestNearest_7_4_FindsSlipsOnly(t *testing.T) {
	t.Parallel()
	words := []string{"topic", "ordered", "maxRetries", "batchSize"}
	for word, want := range map[string]string{
		"topik": "topic", "TOPIC": "topic", "tpoic": "topic", "orderd": "ordered",
		"maxretries": "maxRetries", "maxRetry": "", "size": "", "order": "ordered", "": "",
	} {
		got, _ := spelling.Nearest(word, words)
		if got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestDistance_7_4_CountsEdits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(spelling.Distance("event", "event"), 0)
	is.Equal(spelling.Distance("evnt", "event"), 1)
	is.Equal(spelling.Distance("evnet", "event"), 1) // neighbours swapped
	is.Equal(spelling.Distance("", "abc"), 3)
	is.Equal(spelling.Distance("kitten", "sitting"), 3)
}

package masked_test

import (
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/internal/masked"
)

func TestText_MasksWhatDiffersAndNothingElse(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(masked.Text("97ms ago   billing  01a22df2-2d62-7276-8d1e-3800bcb16a41  2 events  go:host-1:7:x \n"), "SPAN ago  billing  UUID  2 events  go:WORKER\n")
	is.Equal(masked.Text("ended 2026-11-30T19:32:55.797Z of INV-3"), "ended TIME of INV-3")
}

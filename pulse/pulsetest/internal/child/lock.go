package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// lockPause is the time between two looks at the lock of what another process makes.
const lockPause = 200 * time.Millisecond

// AwaitLock takes the lock of the file, waiting as long as another process that makes the same has it; doing
// says what that is, such as "building secantusd-rs".
func AwaitLock(ctx context.Context, path, doing string, progress io.Writer) (unlock func(), err error) {
	for told := false; ; told = true {
		unlock, err := Lock(path)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, ErrLocked) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told {
			_, _ = fmt.Fprintf(progress, "another process is %s: waiting for it\n", doing)
		}
		if err := clock.Sleep(ctx, lockPause); err != nil {
			return nil, fmt.Errorf("waiting for another process that is %s: %w", doing, err)
		}
	}
}

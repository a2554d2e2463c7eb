package pulse

import (
	"time"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// IsPermanent reports whether err was marked by Permanent, itself or something that it wraps. Pulse sees to
// it by itself: this is for a transport that runs handlers in another way.
func IsPermanent(err error) bool { return delivery.FromHandler(err).Permanent }

// RetryAfterOf returns the pause that RetryAfter has set on err or on something that it wraps, and whether
// there is one. Like IsPermanent it is for other transports.
func RetryAfterOf(err error) (time.Duration, bool) {
	if after := delivery.FromHandler(err).RetryAfter; after != nil {
		return max(0, *after), true
	}
	return 0, false
}

package delivery

// The states of a delivery as stored (storage.md). The version 2 names are distinct on purpose:
// older software selects by the version 1 names alone and therefore leaves version 2 work untouched.
const (
	StatusPending    = "v2-pending"
	StatusProcessing = "v2-processing"
	StatusSuccess    = "v2-success"
	StatusError      = "v2-error"

	StatusV1Pending = "pending"
	StatusV1Success = "success"
	StatusV1Error   = "error"
)

// Statuses lists all seven states. Whoever asks "does this event have a delivery?" must ask for all
// of them, or events delivered in the other format would be delivered again.
var Statuses = []string{
	StatusPending, StatusProcessing, StatusSuccess, StatusError,
	StatusV1Pending, StatusV1Success, StatusV1Error,
}

// AttemptWindow is how many completed attempts a version 2 delivery keeps (spec 4.10).
const AttemptWindow = 10

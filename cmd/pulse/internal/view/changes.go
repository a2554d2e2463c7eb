package view

import "github.com/orionjs/orion-go/pulse/admin"

// Changes is what became of deliveries that were to be changed.
type Changes struct {
	Matched int `json:"matched"`
	Changed int `json:"changed"`
	// More: the work ended at its bound, and others may match.
	More   bool     `json:"more,omitempty"`
	Errors []string `json:"errors,omitempty"`
}

// NewChanges describes changes.
func NewChanges(c admin.Changes) Changes {
	v := Changes{Matched: c.Matched, Changed: c.Changed, More: c.More}
	for _, err := range c.Errors {
		v.Errors = append(v.Errors, err.Error())
	}
	return v
}

// PauseChange is what became of a pause, or of its end. Changed is false when it was so already.
type PauseChange struct {
	ConsumerGroup string `json:"consumerGroup"`
	Topic         string `json:"topic"`
	Changed       bool   `json:"changed"`
}

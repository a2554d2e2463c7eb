package view

import "github.com/orionjs/orion-go/pulse/admin"

// Rollout says how far a change of the execution version has come.
type Rollout struct {
	ConsumerGroup string   `json:"consumerGroup"`
	Topic         string   `json:"topic"`
	Settings      Settings `json:"settings"`
	Clients       []Client `json:"clients"`
	// Sight is which connections could be seen: all, own-user or none.
	Sight              string  `json:"sight"`
	Version1           Count   `json:"version1"`
	Version2Pending    Count   `json:"version2Pending"`
	Version2Processing Count   `json:"version2Processing"`
	HalfDone           Count   `json:"halfDone"`
	Version2           Verdict `json:"version2"`
	Rollback           Verdict `json:"rollback"`
}

// Client is an application that is connected: bridge-capable, other-pulse, tool or unknown.
type Client struct {
	AppName     string   `json:"appName"`
	Kind        string   `json:"kind"`
	Connections int      `json:"connections"`
	Hosts       []string `json:"hosts,omitempty"`
}

// Verdict is whether a step can be taken: yes, no or unknown.
type Verdict struct {
	Answer  string   `json:"answer"`
	Reasons []string `json:"reasons"`
}

// NewRollout describes a report.
func NewRollout(r admin.RolloutReport) Rollout {
	v := Rollout{
		ConsumerGroup: r.Group, Topic: r.Topic, Settings: newSettings(r.Settings), Clients: []Client{}, Sight: string(r.Sight),
		Version1: Count(r.Version1), Version2Pending: Count(r.Version2Pending), Version2Processing: Count(r.Version2Processing),
		HalfDone: Count(r.HalfDone), Version2: newVerdict(r.Step2), Rollback: newVerdict(r.RollbackStep3),
	}
	for _, c := range r.Clients {
		v.Clients = append(v.Clients, Client{AppName: c.AppName, Kind: string(c.Kind), Connections: c.Connections, Hosts: c.Hosts})
	}
	return v
}

func newVerdict(v admin.Verdict) Verdict {
	return Verdict{Answer: string(v.Answer), Reasons: v.Reasons}
}

package view

import "github.com/orionjs/orion-go/pulse/admin"

// Report is what a doctor has found.
type Report struct {
	Findings []Finding `json:"findings"`
	// Subscriptions is how many were examined.
	Subscriptions int `json:"subscriptions"`
}

// Finding is one thing that is wrong.
type Finding struct {
	Severity string `json:"severity"`
	Check    string `json:"check"`
	Where    string `json:"where"`
	Text     string `json:"text"`
	Remedy   string `json:"remedy,omitempty"`
	Fixable  bool   `json:"fixable"`
	Fixed    bool   `json:"fixed"`
}

// NewReport describes a report.
func NewReport(r admin.Report) Report {
	v := Report{Findings: []Finding{}, Subscriptions: r.Subscriptions}
	for _, f := range r.Findings {
		v.Findings = append(v.Findings, Finding{
			Severity: string(f.Severity), Check: string(f.Check), Where: f.Where, Text: f.Text, Remedy: f.Remedy, Fixable: f.Fixable, Fixed: f.Fixed,
		})
	}
	return v
}

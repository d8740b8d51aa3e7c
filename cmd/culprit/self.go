package main

import (
	"encoding/json"
	"sync"

	"culprit/diagnose"
	"culprit/export/self"
	"culprit/measure"
)

// selfReader reads the server's state for its own statistics. Safe for several goroutines: while
// the datasets change, two runs of the source overlap.
type selfReader struct {
	machine *recordedMachine

	mu       sync.Mutex   // guards the fields below
	at       measure.Time // of the diagnosis whose findings these are
	findings []self.Finding
}

func newSelfReader(m *recordedMachine) *selfReader { return &selfReader{machine: m} }

// read returns the current state.
func (r *selfReader) read() self.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, document := r.machine.Newest()
	if at != r.at {
		r.at, r.findings = at, findingsOf(document)
	}
	s := self.State{
		Health: r.machine.Health(), Version: version, Findings: r.findings, Diagnosed: at != 0,
	}
	s.Newest = r.machine.NewestTick()
	return s
}

// findingsOf returns the findings of the JSON of a report.
func findingsOf(document []byte) (all []self.Finding) {
	var report diagnose.Report
	if json.Unmarshal(document, &report) != nil { // the diagnosis reports it
		return nil
	}
	for _, f := range report.Findings {
		all = append(all, self.Finding{
			Rule: f.Rule, Kind: f.Culprit.Kind, Culprit: f.Culprit.Name,
			Severity: string(f.Severity), Confidence: float64(f.Confidence),
		})
	}
	return all
}

package main

import (
	"context"

	"culprit/dataset"
	"culprit/measure"
	"culprit/view/show"
	"culprit/view/term"
	"culprit/view/web"
)

// An mcpHost is the recording of this server for the tools of /mcp. It implements mcp.Host.
type mcpHost struct {
	m   *recordedMachine
	api *web.Server
}

// Live returns nil: the server records, so "now" is its newest time.
func (h *mcpHost) Live(string, bool) (show.Machine, error) { return nil, nil }

// Recording returns the recording. Its Close does nothing.
func (h *mcpHost) Recording() (show.Recorded, error) { return ownRecord{h.m}, nil }

// Stats returns the statistics of this machine.
func (h *mcpHost) Stats() ([]measure.Stat, error) { return h.m.Stats(), nil }

// Do calls f within the limits of queries.
func (h *mcpHost) Do(ctx context.Context, f func(context.Context) error) error {
	return h.api.RunQuery(ctx, f)
}

// An ownRecord is the recording of this process. It implements term.Recorded.
type ownRecord struct{ m *recordedMachine }

// Held returns the recorded time.
func (r ownRecord) Held() (over measure.Interval) {
	for _, d := range r.m.Datasets() {
		over = union(over, r.m.Held(d.ID).Over)
	}
	return over
}

// Remark implements term.Recorded: it has none.
func (r ownRecord) Remark() string { return "" }

// Trouble returns the problems of the server.
func (r ownRecord) Trouble() (all []string) {
	for _, p := range r.m.Health().Problems {
		all = append(all, p.Text)
	}
	return all
}

// Replay returns the recording within an interval.
func (r ownRecord) Replay(during measure.Interval, netns string) term.Machine {
	return dataset.NewReplay(r.m, r.m.Stats(), during, netnsTerms(netns)...)
}

// Findings calls each for the logged diagnoses.
func (r ownRecord) Findings(
	ctx context.Context, over measure.Interval, each func(at measure.Time, document []byte) error,
) error {
	return r.m.Reports(ctx, over, each)
}

// Close does nothing.
func (r ownRecord) Close() error { return nil }

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"culprit/collect"
	"culprit/dataset"
	"culprit/diagnose"
	"culprit/engine"
	"culprit/fleet"
	"culprit/measure"
	"culprit/view/term"
)

// knownStats returns the statistics that this program knows, whether or not this kernel has them.
func knownStats() []measure.Stat { return dataset.New(sources(collect.Env{}, 0)...).Stats() }

// dialEngine returns a client of an engine; the caller closes it. It does not yet connect.
func dialEngine(address string, options []string) (*engine.Client, error) {
	o, err := engine.ParseOptions(address, options)
	if err != nil {
		return nil, err
	}
	return engine.New(o)
}

// openEngine opens the recording of a host in an engine; the caller closes it.
func openEngine(e term.EngineHost) (term.Recorded, error) {
	c, err := dialEngine(e.URL, e.Options)
	if err != nil {
		return nil, err
	}
	if e.Host == "" {
		if e.Host, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	h, err := c.Open(context.Background(), e.Host, knownStats())
	if err != nil {
		c.Close()
		return nil, err
	}
	return &engineRecord{c, h}, nil
}

// An engineRecord is the recording of a host in an engine. It implements term.Recorded.
type engineRecord struct {
	client *engine.Client
	host   *engine.Host
}

// Held returns the time with samples of the host; zero if it has none.
func (e *engineRecord) Held() measure.Interval { return e.host.Held() }

// Step returns the time between two samples.
func (e *engineRecord) Step() measure.Span { return e.host.Step() }

// MaxAge returns the maximum age of the newest sample of a host that is sending.
func (e *engineRecord) MaxAge() measure.Span { return engine.MaxAge }

// Host returns the name of the host in the engine.
func (e *engineRecord) Host() string { return e.host.Name() }

// Findings calls each for the times with findings. A server sends of a finding the rule, the
// culprit, the severity and the confidence: the claim says where the rest is.
func (e *engineRecord) Findings(
	ctx context.Context, over measure.Interval, each func(measure.Time, []byte) error,
) error {
	all, err := e.host.Findings(ctx, over)
	if err != nil {
		return err
	}
	for _, one := range all {
		document, err := json.Marshal(sentReport(e.host.Name(), &one))
		if err != nil {
			return err
		}
		if err := each(one.At, document); err != nil {
			return err
		}
	}
	return nil
}

// sentReport returns the findings of a host at a time as a report.
func sentReport(host string, at *engine.FindingsAt) *diagnose.Report {
	r := &diagnose.Report{End: at.At, Host: host}
	for _, f := range at.Findings {
		id := f.Rule
		if f.Culprit != "" {
			id += "/" + f.Culprit
		}
		r.Findings = append(r.Findings, diagnose.Finding{
			ID: id, Rule: f.Rule, Severity: diagnose.Severity(f.Severity),
			Confidence: diagnose.Number(f.Confidence),
			Culprit:    diagnose.Culprit{Kind: f.Kind, Name: f.Culprit},
			Claim: strings.TrimSpace(fmt.Sprintf("rule %s found %s %s; the server of %s has its "+
				"claim, evidence and fix", f.Rule, f.Kind, f.Culprit, host)),
		})
	}
	return r
}

// Remark implements term.Recorded: it has none.
func (e *engineRecord) Remark() string { return "" }

// Trouble returns what may mislead about the engine.
func (e *engineRecord) Trouble() []string { return e.client.Trouble() }

// Replay returns the recording within an interval.
func (e *engineRecord) Replay(during measure.Interval, netns string) term.Machine {
	return dataset.NewReplay(e.host, e.host.Stats(), during, netnsTerms(netns)...)
}

// Close closes the connections.
func (e *engineRecord) Close() error {
	e.client.Close()
	return nil
}

// openFleet opens all hosts of an engine; the caller closes it.
func openFleet(e term.EngineHost) (term.Fleet, error) {
	c, err := dialEngine(e.URL, e.Options)
	return engineHosts{c}, err
}

// engineHosts are all hosts of an engine. It implements term.Fleet.
type engineHosts struct{ *engine.Client }

// Compare compares a host with the others by the statistics that this program knows.
func (h engineHosts) Compare(
	ctx context.Context, host string, at measure.Time, span measure.Span,
) (*fleet.Comparison, error) {
	return h.Client.Compare(ctx, knownStats(), host, at, span)
}

// servedHosts are the hosts of the engine of a server. It implements web.Fleet.
type servedHosts struct {
	*engine.Client
	stats []measure.Stat
}

// AskHost answers a query about a host by the statistics that this program knows.
func (h servedHosts) AskHost(
	ctx context.Context, host string, q measure.Query,
) (*measure.Answer, error) {
	return h.Client.AskHost(ctx, host, h.stats, q)
}

// openServedFleet opens the engine whose hosts a server shows, before the server drops the right
// to read the files with its secrets. nil: there is none.
func openServedFleet(o term.Serving) (*engine.Client, error) {
	if o.Engine.URL == "" {
		return nil, nil
	}
	return dialEngine(o.Engine.URL, o.Engine.Options)
}

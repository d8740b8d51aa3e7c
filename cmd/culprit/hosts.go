package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"culprit/dataset"
	"culprit/measure"
	"culprit/view"
	"culprit/view/report"
	"culprit/view/term"
	"culprit/view/web/client"
)

const (
	// hostTimeout is how long a host may take to answer all queries of one table.
	hostTimeout = 5 * time.Second
	// maxConcurrentHosts is the number of hosts that are queried at the same time.
	maxConcurrentHosts = 64
)

// oldDiagnosisAge is the age above which a diagnosis is shown with its time.
const oldDiagnosisAge = measure.Minute

// openHosts returns the servers at several addresses. It does not yet connect. Errors do not
// contain the tokens of addresses.
func openHosts(addresses []string) (term.Hosts, error) {
	all := &hostList{}
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil {
			// err contains the token.
			return nil, errors.New("connect to a server: its address can't be read")
		}
		given := os.Getenv("CULPRIT_TOKEN")
		h := &host{address: a, token: tokenFor(u, given)}
		u.RawQuery, u.Fragment, u.User = "", "", nil
		h.display = u.String()
		all.hosts = append(all.hosts, h)
	}
	return all, nil
}

// A hostList implements term.Hosts.
type hostList struct{ hosts []*host }

// A host is the server of one machine.
type host struct {
	address, token string
	display        string         // the address without the token
	name           string         // the host name that the server reported; "": not yet
	client         *client.Client // nil: not connected
}

// Look implements term.Hosts: it queries all hosts at the same time and returns them in order.
func (m *hostList) Look(ctx context.Context, queries []string, span measure.Span) []report.Host {
	all := make([]report.Host, len(m.hosts))
	slots := make(chan struct{}, maxConcurrentHosts)
	var running sync.WaitGroup
	for i, h := range m.hosts {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			hostCtx, cancel := context.WithTimeout(ctx, hostTimeout)
			defer cancel()
			all[i] = h.query(hostCtx, queries, span)
		})
	}
	running.Wait()
	return all
}

// Close implements term.Hosts.
func (m *hostList) Close() {
	for _, h := range m.hosts {
		if h.client != nil {
			h.client.Close()
		}
	}
}

// query queries the host. An error becomes the reason in Why of the row.
func (h *host) query(ctx context.Context, queries []string, span measure.Span) report.Host {
	out := report.Host{Address: h.display, Name: h.name}
	if err := h.fill(ctx, queries, span, &out); err != nil {
		out.Frame, out.Failure = nil, err.Error()
		if at := (*url.Error)(nil); errors.As(err, &at) {
			out.Failure = at.Err.Error() // without the address, which the row shows
		}
		if errors.Is(err, context.DeadlineExceeded) {
			out.Failure = fmt.Sprintf("it did not answer within %v", hostTimeout)
		}
	}
	out.Name = h.name
	return out
}

// fill connects if needed, and fills in the host's clock, answers and findings. The error is of a
// request, of a query that the host does not know, or of an empty recording.
func (h *host) fill(
	ctx context.Context, texts []string, span measure.Span, out *report.Host,
) error {
	if h.client == nil {
		c, err := client.DialURL(ctx, h.address, h.token)
		if err != nil {
			return err
		}
		h.client = c
	}
	about, err := h.client.Clock(ctx)
	if err != nil {
		return err
	}
	h.name, out.ClockAhead = about.Host, about.Now.Sub(measure.Time(time.Now().UnixNano()))
	past := dataset.NewReplay(
		h.client, h.client.Stats(), measure.Interval{Start: about.Now.Add(-span), End: about.Now},
	)
	var queries []measure.Query
	for _, s := range texts {
		q, err := past.Parse(s)
		if err != nil {
			return fmt.Errorf("it does not know %s: %w", s, err) // another version of culprit
		}
		q.Step = span
		queries = append(queries, q)
	}
	var last *measure.Tick
	err = past.Watch(ctx, queries, func(t *measure.Tick) error { last = t; return nil })
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if last == nil || isEmpty(last) {
		return fmt.Errorf("it recorded nothing in the last %v", span)
	}
	out.Frame = &view.Frame{Over: last.Over, Answers: last.Answers}
	report, at, err := h.client.Diagnosis(ctx)
	switch {
	case err != nil:
		out.NoDiagnosis = err.Error()
	case report == nil:
		out.NoDiagnosis = "it has made no diagnosis yet"
	default:
		out.Findings = report.Findings
		if about.Now.Sub(at) > oldDiagnosisAge {
			out.Diagnosed = at
		}
	}
	return nil
}

// isEmpty reports whether a tick has no measured answer.
func isEmpty(t *measure.Tick) bool {
	for _, a := range t.Answers {
		if len(a.Elapsed) > 0 && a.Elapsed[0] > 0 {
			return false
		}
	}
	return true
}

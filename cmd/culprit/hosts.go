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
	"culprit/view/term"
	"culprit/view/web/client"
)

// hostTime is how long a host may take to answer all that it is asked in a look; hostsAtOnce how
// many are asked at the same time.
const (
	hostTimeout        = 5 * time.Second
	maxConcurrentHosts = 64
)

// oldDiagnosisAge is from where on a diagnosis is told with its time.
const oldDiagnosisAge = measure.Minute

// openHosts gives the servers of several machines.
func openHosts(addresses []string) (term.Hosts, error) {
	all := &hostList{}
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil {
			return nil, errors.New(
				"connect to a server: its address can't be read",
			) // the error has the token
		}
		given := os.Getenv("CULPRIT_TOKEN")
		h := &host{address: a, token: tokenFor(u, given)}
		u.RawQuery, u.Fragment, u.User = "", "", nil
		h.display = u.String()
		all.hosts = append(all.hosts, h)
	}
	return all, nil
}

// hostList implements term.Hosts.
type hostList struct{ hosts []*host }

// host is the server of a machine.
type host struct {
	address, token string
	display        string // the address without the token
	name           string // that it gave
	client         *client.Client
}

// Look implements term.Hosts.
func (m *hostList) Look(ctx context.Context, queries []string, span measure.Span) []view.Host {
	all := make([]view.Host, len(m.hosts))
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

// query asks a host.
func (h *host) query(ctx context.Context, queries []string, span measure.Span) view.Host {
	out := view.Host{Address: h.display, Name: h.name}
	if err := h.fill(ctx, queries, span, &out); err != nil {
		out.Frame, out.Failure = nil, err.Error()
		if at := (*url.Error)(nil); errors.As(err, &at) {
			out.Failure = at.Err.Error() // the address stands in the row
		}
		if errors.Is(err, context.DeadlineExceeded) {
			out.Failure = fmt.Sprintf("it did not answer within %v", hostTimeout)
		}
	}
	out.Name = h.name
	return out
}

// fill fills in what a host tells.
func (h *host) fill(
	ctx context.Context, texts []string, span measure.Span, out *view.Host,
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
	if err := past.Watch(ctx, queries, func(t *measure.Tick) error { last = t; return nil }); err != nil {
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

// isEmpty says whether nothing was measured in a tick.
func isEmpty(t *measure.Tick) bool {
	for _, a := range t.Answers {
		if len(a.Elapsed) > 0 && a.Elapsed[0] > 0 {
			return false
		}
	}
	return true
}

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
	hostTime    = 5 * time.Second
	hostsAtOnce = 64
)

// oldDiagnosis is from where on a diagnosis is told with its time.
const oldDiagnosis = measure.Minute

// hosts gives the servers of several machines.
func hosts(addresses []string) (term.Hosts, error) {
	all := &manyHosts{}
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
		h.shown = u.String()
		all.hosts = append(all.hosts, h)
	}
	return all, nil
}

// manyHosts implements term.Hosts.
type manyHosts struct{ hosts []*host }

// host is the server of a machine.
type host struct {
	address, token string
	shown          string // the address without the token
	name           string // that it gave
	client         *client.Client
}

// Look implements term.Hosts.
func (m *manyHosts) Look(ctx context.Context, sentences []string, span measure.Span) []view.Host {
	all := make([]view.Host, len(m.hosts))
	places := make(chan struct{}, hostsAtOnce)
	var asked sync.WaitGroup
	for i, h := range m.hosts {
		asked.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			within, cancel := context.WithTimeout(ctx, hostTime)
			defer cancel()
			all[i] = h.look(within, sentences, span)
		})
	}
	asked.Wait()
	return all
}

// Close implements term.Hosts.
func (m *manyHosts) Close() {
	for _, h := range m.hosts {
		if h.client != nil {
			h.client.Close()
		}
	}
}

// look asks a host.
func (h *host) look(ctx context.Context, sentences []string, span measure.Span) view.Host {
	out := view.Host{Address: h.shown, Name: h.name}
	if err := h.ask(ctx, sentences, span, &out); err != nil {
		out.Frame, out.Why = nil, err.Error()
		if at := (*url.Error)(nil); errors.As(err, &at) {
			out.Why = at.Err.Error() // the address stands in the row
		}
		if errors.Is(err, context.DeadlineExceeded) {
			out.Why = fmt.Sprintf("it did not answer within %v", hostTime)
		}
	}
	out.Name = h.name
	return out
}

// ask fills in what a host tells.
func (h *host) ask(
	ctx context.Context, sentences []string, span measure.Span, out *view.Host,
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
	h.name, out.Ahead = about.Host, about.Now.Sub(measure.Time(time.Now().UnixNano()))
	past := dataset.NewReplay(
		h.client, h.client.Stats(), measure.Interval{Start: about.Now.Add(-span), End: about.Now},
	)
	var queries []measure.Query
	for _, s := range sentences {
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
		out.Unknown = err.Error()
	case report == nil:
		out.Unknown = "it has made no diagnosis yet"
	default:
		out.Findings = report.Findings
		if about.Now.Sub(at) > oldDiagnosis {
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

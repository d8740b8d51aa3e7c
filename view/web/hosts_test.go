package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"culprit/fleet"
	"culprit/measure"
)

// cluster is six hosts: h1 sends less than the others, h4 has a finding, h5 is silent.
type cluster struct {
	asked atomic.Int32
	err   error
}

func (c *cluster) Overview(
	_ context.Context, at measure.Time, span measure.Span,
) (*fleet.Overview, error) {
	c.asked.Add(1)
	if c.err != nil {
		return nil, c.err
	}
	o := &fleet.Overview{At: at, Over: span, Notes: []string{"a clock"}}
	for i := range 6 {
		h := fleet.Host{
			Name: fmt.Sprintf("h%d", i), Reports: i != 5, Newest: at,
			Labels: map[string]string{"rack": "r\"1"},
		}
		for _, q := range fleet.Quantities() {
			v := map[string]float64{"cpu": 0.3, "tx": 1e7, "memory": measure.NaN}[q.ID]
			if q.ID == "tx" && i == 1 {
				v = 1e6
			}
			h.Values = append(h.Values, v)
		}
		o.Hosts = append(o.Hosts, h)
	}
	o.Hosts[4].Findings = []fleet.Finding{
		{Rule: "swap", Kind: "memory", Culprit: "<script>", Severity: "high", Confidence: 0.7},
	}
	return o, nil
}

func (c *cluster) Curves(
	_ context.Context, hosts []string, over measure.Interval, points int,
) (*fleet.Curves, error) {
	out := &fleet.Curves{Start: over.Start, Step: over.Span() / measure.Span(points)}
	for i := range hosts {
		out.Values = append(out.Values, [][]float64{{float64(i), measure.NaN}})
	}
	return out, nil
}

func (c *cluster) AskHost(
	_ context.Context, host string, q measure.Query,
) (*measure.Answer, error) {
	switch {
	case host != "h1" && host != "db1":
		return nil, fmt.Errorf("%w: did you mean h1?", measure.ErrUnclear)
	case c.err != nil:
		return nil, c.err
	case q.Step < 15*measure.Second:
		q.Step = 15 * measure.Second
	}
	return &measure.Answer{
		Query: q, Kind: measure.Delta, Start: q.Over.Start, Step: q.Step,
		Elapsed: []measure.Span{q.Step},
		Series:  []measure.Series{{Values: []float64{4711}}},
	}, nil
}

// TestAskHost answers a query about a host of the engine, and names the host's server for what the
// engine lacks.
func TestAskHost(t *testing.T) {
	with := func(err error) *site {
		return serve(t, newMemory(t), func(s *Server) {
			s.Fleet, s.HostAddress = &cluster{err: err}, "https://{host}:7410/"
		})
	}
	const path = "/api/ask?q=cpu.time&from=-60s&host="
	for _, tt := range []struct {
		name   string
		s      *site
		path   string
		status int
		want   string
	}{
		{"a host", with(nil), path + "h1", 200, "4711"},
		{"each tick", with(nil), path + "h1&step=0", 200, "4711"},
		{"an unknown host", with(nil), path + "h9", 404, "did you mean h1?"},
		{
			"what is not sent", with(fmt.Errorf("by pid: %w", measure.ErrUnsupported)), path + "h1",
			501, `"hint":"open https://h1:7410/"`,
		},
		{"an engine that is away", with(errors.New("no route")), path + "h1", 502, "no route"},
		{"no engine", serve(t, newMemory(t)), path + "h1", 404, "reads no engine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := tt.s.get(tt.path)
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != tt.status ||
				!strings.Contains(string(body), tt.want) {
				t.Errorf("%v, status %d, %s, want %d and %s", err, res.StatusCode, body, tt.status,
					tt.want)
			}
		})
	}
}

func TestHosts(t *testing.T) {
	c := &cluster{}
	s := serve(t, newMemory(t), func(s *Server) {
		s.Fleet, s.HostAddress = c, "https://{host}:7410/"
	})
	var got struct {
		Reporting int
		Hosts     []struct {
			Name, URL string
			Values    []*float64
			Labels    map[string]string
			Apart     []struct{ Text string }
			Findings  []struct{ Culprit string }
		}
	}
	s.decodeReply(s.get("/api/hosts"), &got)
	var names []string
	for _, h := range got.Hosts {
		names = append(names, h.Name)
	}
	if want := "h4 h1 h5 h0 h2 h3"; strings.Join(names, " ") != want || got.Reporting != 5 {
		t.Errorf("%v, %d report, want %s and 5", names, got.Reporting, want)
	}
	h := got.Hosts[1]
	if h.URL != "https://h1:7410/" || h.Labels["rack"] != `r"1` || h.Values[1] != nil ||
		*h.Values[0] != 0.3 || len(h.Apart) != 1 || !strings.Contains(h.Apart[0].Text, "90 % less") {
		t.Errorf("%+v", h)
	}
	if got.Hosts[0].Findings[0].Culprit != "<script>" {
		t.Errorf("%+v", got.Hosts[0])
	}
}

// TestHostsAreShared checks that many viewers cost one request to the engine.
func TestHostsAreShared(t *testing.T) {
	c := &cluster{}
	s := serve(t, newMemory(t), func(s *Server) { s.Fleet = c })
	var viewers sync.WaitGroup
	for range 3 {
		viewers.Go(func() { s.get("/api/hosts").Body.Close() })
	}
	viewers.Wait()
	if n := c.asked.Load(); n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
}

func TestHostsRefused(t *testing.T) {
	none := serve(t, newMemory(t))
	bad := serve(t, newMemory(t), func(s *Server) {
		s.Fleet = &cluster{err: fmt.Errorf("it is away: %w", measure.ErrDenied)}
	})
	many := strings.Repeat("host=a&", maxCurveHosts+1)
	for _, tt := range []struct {
		name   string
		s      *site
		path   string
		status int
	}{
		{"no engine", none, "/api/hosts", 404},
		{"no engine for curves", none, "/api/hosts/curves?host=a", 404},
		{"a long span", none, "/api/hosts?span=2h", 400},
		{"a wrong time", none, "/api/hosts?at=yesterday", 400},
		{"too many hosts", none, "/api/hosts/curves?" + many + "points=3", 400},
		{"too many points", none, "/api/hosts/curves?host=a&points=1000", 400},
		{"an engine that is away", bad, "/api/hosts", 502},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := tt.s.get(tt.path)
			defer res.Body.Close()
			if res.StatusCode != tt.status {
				t.Errorf("status %d, want %d", res.StatusCode, tt.status)
			}
		})
	}
}

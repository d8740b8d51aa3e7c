package cases

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// loadResult is what the tests read of the last line of `culprit load ... --json`.
type loadResult struct {
	View    string
	Summary []struct {
		Rate  *struct{ Mean float64 }      `json:"bits_per_s"`
		Trans *struct{ Mean float64 }      `json:"transactions_per_s"`
		Times *struct{ P50, Mean float64 } `json:"latency_ns"`
		Limit struct{ Kind, Where, Name, Text string }
	}
	Here, There struct {
		Machine *float64 `json:"machine_cpus"`
		Device  string
		Wire    []struct {
			Direction string
			Share     *float64
		}
	}
}

// TestLoad holds the load test against iperf3 and against what the scene is: a link of 1 Gbit/s, a
// slow one, and one without a limit.
func TestLoad(t *testing.T) {
	if quick() {
		return
	}
	l := open(t)
	bin := needProgram(t)
	src, dst := pair(l, shaped(l, 1000))
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	const token = "CULPRIT_LOAD_TOKEN=lab"
	server := dst.Command(bin, "load", "serve", "--listen", "10.20.3.34:7411")
	server.Env = append(server.Env, token)
	begun(t, server, "listens on")
	run := func(ctx context.Context, args ...string) (r loadResult, err error) {
		c := src.Command(bin, append([]string{"load"}, args...)...)
		c.Env = append(c.Env, token)
		out, err := output(ctx, c)
		if err != nil {
			return r, err
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil ||
			r.View != "load.result" ||
			len(r.Summary) != 1 {
			return r, fmt.Errorf("read a result: %w: %s", err, lines[len(lines)-1])
		}
		return r, nil
	}

	t.Run("link", func(t *testing.T) {
		needTools(t, "iperf3")
		begun(t, dst.Command("iperf3", "-s", "--forceflush"), "listening")
		agree(t, func(ctx context.Context) ([]pairing, error) {
			r, err := run(ctx, "stream", "10.20.3.34", "--for", "3s", "--runs", "1", "--json")
			if err != nil {
				return nil, err
			}
			out, err := output(ctx, src.Command("iperf3", "-c", "10.20.3.34", "-t", "3", "-J"))
			if err != nil {
				return nil, err
			}
			var peer struct {
				End struct {
					Received struct {
						Rate float64 `json:"bits_per_second"`
					} `json:"sum_received"`
				}
			}
			if err := json.Unmarshal(out, &peer); err != nil {
				return nil, fmt.Errorf("read iperf3's: %w: %s", err, out)
			}
			s := r.Summary[0]
			byLink := 0.0
			if s.Limit.Kind == "link" && s.Limit.Name == "eth0" && s.Limit.Where == "here" &&
				r.Here.Device == "eth0" {
				byLink = 1
			}
			pairs := []pairing{
				{
					what:   "that the link of 1 Gbit/s limits it, where it says " + s.Limit.Text,
					ours:   byLink,
					theirs: 1,
				},
				{
					what:   "payload beside iperf3's",
					ours:   s.Rate.Mean,
					theirs: peer.End.Received.Rate,
					within: 0.02,
				},
				// 1,448 B of 1,538 on the wire are 941.5 Mbit/s; the shaper counts 24 B less of
				// each frame: 956.5.
				{
					what:   "payload through the shaper",
					ours:   s.Rate.Mean,
					theirs: 949e6,
					within: 0.02,
				},
			}
			for _, w := range r.Here.Wire {
				if w.Direction == "tx" && w.Share != nil {
					pairs = append(
						pairs,
						pairing{what: "share of the link", ours: *w.Share, theirs: 1, within: 0.03},
					)
				}
			}
			if len(pairs) != 4 {
				return nil, fmt.Errorf("no share of the link: %+v", r.Here)
			}
			return pairs, nil
		})
	})

	// Responses of 50,000 B are 35 segments with 66 B of headers each: at 25 Mbit/s they take 16.7
	// ms, one after the other, beside which a thread that is late by one is little.
	const response, line = 50000 + 35*66, 25e6
	t.Run("latency", func(t *testing.T) {
		for _, h := range []*Host{src, dst} {
			h.tc(
				"qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "25mbit", "burst", "3200",
				"limit", "200000",
			)
		}
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		agree(t, func(ctx context.Context) ([]pairing, error) {
			r, err := run(
				ctx, "rr", "10.20.3.34", "--for", "2s", "--every", "0.5", "--runs", "1", "--size",
				"1,50000", "--congestion", "cubic", "--diagnosis=false", "--json",
			)
			if err != nil {
				return nil, err
			}
			s := r.Summary[0]
			if s.Times == nil || s.Trans == nil {
				return nil, fmt.Errorf("no transaction ended: %+v", s)
			}
			// A machine whose CPUs others have is late with each transaction, and leaves the link
			// idle between.
			byLink := 0.0
			if s.Limit.Kind == "link" && s.Limit.Where == "there" {
				byLink = 1
			}
			return []pairing{
				{
					what:   "that responses which fill the server's link are limited by it, where it says " + s.Limit.Text,
					ours:   byLink,
					theirs: 1,
				},
				{
					what:   "p50 of transactions",
					ours:   s.Times.P50,
					theirs: response * 8 / line * 1e9,
					within: 0.05,
				},
				{
					what:   "rate and 1/mean",
					ours:   s.Trans.Mean,
					theirs: 1e9 / s.Times.Mean,
					within: 0.02,
				},
			}, nil
		})
	})

	t.Run("CPU", func(t *testing.T) {
		for _, h := range []*Host{src, dst} {
			h.tc("qdisc", "del", "dev", "eth0", "root")
		}
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		r, err := run(
			t.Context(), "stream", "10.20.3.34", "--for", "2s", "--runs", "1", "-P", "4",
			"--diagnosis=false", "--json",
		)
		if err != nil {
			t.Fatal(err)
		}
		s := r.Summary[0]
		t.Logf("%.3g bit/s, limited by: %s", s.Rate.Mean, s.Limit.Text)
		if s.Limit.Kind != "cpu" || s.Rate.Mean < 1e9 {
			t.Errorf(
				"through a link without a limit %.3g bit/s go, limited by: %s", s.Rate.Mean,
				s.Limit.Text,
			)
		}
	})
}

// begun starts a command, which ends with the test, and waits until it has printed the words.
func begun(t *testing.T, c *exec.Cmd, words string) {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	found, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		seen := false
		for s := bufio.NewScanner(out); s.Scan(); {
			if !seen && strings.Contains(s.Text(), words) {
				seen = true
				close(found)
			}
		}
		c.Wait() //nolint:errcheck // it is killed
	}()
	t.Cleanup(func() {
		c.Process.Kill()
		<-ended
	})
	select {
	case <-found:
	case <-ended:
		t.Fatalf("%s ended", c)
	case <-time.After(20 * time.Second):
		t.Fatalf("%s has not said %q", c, words)
	}
}

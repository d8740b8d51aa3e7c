package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"culprit/collect"
	"culprit/dataset"
	"culprit/export"
	"culprit/export/self"
	"culprit/measure"
	"culprit/store"
	"culprit/trace/sampler"
	"culprit/view/web/client"
)

// culprit is a running program. Tests can wait for lines of its output.
type culprit struct {
	*exec.Cmd
	mu    sync.Mutex
	out   []string
	lines chan string
	ended chan error
}

// start starts this test binary as the program, with env added to the environment. It is killed
// when the test ends.
func start(t *testing.T, env []string, args ...string) *culprit {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &culprit{
		Cmd:   exec.Command(self, args...),
		lines: make(chan string, 1000),
		ended: make(chan error, 1),
	}
	c.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(pipe); s.Scan(); {
			c.mu.Lock()
			c.out = append(c.out, s.Text())
			c.mu.Unlock()
			c.lines <- s.Text()
		}
		c.ended <- c.Wait()
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		if t.Failed() {
			c.mu.Lock()
			defer c.mu.Unlock()
			t.Logf("culprit %s:\n%s", strings.Join(args, " "), strings.Join(c.out, "\n"))
		}
	})
	return c
}

// waitForLine waits for a line that contains text and returns the line.
func (c *culprit) waitForLine(t *testing.T, text string, timeout time.Duration) string {
	t.Helper()
	timer := time.After(timeout)
	for {
		select {
		case line := <-c.lines:
			if strings.Contains(line, text) {
				return strings.TrimSpace(line)
			}
		case <-timer:
			t.Fatalf("no %q within %v", text, timeout)
		}
	}
}

// end waits for the end and returns the exit status; -1: a signal ended it.
func (c *culprit) end(t *testing.T, timeout time.Duration) int {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(timeout):
		t.Fatalf("it still runs after %v", timeout)
	}
	return c.ProcessState.ExitCode()
}

// eventually calls check until it returns nil. It fails the test after the timeout.
func eventually(t *testing.T, what string, timeout time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// recordedRows returns the rows of a query by one field or none as text: those of each measured
// second, by the end of the second.
func recordedRows(
	r measure.Reader, query string, over measure.Interval,
) (map[measure.Time][]string, error) {
	q, err := measure.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	q.Over, q.Step = over, measure.Second
	a, err := r.Ask(context.Background(), q)
	if err != nil {
		return nil, err
	}
	all := map[measure.Time][]string{}
	for c, elapsed := range a.Elapsed {
		if elapsed == 0 {
			continue
		}
		var row []string
		for i, s := range a.Series {
			if v := s.Values[c]; v != 0 || !a.Sparse { // an absent row reads as 0
				key := ""
				if len(q.By) > 0 {
					key = a.Label(i, 0)
				}
				row = append(row, fmt.Sprintf("%s=%.6g", key, v))
			}
		}
		slices.Sort(row)
		all[a.Start.Add(a.Step*measure.Span(c+1))] = row
	}
	return all, nil
}

// TestKilledServerKeeps kills a server three times. Only the last two seconds may be lost, and
// earlier answers stay the same.
func TestKilledServerKeeps(t *testing.T) {
	dir := t.TempDir()
	const query = "softirq.count by vector"
	queries := []string{"cpu.time by mode", query}
	reported := map[string]map[measure.Time][]string{}
	for _, s := range queries {
		reported[s] = map[measure.Time][]string{}
	}
	for round := range 3 {
		c := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
		c.waitForLine(t, "?token=", 20*time.Second)
		client, err := client.Dial(t.Context(), filepath.Join(dir, "culprit.sock"))
		if err != nil {
			t.Fatal(err)
		}
		began := measure.Time(time.Now().UnixNano())
		var newest measure.Time
		eventually(t, "four seconds are recorded", 30*time.Second, func() error {
			now := measure.Time(time.Now().UnixNano())
			over := measure.Interval{Start: (began / 1e9) * 1e9, End: (now/1e9 + 1) * 1e9}
			n := 0
			for _, s := range queries {
				got, err := recordedRows(client, s, over)
				if err != nil {
					return err
				}
				n = len(got)
				for at, row := range got {
					reported[s][at] = row
					newest = max(newest, at)
				}
			}
			if n < 4 {
				return fmt.Errorf("%d seconds", n)
			}
			return nil
		})
		client.Close()
		if err := c.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.end(t, 10*time.Second)
		archive, err := store.OpenReadOnly(filepath.Join(dir, "archive"))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range queries {
			for at, row := range reported[s] {
				if newest.Sub(at) < 2*measure.Second {
					delete(reported[s], at) // it may be lost
					continue
				}
				got, err := recordedRows(
					archive, s, measure.Interval{Start: at.Add(-measure.Second), End: at},
				)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got[at], row) {
					t.Errorf(
						"round %d, %s at %v: reported %v, recorded %v", round, s, at, row, got[at],
					)
				}
			}
			if len(reported[s]) < 2*(round+1) {
				t.Errorf("round %d: only %d seconds of %s to compare", round, len(reported[s]), s)
			}
		}
		if err := archive.Close(); err != nil {
			t.Error(err)
		}
	}
}

// recordedDefaults returns the queries of the datasets that a server creates, without those of the
// sampler.
func recordedDefaults() ([]measure.Query, error) {
	stacks := sampler.NewSampler(diagnosisHz())
	queries := withoutSource(stacks, defaultQueries())
	all := dataset.New(append(sources(collect.Env{}, 0), stacks, &self.Source{})...)
	return all.Defaults(append(queries, export.Queries()...))
}

// defaultDatasets returns the number of default datasets of a statistic.
func defaultDatasets(t *testing.T, id measure.StatID) (n int) {
	t.Helper()
	queries, err := recordedDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queries {
		if q.Stat == id {
			n++
		}
	}
	return n
}

// TestServe follows a server from start to end: its output, its messages to systemd, its API, and a
// second server in its way.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "notify")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	states := make(chan string, 1000)
	go func() {
		b := make([]byte, 100)
		for {
			n, err := notify.Read(b)
			if err != nil {
				return
			}
			states <- string(b[:n])
		}
	}()
	notified := func(want string) {
		t.Helper()
		late := time.After(20 * time.Second)
		for {
			select {
			case got := <-states:
				if got == want {
					return
				}
			case <-late:
				t.Fatalf("systemd was not sent %s", want)
			}
		}
	}

	c := start(
		t, []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=400000"}, "serve", "--print-token",
		"--dir", dir, "--listen", "127.0.0.1:0",
	)
	address := c.waitForLine(t, "http://127.0.0.1:", 20*time.Second)
	base, token, ok := strings.Cut(address, "?token=")
	if !ok || len(token) < 32 {
		t.Fatalf("the address %s has no token", address)
	}
	checkTokenAccess(t, dir, base)
	notified("READY=1")
	notified("WATCHDOG=1")
	notified("WATCHDOG=1")
	for _, f := range []string{"token", "culprit.sock", "."} {
		info, err := os.Stat(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		if f != "." && info.Mode().Perm() != 0o600 {
			t.Errorf("%s may be used by others: %v", f, info.Mode())
		}
	}

	get := func(path string, into any) error {
		r, err := http.NewRequest("GET", base+path, nil)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, answer.Status)
		}
		return json.NewDecoder(answer.Body).Decode(into)
	}

	// Changes while it records: other datasets must not miss a second (checked below).
	change := func(path, body string) (id int) {
		t.Helper()
		r, err := http.NewRequest("POST", base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("X-Culprit", "1")
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var d struct{ ID int }
		if err := json.NewDecoder(answer.Body).Decode(&d); err != nil || answer.StatusCode >= 300 {
			t.Fatalf("%s: %s, %v", path, answer.Status, err)
		}
		return d.ID
	}
	recorded := func(query string, want int) {
		t.Helper()
		eventually(t, query+" is recorded", 20*time.Second, func() error {
			client, err := client.Dial(t.Context(), filepath.Join(dir, "culprit.sock"))
			if err != nil {
				return err
			}
			defer client.Close()
			end := measure.Time(time.Now().Unix()+1) * measure.Time(measure.Second)
			got, err := recordedRows(
				client, query, measure.Interval{Start: end.Add(-measure.Minute), End: end},
			)
			if err != nil {
				return err
			}
			if len(got) < want {
				return fmt.Errorf("%d seconds", len(got))
			}
			var health struct {
				Late uint64 `json:"late_ticks"` // ticks are late if the CPUs are busy
			}
			if err := get("api/health", &health); err != nil {
				return err
			}
			all := slices.Sorted(maps.Keys(got))
			for i, at := range all {
				if i > 0 && at.Sub(all[i-1]) != measure.Second {
					t.Logf(
						"%s: %v follows %v, %d late ticks are reported", query, at, all[i-1],
						health.Late,
					)
					if health.Late == 0 {
						t.Error("a second is missing, and no late tick is reported")
					}
				}
			}
			return nil
		})
	}
	if n := defaultDatasets(t, "cpu.online"); n != 0 {
		t.Fatalf("cpu.online is recorded by default: use another statistic")
	}
	id := change("api/datasets", `{"sentence":"cpu.online","step_ms":1000}`)
	recorded("cpu.online", 2)
	for _, action := range []string{"suspend", "resume", "destroy"} {
		change(fmt.Sprint("api/datasets/", id, "/", action), "{}")
	}

	// A second server fails: at the directory with the process ID of the first, and at the port.
	other := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	other.waitForLine(t, fmt.Sprint("process ", c.Process.Pid), 10*time.Second)
	if status := other.end(t, 10*time.Second); status != 1 {
		t.Errorf("a second server on the directory: status %d", status)
	}
	other = start(
		t, nil, "serve", "--print-token", "--dir", t.TempDir(), "--listen",
		strings.TrimSuffix(strings.TrimPrefix(base, "http://"), "/"),
	)
	other.waitForLine(t, "--listen", 10*time.Second)
	if status := other.end(t, 10*time.Second); status != 1 {
		t.Errorf("a second server on the port: status %d", status)
	}

	c.waitForLine(t, "culprit looked at", 40*time.Second)
	c.waitForLine(t, "continues to record", 10*time.Second)
	recorded("cpu.time by mode", 8)
	// Each statistic of a tool or rule has a dataset. The costs of all datasets add up to their
	// part of the cost of the process.
	eventually(t, "costs add up", 30*time.Second, func() error {
		var d struct {
			Datasets []struct {
				Sentence string
				Rows     int
				Samples  float64 `json:"samples_per_s"`
				CPU      *float64
			}
		}
		var h struct {
			CPU   *float64
			Spent []struct {
				What string
				CPU  float64
			}
			RSS     int64  `json:"rss_bytes"`
			Late    uint64 `json:"late_ticks"`
			Trouble []string
		}
		if err := get("api/datasets", &d); err != nil {
			return err
		}
		if err := get("api/health", &h); err != nil {
			return err
		}
		sum, samples := 0.0, 0.0
		for _, s := range d.Datasets {
			if s.CPU != nil {
				sum += *s.CPU
			}
			samples += s.Samples
		}
		queries, err := recordedDefaults()
		if err != nil {
			return err
		}
		// The sampler has one dataset for each statistic.
		want := len(queries) + len(sampler.NewSampler(49).Stats())
		if len(d.Datasets) != want || samples < 100 || len(h.Trouble) > 0 || h.RSS < 1<<20 {
			return fmt.Errorf(
				"%d datasets, want %d; %g samples per second, %d bytes, trouble %q",
				len(d.Datasets), want, samples, h.RSS, h.Trouble,
			)
		}
		// The requests of this test cost CPU time too, perhaps most of it. The datasets' part is
		// listed separately.
		if h.CPU == nil || len(h.Spent) != 5 || sum <= 0 || sum > 1.02**h.CPU ||
			math.Abs(sum-h.Spent[0].CPU) > 0.05*sum {
			return fmt.Errorf(
				"the datasets take %g of a CPU, the process %s, of which %v", sum, number(h.CPU),
				h.Spent,
			)
		}
		parts := 0.0
		for _, p := range h.Spent {
			parts += p.CPU
		}
		if math.Abs(parts-*h.CPU) > 1e-4 || h.Spent[1].CPU <= 0 || h.Spent[2].CPU <= 0 {
			return fmt.Errorf("the process takes %g of a CPU, its parts %v", *h.CPU, h.Spent)
		}
		t.Logf("parts %v", h.Spent)
		t.Logf(
			"datasets %.4f, process %.4f of a CPU, %.0f samples per second, %d MB", sum, *h.CPU,
			samples, h.RSS>>20,
		)
		return nil
	})

	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := c.end(t, 10*time.Second); status != 0 {
		t.Errorf("ended by SIGTERM: status %d", status)
	}
	notified("STOPPING=1")
	if _, err := os.Stat(filepath.Join(dir, "culprit.sock")); err == nil {
		t.Error("the socket was not removed")
	}

	// The next server has the same token. With --for it ends by itself, but not before it has
	// printed the first diagnosis.
	c = start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0", "--for", "1s")
	if again := c.waitForLine(t, "?token=", 20*time.Second); !strings.HasSuffix(again, token) {
		t.Errorf("another token: %s", again)
	}
	c.waitForLine(t, "It ends after the first diagnosis, which covers 10s.", 20*time.Second)
	c.waitForLine(t, "culprit looked at ", time.Minute)
	if status := c.end(t, 10*time.Second); status != 0 {
		t.Errorf("ended by itself: status %d", status)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(
		c.out, func(line string) bool { return strings.Contains(line, "continues to record") },
	) {
		t.Error("it ends, but says that it continues to record")
	}
}

// TestServeWaitsForReader starts a server while a reader has the archive open: the server prints
// the reader's process ID, waits, and records.
func TestServeWaitsForReader(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(archivePath(dir), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := store.OpenReadOnly(archivePath(dir))
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0", "--for", "1s")
	c.waitForLine(t, fmt.Sprintf("process %d has it open", os.Getpid()), 20*time.Second)
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	c.waitForLine(t, "?token=", 20*time.Second)
	if status := c.end(t, time.Minute); status != 0 {
		t.Errorf("ended by itself: status %d", status)
	}
}

// number formats n, which is nil if the value is not known.
func number(n *float64) string {
	if n == nil {
		return "an unknown amount"
	}
	return strconv.FormatFloat(*n, 'g', -1, 64)
}

package cases

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestServeBurst plays the story of `culprit serve` that takes the CPUs: alone.
func TestServeBurst(t *testing.T) {
	if quick() {
		return
	}
	needLab(t)
	serveBurst(t, open(t), needProgram(t))
}

// TestServe plays the other stories of `culprit serve`, from outside as everything here. They wait
// most of the time, together, when all else is over.
func TestServe(t *testing.T) {
	if quick() {
		return
	}
	t.Parallel()
	needLab(t)
	bin := needProgram(t)
	for _, s := range []struct {
		name string
		tell func(t *testing.T, l *Lab, bin string)
	}{
		{"killed", serveKilled}, // the longest first
		{"fleet", serveFleet},
		{"full-oldest", serveFullDisk("oldest")},
		{"full-newest", serveFullDisk("newest")},
		{"stopped", serveStopped},
		{"traffic", serveTraffic},
		{"hostile", serveHostile},
		{"tls", serveTLS},
		{"ordinary", serveOrdinary},
		{"nowhere", serveNowhere},
		{"damaged", serveDamaged},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.tell(t, open(t), bin)
		})
	}
}

// recorder is a running `culprit serve`.
type recorder struct {
	t     *testing.T
	bin   string
	lab   *Lab
	dir   string // as the server sees it
	base  string // URL up to the last /
	token string
	pid   int
	web   *http.Client
	cmd   *exec.Cmd
	gone  chan struct{} // closed at its end
	mu    sync.Mutex
	said  bytes.Buffer
}

// Write takes what the server says.
func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.Write(b)
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.String()
}

// serveIn starts a server on a directory, in front of it what is to become the server, and does not
// wait for it.
func serveIn(t *testing.T, l *Lab, bin, dir string, before []string, args ...string) *recorder {
	t.Helper()
	r := &recorder{
		t:    t,
		bin:  bin,
		lab:  l,
		dir:  dir,
		gone: make(chan struct{}),
		web:  &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second},
	}
	// --for: it ends by itself, should this program and the guardian be killed.
	line := append(append([]string{}, before...), bin, "serve", "--print-token", "--for", "120s")
	if dir != "" {
		line = append(line, "--dir", dir)
	}
	if !strings.Contains(strings.Join(args, " "), "--listen") {
		line = append(line, "--listen", "127.0.0.1:0")
	}
	r.cmd = l.Command(line[0], append(line[1:], args...)...)
	r.cmd.Stdout, r.cmd.Stderr = r, r
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.pid = r.cmd.Process.Pid
	go func() { _ = r.cmd.Wait(); close(r.gone) }() // how it ended is asked of ProcessState
	t.Cleanup(func() {
		if h, err := r.health(); err == nil { // it may have ended
			for _, what := range h.Trouble {
				if strings.Contains(what, "a fault of culprit itself") {
					t.Error(what)
				}
			}
		}
		r.kill()
		if t.Failed() {
			t.Logf("culprit serve --dir %s:\n%s", dir, r.text())
		}
	})
	return r
}

// serve starts a server and waits until it answers.
func serve(t *testing.T, l *Lab, bin, dir string, before []string, args ...string) *recorder {
	t.Helper()
	r := serveIn(t, l, bin, dir, before, args...)
	r.answers()
	return r
}

// answers waits until the server answers.
func (r *recorder) answers() {
	r.t.Helper()
	var err error
	end := time.Now().Add(20 * time.Second)
	for ; time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case <-r.gone:
			r.t.Fatalf("culprit serve ended: %s", r.text())
		default:
		}
		if r.base == "" {
			for s := bufio.NewScanner(strings.NewReader(r.text())); s.Scan(); {
				if base, token, ok := strings.Cut(strings.TrimSpace(s.Text()), "?token="); ok &&
					strings.HasPrefix(base, "http") {
					r.base, r.token = base, token
				}
			}
			continue
		}
		if _, err = r.health(); err == nil {
			return
		}
	}
	r.t.Fatalf("culprit serve does not answer: %v: %s", err, r.text())
}

// kill ends the server as kill -9 does, when it has not ended yet.
func (r *recorder) kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	<-r.gone
	r.web.CloseIdleConnections()
}

// end waits for the server's own end and returns its status; -1 for a signal.
func (r *recorder) end(within time.Duration) int {
	r.t.Helper()
	select {
	case <-r.gone:
	case <-time.After(within):
		r.t.Fatalf("culprit serve goes on after %v: %s", within, r.text())
	}
	return r.cmd.ProcessState.ExitCode()
}

// signal sends a signal to all processes of the server.
func (r *recorder) signal(s unix.Signal) {
	r.t.Helper()
	for _, pid := range r.processes() {
		if err := unix.Kill(pid, s); err != nil {
			r.t.Fatalf("signal process %d: %v", pid, err)
		}
	}
}

// processes returns the process that was started and those that it has started.
func (r *recorder) processes() []int {
	r.t.Helper()
	all := []int{r.pid}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.pid))
	if err != nil || len(threads) == 0 {
		r.t.Fatalf("process %d has no list of children: %v", r.pid, err)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				r.t.Fatal(err)
			}
			all = append(all, pid)
		}
	}
	return all
}

// get asks the server's API. A status that isn't 200 is an error.
func (r *recorder) get(path string, into any) error {
	q, err := http.NewRequest(http.MethodGet, r.base+path, nil)
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+r.token)
	a, err := r.web.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, a.Status, b)
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// health is what the server says of itself.
type health struct {
	RSS     float64 `json:"rss_bytes"`
	Now     float64 `json:"now_ms"`
	Viewers int
	Trouble []string
	Late    int `json:"late_ticks"`
}

func (r *recorder) health() (h health, err error) {
	err = r.get("api/health", &h)
	return h, err
}

// mustHealth is health of a server that must answer.
func (r *recorder) mustHealth() health {
	r.t.Helper()
	h, err := r.health()
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// answer is what the API answers to a sentence.
type answer struct {
	Start   float64   `json:"start_ms"`
	Step    float64   `json:"step_ms"`
	Elapsed []float64 `json:"elapsed_ms"`
	Series  []struct {
		Key    []any
		Values []*float64
	}
	Loss []struct {
		Reason string
		Events float64
	}
	Notes []string
}

// ask asks for what was recorded, a cell a second.
func (r *recorder) ask(sentence string, from, to time.Time) (answer, error) {
	var a answer
	v := url.Values{"q": {sentence}, "step": {"1000"}, "from": {stamp(from)}, "to": {stamp(to)}}
	return a, r.get("api/ask?"+v.Encode(), &a)
}

// mustAsk is ask of a server that must answer.
func (r *recorder) mustAsk(sentence string, from, to time.Time) answer {
	r.t.Helper()
	a, err := r.ask(sentence, from, to)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func stamp(at time.Time) string { return at.Format(time.RFC3339Nano) }

// at returns the end of a cell.
func (a answer) at(cell int) time.Time {
	return time.UnixMilli(int64(a.Start + a.Step*float64(cell+1)))
}

// value returns a cell of the row with a key, or NaN: not there, or not measured.
func (a answer) value(cell int, key ...string) float64 {
	for _, s := range a.Series {
		if fmt.Sprint(s.Key) == fmt.Sprint(key) && s.Values[cell] != nil {
			return *s.Values[cell]
		}
	}
	return math.NaN()
}

// amount returns what a row counted over all cells that were measured.
func (a answer) amount(key ...string) (sum float64) {
	for c, e := range a.Elapsed {
		if e > 0 {
			sum += a.value(c, key...) * e / 1000
		}
	}
	return sum
}

// covered says whether a cell that has no tick of its own lies within the interval of a later one:
// the recorder came late, and lost nothing.
func (a answer) covered(cell int) bool {
	for later := cell + 1; later < len(a.Elapsed); later++ {
		if e := a.Elapsed[later]; e > 0 {
			return e > (float64(later-cell)+0.2)*a.Step // more than an interval's jitter
		}
	}
	return false
}

// measured counts the cells in which something was measured.
func (a answer) measured() (n int) {
	for _, e := range a.Elapsed {
		if e > 0 {
			n++
		}
	}
	return n
}

// until waits for a tick at or after a time to be in the record.
func (r *recorder) until(at time.Time) {
	r.t.Helper()
	r.eventually("a tick at "+at.Format("15:04:05.000"), 15*time.Second, func() error {
		now := time.Now()
		a, err := r.ask("sched.forks", at.Add(-time.Second).Truncate(time.Second), now)
		if err != nil {
			return err
		}
		for c, e := range a.Elapsed {
			if e > 0 && !a.at(c).Before(at) {
				return nil
			}
		}
		return errors.New("not yet")
	})
}

// firstTick waits until the server has recorded a second after at, and returns the end of the first
// one.
func (r *recorder) firstTick(at time.Time) (first time.Time) {
	r.t.Helper()
	r.eventually("a tick after "+at.Format("15:04:05.000"), 30*time.Second, func() error {
		a, err := r.ask("sched.forks", at.Truncate(time.Second), time.Now())
		if err != nil {
			return err
		}
		for c, e := range a.Elapsed {
			if e > 0 && a.at(c).After(at) {
				first = a.at(c)
				return nil
			}
		}
		return errors.New("not yet")
	})
	return first
}

// eventually tries until it is so, and ends the test when that takes too long.
func (r *recorder) eventually(what string, within time.Duration, so func() error) {
	r.t.Helper()
	var err error
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		if err = so(); err == nil {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s, within %v: %v", what, within, err)
		}
	}
}

// look runs a command of the program on the server's directory, and returns what it prints, what it
// says besides, and its status.
func look(t *testing.T, l *Lab, bin, dir string, args ...string) (out, said string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, bin, append(args, "--dir", dir)...)
	c.Env = l.environ("", nil)
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	err := c.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return o.String(), e.String(), c.ProcessState.ExitCode()
}

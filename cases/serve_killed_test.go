package cases

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// answers are what the API returned for seconds, by sentence and time: how long it was measured,
// and each row.
type answers map[string]map[time.Time]string

// tell adds what the server returns for a time.
func (m answers) tell(r *recorder, sentence string, from, to time.Time) error {
	a, err := r.ask(sentence, from.Truncate(time.Second), to.Truncate(time.Second).Add(time.Second))
	if err != nil {
		return err
	}
	if m[sentence] == nil {
		m[sentence] = map[time.Time]string{}
	}
	for c, e := range a.Elapsed {
		if e == 0 {
			continue
		}
		all := []string{fmt.Sprint(e)}
		for _, s := range a.Series {
			v := "unknown"
			if s.Values[c] != nil {
				v = fmt.Sprint(*s.Values[c])
			}
			if v != "0" ||
				len(
					a.Series,
					// A row that was not there yet reads as 0, later, when it is among the answer's
					// rows.
				) == 1 {
				all = append(all, fmt.Sprint(s.Key)+"="+v)
			}
		}
		slices.Sort(all[1:])
		m[sentence][a.at(c)] = strings.Join(all, "; ")
	}
	return nil
}

// serveKilled: killed again and again at no particular moment, it is back within a second, and
// all it had returned of what was older than two seconds is there, the same.
func serveKilled(t *testing.T, l *Lab, bin string) {
	for n := range 2 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			killAgain(t, l, bin, filepath.Join(l.Dir(), fmt.Sprint("record", n)), 10)
		})
	}
}

func killAgain(t *testing.T, l *Lab, bin, dir string, rounds int) {
	sentences := []string{
		"sched.switches",
		"net.device.bytes by netns,device,direction",
		"cpu.time by cpu,mode",
	}
	seen, start := answers{}, time.Now()
	var opened []time.Duration
	mayGo := map[string]map[time.Time]bool{} // returned, and no older than two seconds at a kill
	for _, s := range sentences {
		mayGo[s] = map[time.Time]bool{}
	}
	lost := 0
	for range rounds {
		began := time.Now()
		r := serve(t, l, bin, dir, nil)
		opened = append(opened, time.Since(began))
		until := time.Now().Add(2*time.Second + rand.N(2*time.Second))
		for ; time.Now().Before(until); time.Sleep(rand.N(300 * time.Millisecond)) {
			for _, s := range sentences {
				if err := seen.tell(r, s, start, time.Now()); err != nil &&
					!strings.Contains(err.Error(), "never recorded") {
					t.Error(err)
				}
			}
		}
		r.kill()
		killed := time.Now()
		for _, s := range sentences {
			for at := range seen[s] {
				if at.After(killed.Add(-2*time.Second)) && at.After(began) {
					mayGo[s][at] = true
				}
			}
		}
	}
	r := serve(t, l, bin, dir, nil)
	after := answers{}
	for _, s := range sentences {
		if err := after.tell(r, s, start, time.Now()); err != nil {
			t.Fatal(err)
		}
		for at, was := range seen[s] {
			switch is := after[s][at]; {
			case is == "" && mayGo[s][at]:
				lost++
			case is != was:
				t.Errorf("%s at %v was returned as %s, and is %q", s, at, was, is)
			}
		}
	}
	first := sentences[0]
	t.Logf(
		"%d kills in %v: of %d seconds returned, %d of them less than 2 s before a kill, all are there but %d of the latter",
		rounds,
		time.Since(start).
			Round(time.Second),
		len(seen[first]),
		len(mayGo[first]),
		lost/len(sentences),
	)
	if len(seen[first])-len(mayGo[first]) < 2 {
		t.Errorf(
			"of %d runs only %d seconds were returned and two seconds old", rounds,
			len(seen[first])-len(mayGo[first]),
		)
	}
	slices.Sort(opened)
	t.Logf(
		"it answered after %v (median), %v (most)", opened[rounds/2].Round(time.Millisecond),
		opened[rounds-1].Round(time.Millisecond),
	)
	if opened[rounds/2] > time.Second {
		t.Errorf(
			"it is back after %v, half of the times after more than %v", opened, opened[rounds/2],
		)
	}
	if h := r.mustHealth(); len(h.Trouble) > 0 {
		t.Errorf("trouble is %v", h.Trouble)
	}
}

// ticks follows a live view and returns when each tick came, by its time, and the gaps that were
// reported.
type event struct {
	came time.Time
	kind string
	at   time.Time // of a tick
	from time.Time // of a gap
	to   time.Time
}

// live follows a sentence until the context ends.
func (r *recorder) live(ctx context.Context, sentence string) <-chan event {
	r.t.Helper()
	q, err := http.NewRequestWithContext(
		ctx, http.MethodGet, r.base+"api/live?"+url.Values{"q": {sentence}}.Encode(), nil,
	)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+r.token)
	a, err := (&http.Client{Transport: r.web.Transport}).Do(q) // without a time limit
	if err != nil || a.StatusCode != http.StatusOK {
		r.t.Fatalf("live: %v %v", a, err)
	}
	events := make(chan event, 1000)
	go func() {
		defer a.Body.Close()
		defer close(events)
		kind := ""
		s := bufio.NewScanner(a.Body)
		for s.Buffer(nil, 1<<20); s.Scan(); {
			if k, ok := strings.CutPrefix(s.Text(), "event: "); ok {
				kind = k
			}
			data, ok := strings.CutPrefix(s.Text(), "data: ")
			if !ok {
				continue
			}
			var e struct {
				At   float64 `json:"at_ms"`
				From float64 `json:"from_ms"`
				To   float64 `json:"to_ms"`
			}
			if json.Unmarshal([]byte(data), &e) == nil {
				events <- event{
					time.Now(), kind, time.UnixMilli(int64(e.At)), time.UnixMilli(int64(e.From)),
					time.UnixMilli(int64(e.To)),
				}
			}
		}
	}()
	return events
}

// serveStopped: a server that did not run for five seconds has one long interval or a gap there,
// and goes on one tick a second.
func serveStopped(t *testing.T, l *Lab, bin string) {
	a, b := l.Host("a"), l.Host("b")
	l.Veth(a, "eth0", b, "eth0")
	a.Address("eth0", "10.0.0.1/24")
	b.Address("eth0", "10.0.0.2/24")
	l.Start(Program{Name: "receiver", Act: "sink", On: b, Args: []string{"-at", "10.0.0.2:7070"}})
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	r := serve(t, l, bin, filepath.Join(l.Dir(), "record"), nil)
	start := time.Now()
	r.until(start.Add(2 * time.Second))
	_, tx0 := a.linkCounters(t, "eth0")
	const rate = 4e6
	d := l.Start(
		Program{
			Name: "sender",
			Act:  "stream",
			On:   a,
			Args: []string{
				"-to",
				"10.0.0.2:7070",
				"-rate",
				fmt.Sprint(int(rate)),
				"-chunk",
				"10000",
			},
		},
	)
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	const sentence = "net.device.bytes by netns,device,direction"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := r.live(ctx, "sched.switches")
	r.until(time.Now().Add(2 * time.Second))

	stopped := time.Now()
	r.signal(unix.SIGSTOP)
	time.Sleep(5 * time.Second)
	resumed := time.Now()
	r.signal(unix.SIGCONT)
	r.until(resumed.Add(3 * time.Second))
	d.Stop()
	ended := time.Now()
	r.until(ended.Add(time.Second))
	_, tx1 := a.linkCounters(t, "eth0")
	cancel()

	w := r.mustAsk(
		sentence, start.Truncate(time.Second).Add(time.Second),
		ended.Truncate(time.Second).Add(time.Second),
	)
	if got := w.amount(a.NS, "eth0", "tx"); !near(got, tx1-tx0, 1e-6) {
		t.Errorf("%.0f bytes are reported, the kernel counted %.0f", got, tx1-tx0)
	}
	missed, long := 0, 0.
	for c, e := range w.Elapsed {
		v := w.value(c, a.NS, "eth0", "tx")
		switch at := w.at(c); {
		case e == 0 && !math.IsNaN(v):
			t.Errorf("at %v nothing was measured, and it is returned as %v", at, v)
		case e == 0 && at.After(stopped.Add(-time.Second)) && at.Before(resumed.Add(time.Second)):
			missed++
		case e == 0 && w.covered(c):
		case e == 0:
			t.Errorf("at %v it ran, and nothing was measured", at)
		case at.After(stopped.Add(-time.Second)) && at.Before(resumed.Add(3*time.Second)) &&
			!near(v, rate, 0.15):
			t.Errorf("at %v over %.0f ms: %.0f B/s, it was %.0f", at, e, v, rate)
		}
		long = max(long, e)
	}
	if t.Failed() {
		t.Logf(
			"stopped %v, resumed %v, returned %+v %v %v", stopped, resumed, w.Elapsed, w.Notes,
			w.Loss,
		)
		for c := range w.Elapsed {
			t.Logf("%v: %v", w.at(c), w.value(c, a.NS, "eth0", "tx"))
		}
	}
	t.Logf("stopped for 5 s: %d seconds are a gap, the longest interval is %.0f ms", missed, long)
	if missed < 3 && long < 3000 || math.Abs(float64(missed)*1000+1000-long) > 1500 {
		t.Errorf(
			"it was stopped for 5 s: %d seconds are a gap, and the longest interval is %.0f ms",
			missed, long,
		)
	}
	ticks, gaps := 0, 0
	var before event
	for e := range events {
		switch {
		case e.kind == "gap":
			gaps++
		case e.came.After(resumed) && e.came.Before(resumed.Add(3*time.Second)):
			ticks++
			if !before.at.IsZero() && !e.at.After(before.at) {
				t.Errorf("the tick of %v comes after that of %v", e.at, before.at)
			}
			before = e
		}
	}
	if ticks < 2 || ticks > 5 || gaps == 0 {
		t.Errorf(
			"in the 3 s after it went on there are %d ticks live, and %d gaps are reported", ticks,
			gaps,
		)
	}
}

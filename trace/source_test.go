package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/probe"

	"golang.org/x/sys/unix"
)

// tail keeps the output of a script.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(b)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// sourceOf makes a source of a text, which ends with the test.
func sourceOf(t *testing.T, budget Budget, format string, args ...any) (*Source, *tail) {
	t.Helper()
	if err := feature.RawTracepoints.Have(kernel.Root{}); errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: root")
	} else if err != nil {
		t.Skip("needs: kernel feature raw tracepoints")
	}
	env := probe.NewEnv(kernel.Root{})
	t.Cleanup(func() { env.Close() })
	said := &tail{}
	s, err := NewSource("test", Script{Text: fmt.Sprintf(format, args...)}, budget, env, said)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Live(ctx) //nolint:errcheck // Err returns it
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	<-s.Begun()
	return s, said
}

// seen is all that a run reported of one statistic.
type seen struct {
	mu      sync.Mutex
	ticks   int
	sums    map[string]float64
	dists   map[string]measure.Dist
	notes   []string
	spans   measure.Span
	loss    map[string]uint64
	overlap bool
	last    measure.Time
}

func watch(t *testing.T, s *Source, query string) (*seen, func()) {
	t.Helper()
	q, err := measure.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	q.Step = 50 * measure.Millisecond
	got := &seen{
		sums:  map[string]float64{},
		dists: map[string]measure.Dist{},
		loss:  map[string]uint64{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := s.Run(ctx, []measure.Query{q}, measure.SinkFunc(func(all []*measure.Batch) error {
			got.mu.Lock()
			defer got.mu.Unlock()
			for _, b := range all {
				got.ticks++
				got.notes = append(got.notes, b.Notes...)
				got.spans += b.Over.Span()
				for _, l := range b.Loss {
					got.loss[l.Reason] += l.Events
				}
				if b.Over.Span() > 0 {
					got.overlap = got.overlap || b.Over.Start < got.last.Add(-measure.Millisecond)
					got.last = b.Over.End
				}
				for i := range b.Rows() {
					var words []string
					for _, l := range b.Key(i) {
						words = append(words, b.Labels[l])
					}
					k := strings.Join(words, " ")
					if b.Dists != nil {
						d := got.dists[k]
						d.Base = b.Dists[i].Base
						d.Merge(b.Dists[i])
						got.dists[k] = d
					} else {
						got.sums[k] += b.Values[i]
					}
				}
			}
			return nil
		}))
		if err != nil {
			t.Error(err)
		}
	}()
	return got, func() {
		cancel()
		<-ended
	}
}

// until waits until is returns true.
func (g *seen) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		g.mu.Lock()
		ok := is()
		g.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			g.mu.Lock()
			defer g.mu.Unlock()
			t.Fatalf("never %s: %+v", what, g)
		}
	}
}

// Two readers each receive every call exactly once, although the script clears and prints the same
// aggregation.
func TestSourceCountsEveryCallOnce(t *testing.T) {
	s, said := sourceOf(
		t,
		0,
		`syscall::getpgid:entry /pid == %d/ { @calls[execname, probefunc, arg0] = count(); @total = sum(1); }
		tick-20ms { printa("%%s %%s %%d %%@d\n", @calls); clear(@calls); }`,
		os.Getpid(),
	)
	if n := len(s.Stats()); n != 2 || s.Stats()[0].ID != "trace.test.calls" ||
		s.Stats()[1].ID != "trace.test.total" {
		t.Fatalf("%d statistics: %+v", n, s.Stats())
	}
	fields := ""
	for _, f := range s.Stats()[0].Fields {
		fields += f.Name + " " + f.Type.String() + " "
	}
	if fields != "execname word probefunc word arg0 number " {
		t.Errorf("fields are %s", fields)
	}
	one, end := watch(t, s, "trace.test.calls by probefunc")
	defer end()
	two, endTwo := watch(t, s, "trace.test.calls by arg0,probefunc")
	defer endTwo()
	one.until(t, "a tick", func() bool { return one.ticks > 0 })
	two.until(t, "a tick", func() bool { return two.ticks > 0 })
	for i := range 5000 {
		unix.Getpgid(0) //nolint:errcheck // it is made to be counted
		if i%1000 == 0 {
			time.Sleep(30 * time.Millisecond) // over several ticks
		}
	}
	one.until(t, "5000 calls", func() bool { return one.sums["getpgid"] >= 5000 })
	two.until(t, "5000 calls", func() bool { return two.sums["0 getpgid"] >= 5000 })
	end()
	endTwo()
	if one.sums["getpgid"] != 5000 || two.sums["0 getpgid"] != 5000 || len(one.loss) > 0 ||
		one.overlap ||
		two.overlap {
		t.Errorf("counted %v and %v of 5000, loss %v", one.sums, two.sums, one.loss)
	}
	if !strings.Contains(said.String(), " getpgid 0 ") {
		t.Errorf("printed %q", said.String())
	}
	if s.ExternalCost() <= 0 || s.Cost("trace.test.calls") <= 0 || s.Cost("trace.test.none") != 0 {
		t.Errorf("costs %v, %v of it outside", s.Cost("trace.test.calls"), s.ExternalCost())
	}
}

func TestSourceOfDistributions(t *testing.T) {
	s, _ := sourceOf(t, 0, `syscall::clock_nanosleep:entry /pid == %d/ { self->t = timestamp; }
		syscall::clock_nanosleep:return /self->t/ { this->d = timestamp - self->t; @ = quantize(this->d); @us = avg(this->d / 1000); @least = min(this->d); @fine = llquantize(this->d, 10, 3, 9, 20); self->t = 0; }`, os.Getpid())
	units := map[measure.StatID]string{}
	for _, st := range s.Stats() {
		units[st.ID] = fmt.Sprint(st.Kind, " ", st.Unit, " ", st.Fold)
	}
	if fmt.Sprint(units) != "map[trace.test.fine:dist ns sum trace.test.least:level ns min trace.test.quantize:dist ns sum trace.test.us:level us mean]" {
		t.Errorf("statistics are %v", units)
	}
	coarse, end := watch(t, s, "trace.test.quantize")
	defer end()
	fine, endFine := watch(t, s, "trace.test.fine")
	defer endFine()
	coarse.until(t, "a tick", func() bool { return coarse.ticks > 0 })
	fine.until(t, "a tick", func() bool { return fine.ticks > 0 })
	naps, broken := uint64(20), uint64(0) // by a signal of the runtime's: those are shorter
	for range naps {
		if unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &unix.Timespec{Nsec: 3e6}, nil) != nil {
			broken++
		}
	}
	count := func(g *seen) uint64 { d := g.dists[""]; return d.Count() }
	coarse.until(t, "20 naps", func() bool { return count(coarse) >= naps })
	fine.until(t, "20 naps", func() bool { return count(fine) >= naps })
	c, f := coarse.dists[""], fine.dists[""]
	whole := (float64(broken) + 0.5) / float64(naps) // from where on they are whole
	if c.Count() != naps || f.Count() != naps || broken > naps/2 || c.Quantile(whole) < 2097152 ||
		f.Quantile(whole) < 2.9e6 ||
		c.Mean() < 3e6*float64(naps-broken)/float64(naps) {
		t.Errorf(
			"coarse %+v, fine %+v: want %d naps of 3 ms, of which %d were broken off", c, f, naps,
			broken,
		)
	}
}

// Without readers nothing is lost: rows without readers do not fill the maps, and the cost of the
// script is still known.
func TestSourceWithoutReaders(t *testing.T) {
	s, _ := sourceOf(t, 0, `#pragma D option aggsize=1152
		syscall::getpgid:entry /pid == %d/ { @[timestamp] = count(); }`, os.Getpid())
	const rounds, each = 4, 20 // 48 keys fit
	for range rounds {
		before := s.ExternalCost()
		for range each {
			unix.Getpgid(0) //nolint:errcheck // it is made to be counted
		}
		deadline := time.Now().Add(10 * time.Second)
		for ; s.ExternalCost() == before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("what it costs stays the same")
			}
		}
	}
	if l := s.Losses(); len(l) > 0 {
		t.Errorf("lost %v", l)
	}
}

// Rows that were added until the script exited are reported. Later batches have a note that it has
// ended, and no zeros.
func TestSourceThatEnds(t *testing.T) {
	s, _ := sourceOf(
		t, 0,
		`syscall::getpgid:entry /pid == %d/ { @[probefunc] = count(); n++; } syscall::getpgid:entry /n == 10/ { exit(0); }`,
		os.Getpid(),
	)
	got, end := watch(t, s, "trace.test.count by probefunc")
	defer end()
	got.until(t, "a tick", func() bool { return got.ticks > 0 })
	for range 10 {
		unix.Getpgid(0) //nolint:errcheck // it is made to be counted
	}
	<-s.Ended()
	got.until(t, "the end", func() bool { return len(got.notes) > 2 })
	end()
	if got.sums["getpgid"] != 10 || got.notes[0] != "the script test has ended" {
		t.Errorf("counted %v, and %q", got.sums, got.notes[0])
	}
	late, endLate := watch(t, s, "trace.test.count")
	defer endLate()
	late.until(t, "a tick", func() bool { return late.ticks > 1 })
	endLate()
	if late.spans != 0 || len(late.sums) != 0 {
		t.Errorf("a late reader received %+v", late)
	}
}

func TestSourceKeepsItsBudget(t *testing.T) {
	s, _ := sourceOf(t, 0.0001, `syscall:::entry { @[probefunc] = count(); }`)
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				unix.Getpgid(0) //nolint:errcheck // it is made to be counted
			}
		}
	})
	defer load.Wait()
	defer close(stop)
	got, end := watch(t, s, "trace.test.count by probefunc")
	defer end()
	select {
	case <-s.Ended():
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on beyond its budget")
	}
	got.until(t, "the end", func() bool { return len(got.notes) > 0 })
	var over *ErrBudget
	if !errors.As(s.why, &over) || !strings.Contains(got.notes[len(got.notes)-1], "budget") {
		t.Errorf("ended with %v, noted %q", s.why, got.notes)
	}
}

// A script that is a source may not change the system, with or without the option destructive.
func TestSourceChangesNothing(t *testing.T) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	for _, tt := range []struct{ name, text, want string }{
		{"without the option", `BEGIN { system("true"); }`, "is destructive"},
		{
			"with the option", "#pragma D option destructive\nBEGIN { system(\"true\"); }",
			"must not change the system",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewSource("test", Script{Text: tt.text}, 0, env, &tail{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestWordsOfFields(t *testing.T) {
	for text, want := range map[string]string{"execname": "execname", "args[0]->next_pid": "next_pid", "copyinstr(arg1)": "copyinstr_arg1", "stack()": "stack", "self->path": "path",
		"arg0 / 2": "arg0_2", "1 + pid": "key_1_pid", "(string)args[0]->d_name.name": "name", "args[1]": "args_1", "*": "key", "curthread->comm": "comm", "by": "key_by"} {
		if got := word(text); got != want {
			t.Errorf("%s is called %s, want %s", text, got, want)
		}
	}
}

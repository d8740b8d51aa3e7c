package dataset

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"culprit/measure"
)

// runs is a running script whose counters are those of meters.
type runs struct {
	*meters
	once  sync.Once
	ended chan struct{}
	why   error
	role  string       // of whom it was started by
	cost  atomic.Int64 // of its programs, nanoseconds
}

func (r *runs) Ended() <-chan struct{}           { return r.ended }
func (r *runs) Err() error                       { return r.why }
func (r *runs) Stop()                            { r.once.Do(func() { close(r.ended) }) }
func (r *runs) Output() string                   { return "said" }
func (r *runs) Notes() []string                  { return nil }
func (r *runs) Losses() []measure.Loss           { return nil }
func (r *runs) Cost(measure.StatID) measure.Span { return measure.Second }
func (r *runs) ExternalCost() measure.Span       { return measure.Span(r.cost.Load()) }

// table: the asker of most changes
var asker = measure.Asker{Name: "page", Role: "trace"}

// expensive is an end for its cost.
type expensive struct{ error }

func (expensive) Spent() bool { return true }

// program starts scripts and keeps them for the test.
func program(all map[string]*runs) Starter {
	return func(k measure.Script) (Runner, error) {
		if i := strings.Index(k.Text, "wrong"); i >= 0 {
			return nil, &measure.Diagnostic{
				Text:    k.Text,
				Pos:     i,
				Len:     5,
				Code:    "unknown-name",
				Message: "wrong",
			}
		}
		m := newMeters()
		m.stats = []measure.Stat{two(measure.StatID("trace."+k.Name+".a"), measure.Delta)}
		m.stats[0].Program = k.Text
		all[k.Name] = &runs{meters: m, ended: make(chan struct{}), role: k.Role}
		return all[k.Name], nil
	}
}

func scriptsOf(t *testing.T, s *Set, all map[string]*runs) *Scripts {
	t.Helper()
	out, err := NewScripts(s, program(all))
	if err != nil {
		t.Fatal(err)
	}
	out.Begin()
	t.Cleanup(out.Close)
	return out
}

// what returns the states of the scripts and of their datasets.
func what(s *Set, all *Scripts) string {
	var out []string
	for _, k := range all.Scripts() {
		out = append(out, k.Name+" "+k.State.String())
	}
	for _, d := range s.Datasets() {
		if strings.HasPrefix(string(d.Stat.ID), "trace.") {
			out = append(out, fmt.Sprintf("%d %s", d.ID, d.State))
		}
	}
	return strings.Join(out, ", ")
}

// A script's datasets are recorded while it runs, also by the next program; other datasets miss
// nothing.
func TestScriptsAndTheirDatasets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMemory(nil)
		all := map[string]*runs{}
		live(t, newMeters(), a, []string{"m.a by x,y"}, func(s *Set) {
			scripts := scriptsOf(t, s, all)
			time.Sleep(3 * time.Second)
			one, err := scripts.Add(asker, measure.Script{Name: "one", Text: "text"}, true)
			if err != nil {
				t.Fatal(err)
			}
			two, err := scripts.Add(asker, measure.Script{Text: "two"}, true)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if role := all["one"].role; role != "trace" {
				t.Errorf("it is started with the role %q", role)
			}
			want := "one running, script2 running, 2 recording, 3 recording"
			if got := what(s, scripts); got != want {
				t.Errorf("at first %s", got)
			}
			for _, c := range []struct{ name, text, says string }{
				{"one", "other", "another text"},
				{"No", "x", "small letters"},
				{"x", "it is wrong", "wrong"},
				{"y", strings.Repeat("x", 1<<20), "too long"},
			} {
				if _, err := scripts.Add(asker, measure.Script{
					Name: c.name, Text: c.text,
				}, false); err == nil ||
					!strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want %s", c.name, err, c.says)
				}
			}
			if again, err := scripts.Add(asker, measure.Script{
				Name: "one", Text: "text",
			}, true); err != nil ||
				again != one {
				t.Errorf("an equal one is %d, %v", again, err)
			}
			all["one"].why = expensive{errors.New("too expensive")}
			all["one"].Stop()
			if err := scripts.Stop(asker, two); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Second)
			want = "one suspended, script2 stopped, 2 suspended, 3 suspended"
			if got := what(s, scripts); got != want ||
				fmt.Sprint(s.Health().Problems) != "[the script one is suspended: too expensive]" {
				t.Errorf("then %s, %q", got, s.Health().Problems)
			}
			if s.Stats()[3].ID != "trace.one.a" { // of the dataset
				t.Errorf("what was recorded is forgotten: %+v", s.Stats())
			}
			if _, err := s.Enable("page", measure.Query{
				Stat: "trace.one.a", By: []string{"x"},
			}); !errors.Is(err, measure.ErrUnsupported) {
				t.Errorf("record of one that does not run: %v", err)
			}
			if err := scripts.Start(measure.Asker{Name: "other", Role: "other role"}, one); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Second)
			if role := all["one"].role; role != "other role" {
				t.Errorf("another asker starts it with the role %q", role)
			}
			want = "one running, script2 stopped, 2 recording, 3 suspended"
			if got := what(s, scripts); got != want ||
				len(s.Health().Problems) > 0 {
				t.Errorf("after a start %s, %q", got, s.Health().Problems)
			}
			unbroken(t, "the others", a.stamps(1), measure.Second, 18)
			scripts.Close()
		})
		before := len(a.stamps(2))
		live(t, newMeters(), a, []string{"m.a by x,y"}, func(s *Set) {
			scripts := scriptsOf(t, s, all)
			time.Sleep(5 * time.Second)
			if role := all["one"].role; role != "other role" {
				t.Errorf("the next program starts it with the role %q", role)
			}
			want := "one running, script2 stopped, 2 recording, 3 suspended"
			if got := what(s, scripts); got != want ||
				len(a.stamps(2)) < before+4 {
				t.Errorf("in the next program %s, %d ticks and %d", got, before, len(a.stamps(2)))
			}
			for _, id := range []uint32{1, 2} {
				if err := scripts.Remove(asker, id); err != nil {
					t.Error(err)
				}
			}
			if got := what(s, scripts); got != "2 suspended, 3 suspended" {
				t.Errorf("at last %s", got)
			}
			if _, err := scripts.Add(asker, measure.Script{
				Name: "one", Text: "other",
			}, false); err == nil ||
				!strings.Contains(err.Error(), "dataset 2") {
				t.Errorf("another by the name of what is recorded: %v", err)
			}
			if id, err := scripts.Add(asker, measure.Script{
				Name: "one", Text: "text",
			}, true); err != nil ||
				id != 3 {
				t.Errorf("the same again: %d, %v", id, err)
			}
			want = "one running, 2 recording, 3 suspended"
			if got := what(s, scripts); got != want {
				t.Errorf("the same again: %s", got)
			}
			scripts.Close()
		})
	})
}

// TestScriptCPU reads the share of a CPU that a script takes: unknown in its first second, then
// over the time since its start, and in the end over the last seconds.
func TestScriptCPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := map[string]*runs{}
		live(t, newMeters(), newMemory(nil), []string{"m.a by x,y"}, func(s *Set) {
			scripts := scriptsOf(t, s, all)
			id, err := scripts.Add(asker, measure.Script{Name: "one", Text: "text"}, false)
			if err != nil {
				t.Fatal(err)
			}
			cpu := func() string {
				return fmt.Sprintf("%.3f", scripts.Scripts()[0].CPU)
			}
			for n, step := range []struct {
				wait time.Duration
				cost measure.Span // in it
				want string
			}{
				{500 * time.Millisecond, 100 * measure.Millisecond, "NaN"},
				{400 * time.Millisecond, 100 * measure.Millisecond, "NaN"},
				// over the time since the first look
				{1100 * time.Millisecond, 300 * measure.Millisecond, "0.267"},
				{2 * time.Second, 0, "0.114"},
				{4 * time.Second, 4 * measure.Second, "0.667"},
				{5 * time.Second, 5 * measure.Second, "1.000"},
				{5 * time.Second, 0, "0.000"},
			} {
				time.Sleep(step.wait)
				all["one"].cost.Add(int64(step.cost))
				if got := cpu(); got != step.want {
					t.Errorf("look %d: %s of a CPU, want %s", n, got, step.want)
				}
			}
			if err := scripts.Stop(asker, id); err != nil {
				t.Fatal(err)
			}
			if got := cpu(); got != "NaN" {
				t.Errorf("a stopped script takes %s of a CPU", got)
			}
			scripts.Close()
		})
	})
}

// TestManyScripts adds scripts until there are too many.
func TestManyScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live(t, newMeters(), newMemory(nil), []string{"m.a by x,y"}, func(s *Set) {
			scripts := scriptsOf(t, s, map[string]*runs{})
			for n := range maxScripts {
				id, err := scripts.Add(asker, measure.Script{Text: fmt.Sprint("text", n)}, false)
				if err != nil || int(id) != n+1 {
					t.Fatalf("script %d has the number %d, %v", n+1, id, err)
				}
			}
			_, err := scripts.Add(asker, measure.Script{Text: "one more"}, false)
			if want := fmt.Sprintf("there are %d scripts already", maxScripts); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("one more: %v", err)
			}
			if err := scripts.Remove(asker, 3); err != nil {
				t.Fatal(err)
			}
			id, err := scripts.Add(asker, measure.Script{Text: "instead"}, false)
			if err != nil || int(id) != maxScripts+1 {
				t.Errorf("after one was removed: %d, %v", id, err)
			}
			for budget, good := range map[float64]bool{
				0: true, 0.5: true, -0.1: false, measure.NaN: false,
			} {
				if err := scripts.Remove(asker, id); err != nil {
					t.Fatal(err)
				}
				id, err = scripts.Add(asker, measure.Script{Text: "x", Budget: budget}, false)
				if (err == nil) != good {
					t.Errorf("a budget of %v: %v", budget, err)
				}
				if err != nil {
					id, err = scripts.Add(asker, measure.Script{Text: "y"}, false)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			scripts.Close()
		})
	})
}

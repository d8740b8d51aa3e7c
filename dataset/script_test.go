package dataset

import (
	"errors"
	"fmt"
	"strings"
	"sync"
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
}

func (r *runs) Ended() <-chan struct{}           { return r.ended }
func (r *runs) Err() error                       { return r.why }
func (r *runs) Stop()                            { r.once.Do(func() { close(r.ended) }) }
func (r *runs) Output() string                   { return "said" }
func (r *runs) Notes() []string                  { return nil }
func (r *runs) Losses() []measure.Loss           { return nil }
func (r *runs) Cost(measure.StatID) measure.Span { return measure.Second }
func (r *runs) ExternalCost() measure.Span       { return measure.Second }

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
		all[k.Name] = &runs{meters: m, ended: make(chan struct{})}
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
			one, err := scripts.Add("page", measure.Script{Name: "one", Text: "text"}, true)
			if err != nil {
				t.Fatal(err)
			}
			two, err := scripts.Add("page", measure.Script{Text: "two"}, true)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
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
				if _, err := scripts.Add("page", measure.Script{
					Name: c.name, Text: c.text,
				}, false); err == nil ||
					!strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want %s", c.name, err, c.says)
				}
			}
			if again, err := scripts.Add("page", measure.Script{
				Name: "one", Text: "text",
			}, true); err != nil ||
				again != one {
				t.Errorf("an equal one is %d, %v", again, err)
			}
			all["one"].why = expensive{errors.New("too expensive")}
			all["one"].Stop()
			if err := scripts.Stop("page", two); err != nil {
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
			if err := scripts.Start("page", one); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Second)
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
			want := "one running, script2 stopped, 2 recording, 3 suspended"
			if got := what(s, scripts); got != want ||
				len(a.stamps(2)) < before+4 {
				t.Errorf("in the next program %s, %d ticks and %d", got, before, len(a.stamps(2)))
			}
			for _, id := range []uint32{1, 2} {
				if err := scripts.Remove("page", id); err != nil {
					t.Error(err)
				}
			}
			if got := what(s, scripts); got != "2 suspended, 3 suspended" {
				t.Errorf("at last %s", got)
			}
			if _, err := scripts.Add("page", measure.Script{
				Name: "one", Text: "other",
			}, false); err == nil ||
				!strings.Contains(err.Error(), "dataset 2") {
				t.Errorf("another by the name of what is recorded: %v", err)
			}
			if id, err := scripts.Add("page", measure.Script{
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

package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// held is a reader of a recording that a test defines: eth0 received in each tick of a second,
// except in the gaps.
type held struct {
	gaps  []measure.Time // ticks that are missing
	asked []measure.Query
	notes map[measure.Time]string
	lacks measure.StatID // without data after second 101
	old   measure.Time   // earlier data exists by the minute only
}

func (h *held) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	h.asked = append(h.asked, q)
	if q.Stat == "process.cpu" {
		return nil, fmt.Errorf("ask %s: no dataset has it: %w", q.Stat, measure.ErrUnclear)
	}
	if q.Over.Start < h.old &&
		(q.Step%measure.Minute != 0 || q.Over.Start != floor(q.Over.Start, measure.Minute)) {
		q.Step = (q.Step + measure.Minute - 1) / measure.Minute * measure.Minute
		q.Over.Start = floor(q.Over.Start, measure.Minute)
	}
	a := &measure.Answer{
		Query:   q,
		Kind:    measure.Delta,
		Unit:    "B/s",
		Start:   q.Over.Start,
		Step:    q.Step,
		Elapsed: make([]measure.Span, (q.Over.Span()+q.Step-1)/q.Step),
	}
	values := slices.Repeat([]float64{measure.NaN}, len(a.Elapsed))
	for at := q.Over.Start/1e9*1e9 + 1e9; at <= q.Over.End; at += 1e9 {
		if slices.Contains(h.gaps, at) || q.Stat == h.lacks && at > 101e9 {
			continue
		}
		cell := at.Sub(q.Over.Start+1) / q.Step
		a.Elapsed[cell] += measure.Second + measure.Millisecond
		values[cell] = float64(at) / 1e9
		if n := h.notes[at]; n != "" {
			a.Notes = append(a.Notes, n)
		}
	}
	if slices.ContainsFunc(a.Elapsed, func(s measure.Span) bool { return s > 0 }) {
		a.Labels, a.Series = []string{
			"eth0",
		}, []measure.Series{
			{Key: []measure.Label{0}, Values: values},
		}
	}
	return a, nil
}

func replay(t *testing.T, p *Replay, step measure.Span, sentences ...string) []string {
	t.Helper()
	var queries []measure.Query
	for _, s := range sentences {
		q, err := p.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		q.Step = step
		queries = append(queries, q)
	}
	var lines []string
	err := p.Watch(t.Context(), queries, func(tk *measure.Tick) error {
		line := fmt.Sprintf("%d+%v", tk.Over.End/1e9, tk.Over.Span())
		for i, a := range tk.Answers {
			if a.Query.String() != queries[i].String() || len(a.Elapsed) != 1 {
				t.Errorf("answer %d is one to %s, of %d cells", i, a.Query, len(a.Elapsed))
			}
			for _, s := range a.Series {
				line += fmt.Sprintf(" %v=%v", a.Labels[s.Key[0]], s.Values[0])
			}
			for _, n := range a.Notes {
				before, _, _ := strings.Cut(n, " from ")
				line += " (" + before + ")"
			}
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestReplayTicksAndGaps(t *testing.T) {
	const bytes = "net.device.bytes by device"
	stats := network().stats
	over := measure.Interval{Start: 100e9, End: 106e9}
	for _, c := range []struct {
		name string
		over measure.Interval
		step measure.Span
		held *held
		want []string
	}{
		{"each second", measure.Interval{
			Start: 100e9, End: 102e9,
		}, measure.Second, &held{}, []string{"101+1.001s eth0=101", "102+1.001s eth0=102"}},
		{"a gap is one tick without measured time", over, measure.Second, &held{
			gaps: []measure.Time{102e9, 103e9, 104e9},
		},
			[]string{
				"101+1.001s eth0=101", "104+3s (nothing was recorded)", "105+1.001s eth0=105",
				"106+1.001s eth0=106",
			}},
		{"a gap at the end", over, 2 * measure.Second, &held{gaps: []measure.Time{105e9, 106e9}},
			[]string{
				"102+2.002s eth0=102", "104+2.002s eth0=104", "106+2s (nothing was recorded)",
			}},
		{"nothing at all", over, 0, &held{
			gaps: []measure.Time{101e9, 102e9, 103e9, 104e9, 105e9, 106e9},
		}, []string{"106+6s (nothing was recorded)"}},
		{"a part lacks", over, 3 * measure.Second, &held{gaps: []measure.Time{102e9}},
			[]string{"103+2.002s eth0=103 (of the 3 s to " + localTime(103e9) + " only 2 s are recorded)", "106+3.003s eth0=106"}},
		{"the last cell is shorter", over, 4 * measure.Second, &held{}, []string{
			"104+4.004s eth0=104", "106+2.002s eth0=106",
		}},
		{"the whole time", over, 0, &held{}, []string{"106+6.006s eth0=106"}},
		{"no longer than the time", over, measure.Minute, &held{}, []string{"106+6.006s eth0=106"}},
		{"a step that ends there", measure.Interval{End: 106e9}, 2 * measure.Second, &held{}, []string{"106+2.002s eth0=106"}},
		{"old data is reported by the minute", measure.Interval{
			Start: 59e9, End: 182e9,
		}, measure.Second, &held{old: 130e9},
			[]string{
				"60+1m0.06s eth0=60", "120+1m0.06s eth0=120", "180+1m0.06s eth0=180",
				"181+1.001s eth0=181", "182+1.001s eth0=182",
			}},
		{"the whole time, part of it old", measure.Interval{
			Start: 100e9, End: 160e9,
		}, 0, &held{old: 130e9}, []string{"180+2m0.12s eth0=180"}},
		{"a note stays in its second", measure.Interval{
			Start: 100e9, End: 103e9,
		}, measure.Second, &held{notes: map[measure.Time]string{102e9: "careful"}},
			[]string{
				"101+1.001s eth0=101", "102+1.001s eth0=102 (careful)", "103+1.001s eth0=103",
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := replay(t, NewReplay(c.held, stats, c.over), c.step, bytes); !slices.Equal(
				got, c.want,
			) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// A query that no dataset answers is a note next to the other answers, and an error when there is
// no other.
func TestReplayOfUnrecordedQueries(t *testing.T) {
	h := &held{lacks: "net.device.speed"}
	for step, want := range map[measure.Span][]string{
		measure.Second:     {"101+1.001s eth0=101 eth0=101", "102+1.001s eth0=102 (net.device.speed was not recorded in all of the time that is shown)"},
		2 * measure.Second: {"102+2.002s eth0=102 eth0=101 (net.device.speed was not recorded in all of the time that is shown)"},
	} {
		if got := replay(t, NewReplay(h, network().stats, measure.Interval{
			Start: 100e9, End: 102e9,
		}), step, "net.device.bytes by device", "net.device.speed by device"); !slices.Equal(
			got, want,
		) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	p := NewReplay(&held{}, network().stats, measure.Interval{Start: 100e9, End: 101e9})
	got := replay(t, p, measure.Second, "net.device.bytes by device", "process.cpu by pid")
	if len(got) != 1 || !strings.Contains(got[0], "eth0=101") ||
		!strings.Contains(got[0], "no dataset has it") {
		t.Errorf("%q", got)
	}
	q, err := p.Parse("process.cpu by pid")
	if err != nil {
		t.Fatal(err)
	}
	err = p.Watch(t.Context(), []measure.Query{q}, func(*measure.Tick) error { return nil })
	if !errors.Is(err, measure.ErrUnclear) {
		t.Errorf("nothing was recorded, and the error is %v", err)
	}
	var d *measure.Diagnostic
	if _, err := p.Parse("net.device.bites"); !errors.As(err, &d) ||
		!strings.Contains(d.Hint, "net.device.bytes") {
		t.Errorf("an unknown statistic: %v", err)
	}
}

// Terms are added to queries whose statistic has their field, and the answer has the original
// query.
func TestReplayFilters(t *testing.T) {
	h := &held{}
	p := NewReplay(
		h, network().stats, measure.Interval{Start: 100e9, End: 101e9},
		measure.Term{Field: "device", Op: measure.Equal, Values: []string{"eth0"}},
	)
	replay(
		t, p, measure.Second, `net.device.bytes by device where direction = "rx"`,
		"process.cpu by pid",
	)
	if len(h.asked) != 2 {
		t.Fatalf("asked %v", h.asked)
	}
	for i, want := range []string{
		`net.device.bytes by device where direction = "rx" and device = "eth0"`,
		"process.cpu by pid",
	} {
		if got := h.asked[i].String(); got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}

// A recording of a replay is the replay itself: its time and step are those of queries that have
// none.
func TestReplayReader(t *testing.T) {
	h := &held{}
	q := measure.Query{Stat: "net.device.bytes", By: []string{"device"}, Step: 2 * measure.Second}
	for name, over := range map[string]measure.Interval{
		"between": {Start: 100e9, End: 104e9}, "to an end": {End: 104e9},
	} {
		r, err := NewReplay(
			h, network().stats, over,
		).Record(t.Context(), []measure.Query{q}, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := r.Ask(
			t.Context(), measure.Query{Stat: "net.device.bytes", By: []string{"device"}},
		)
		if err != nil || a.Start != 100e9 || a.Step != 2*measure.Second || len(a.Elapsed) != 2 ||
			a.Query.Over.End != 104e9 {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if len(a.Notes) > 0 {
			t.Errorf("%s: nothing lacks, and it says %q", name, a.Notes)
		}
		narrow := measure.Query{
			Stat: "net.device.bytes",
			By:   []string{"device"},
			Over: measure.Interval{Start: 101e9, End: 102e9},
			Step: measure.Second,
		}
		if a, err = r.Ask(t.Context(), narrow); err != nil || a.Start != 101e9 ||
			len(a.Elapsed) != 1 {
			t.Errorf("%s, narrower: %+v, %v", name, a, err)
		}
	}
}

func TestReplayReaderCountsGaps(t *testing.T) {
	q := measure.Query{Stat: "net.device.bytes", By: []string{"device"}, Step: measure.Second}
	r, err := NewReplay(
		&held{gaps: []measure.Time{102e9, 103e9}}, network().stats,
		measure.Interval{Start: 100e9, End: 104e9},
	).Record(t.Context(), []measure.Query{q}, 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.Ask(t.Context(), measure.Query{Stat: "net.device.bytes", By: []string{"device"}})
	if want := "of the 4 intervals of 1s to " + localTime(104e9) + " only 2 are recorded"; err != nil ||
		len(a.Notes) != 1 ||
		a.Notes[0] != want {
		t.Errorf("%q, %v, want %q", a.Notes, err, want)
	}
}

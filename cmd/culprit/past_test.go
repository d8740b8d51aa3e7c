package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/all"
	"culprit/dataset"
	"culprit/diagnose/rules"
	"culprit/measure"
	"culprit/store"
	"culprit/view"
	"culprit/view/classic"
)

// The tests of this file compare a tool's table of a past second with its live table of the same
// second. Both come from the same readings of this machine.

// playback is a source that sends recorded batches and then nothing.
type playback struct {
	stats []measure.Stat
	ticks [][]*measure.Batch
}

func (p *playback) Stats() []measure.Stat { return p.stats }

func (p *playback) Run(ctx context.Context, _ []measure.Query, sink measure.Sink) error {
	for _, batches := range p.ticks {
		if err := sink.Accept(batches); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// alignTo moves the ticks to whole seconds after base. The lengths of their intervals stay.
func (p *playback) alignTo(base measure.Time) {
	for i, batches := range p.ticks {
		var first measure.Time
		for _, b := range batches {
			if b.Over.Span() > 0 && (first == 0 || b.Over.End < first) {
				first = b.Over.End
			}
		}
		for _, b := range batches {
			// On a busy machine a reading may take longer than its second.
			delay := min(b.Over.End.Sub(first), measure.Second/2)
			shift := base.Add(measure.Span(i+1)*measure.Second + measure.Millisecond + delay).
				Sub(b.Over.End)
			b.Over.Start, b.Over.End = b.Over.Start.Add(shift), b.Over.End.Add(shift)
		}
	}
}

// readMachine reads this machine n times for the queries, each statistic by all fields that one of
// them has.
func readMachine(t *testing.T, source measure.Source, texts []string, n int) *playback {
	t.Helper()
	p := &playback{stats: source.Stats()}
	c := dataset.New(source)
	byStat := map[measure.StatID]*measure.Query{}
	for _, s := range texts {
		q, err := c.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		all := byStat[q.Stat]
		if all == nil {
			all = &measure.Query{Stat: q.Stat, Step: 200 * measure.Millisecond}
			byStat[q.Stat] = all
		}
		need := slices.Clone(q.By)
		for _, term := range q.Where {
			need = append(need, term.Field)
		}
		for _, f := range need {
			if !slices.Contains(all.By, f) {
				all.By = append(all.By, f)
			}
		}
	}
	var queries []measure.Query
	for _, id := range slices.Sorted(maps.Keys(byStat)) {
		queries = append(queries, *byStat[id])
	}
	// A process that ends between two ticks must not appear in the later one.
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Wait() }() // it was killed
	defer busy.Process.Kill()
	errEnough := errors.New("enough")
	err := source.Run(t.Context(), queries, measure.SinkFunc(func(batches []*measure.Batch) error {
		// After a late tick the next interval is short. The past adds a note to an interval that is
		// much shorter than its second.
		if slices.ContainsFunc(
			batches,
			func(b *measure.Batch) bool {
				return b.Over.Span() > 0 && b.Over.Span() < 150*measure.Millisecond
			},
		) {
			return nil
		}
		var kept []*measure.Batch
		for _, b := range batches {
			c := *b
			c.By, c.Labels, c.Frames, c.Keys = slices.Clone(
				b.By,
			), slices.Clone(
				b.Labels,
			), slices.Clone(
				b.Frames,
			), slices.Clone(
				b.Keys,
			)
			c.Values, c.Dists, c.Loss, c.Notes = slices.Clone(
				b.Values,
			), slices.Clone(
				b.Dists,
			), slices.Clone(
				b.Loss,
			), slices.Clone(
				b.Notes,
			)
			kept = append(kept, &c)
		}
		if len(p.ticks) == 1 {
			if err := busy.Process.Kill(); err != nil {
				return err
			}
		}
		if p.ticks = append(p.ticks, kept); len(p.ticks) == n {
			return errEnough
		}
		return nil
	}))
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	return p
}

// testedOptions returns option sets of a tool: none, and each flag whose values are not names of
// this machine.
func testedOptions(tool *view.Tool) []view.Options {
	all := []view.Options{{}}
	for _, f := range tool.Flags {
		switch {
		case f.Value == "":
			all = append(all, view.Options{f.Name: {""}})
		default:
			for _, v := range f.Values {
				all = append(all, view.Options{f.Name: {v}})
			}
		}
	}
	return all
}

// watchTables returns the tables of the first ticks of m, and their mean.
func watchTables(
	t *testing.T, m measure.Watcher, parse func(string) (measure.Query, error), tool *view.Tool,
	o view.Options,
) (tables []*view.Table, frames view.Mean) {
	t.Helper()
	var queries []measure.Query
	for _, s := range tool.Ask(o) {
		q, err := parse(s)
		if err != nil {
			t.Fatal(err)
		}
		q.Step = measure.Second
		queries = append(queries, q)
	}
	// The live machine would wait for a tick that does not come.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	last := 0
	err := m.Watch(ctx, queries, func(tk *measure.Tick) error {
		f := &view.Frame{Over: tk.Over, Answers: tk.Answers}
		if last++; last == ticks {
			stop()
		}
		tab := tool.Table(o, f)
		tab.Over, tab.Loss, tab.Notes = f.Over, f.Losses(), append(
			tab.Notes,
			f.Notes(nil, math.MaxInt)...)
		// The collectors read one after another, microseconds apart. A live tick has the interval
		// of the last one, a past tick the longest.
		var longest measure.Span
		for _, a := range tk.Answers {
			longest = max(longest, a.Elapsed[0])
		}
		tab.Over.Start = tab.Over.End.Add(-longest)
		tables = append(tables, tab)
		frames.Add(f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tables, frames
}

// differences compares two tables of one interval row by row. The last digits of numbers may
// differ, since sums may be added in another order.
func differences(live, past *view.Table) (out []string) {
	differ := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if live.View != past.View || len(live.Columns) != len(past.Columns) {
		differ(
			"%s of %d columns, %s of %d", live.View, len(live.Columns), past.View,
			len(past.Columns),
		)
		return out
	}
	if live.Over.Span() != past.Over.Span() {
		differ("measured in %v, reported as %v", live.Over.Span(), past.Over.Span())
	}
	if !slices.Equal(sortedTexts(live.Notes), sortedTexts(past.Notes)) {
		differ("notes\n  live %q\n  past %q", live.Notes, past.Notes)
	}
	if !slices.Equal(live.Loss, past.Loss) {
		differ("losses %v and %v", live.Loss, past.Loss)
	}
	index := func(tab *view.Table) map[string]view.Row {
		rows := map[string]view.Row{}
		for _, r := range tab.Rows {
			rows[r.Key+fmt.Sprint(r.Total)] = r
		}
		return rows
	}
	a, b := index(live), index(past)
	if len(live.Rows) != len(past.Rows) || len(a) != len(b) {
		differ("%d rows, then %d", len(live.Rows), len(past.Rows))
	}
	for _, key := range slices.Sorted(maps.Keys(a)) {
		x, y := a[key], b[key]
		if x.Label != y.Label || x.Remark != y.Remark || x.Total != y.Total ||
			len(x.Cells) != len(y.Cells) {
			differ("row %q: %+v\n  then %+v", key, x, y)
			continue
		}
		for i := range x.Cells {
			v, w := x.Cells[i], y.Cells[i]
			if near := math.Abs(v.Num-w.Num) <= 1e-9*math.Abs(v.Num); v.Kind != w.Kind ||
				v.Text != w.Text ||
				!near && (v.Num == v.Num || w.Num == w.Num) {
				differ(
					"row %q, %s%s: %v, then %v", key, live.Columns[i].Name, live.Columns[i].Head, v,
					w,
				)
			}
		}
	}
	return out
}

func sortedTexts(texts []string) []string { return slices.Sorted(slices.Values(texts)) }

// ticks is the number of readings.
const ticks = 3

// TestPastEqualsLive compares all tools live, from a Set, and on the command line from the archive.
func TestPastEqualsLive(t *testing.T) {
	source := readMachine(
		t, collect.New(collect.Env{}, all.Collectors()...), counterQueries(), ticks,
	)
	base := measure.Time(time.Now().Add(-time.Hour).Truncate(time.Second).UnixNano())
	source.alignTo(base)
	live := dataset.New(source)

	dir := t.TempDir()
	archive, err := store.Open(archivePath(dir), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := dataset.NewSet(live, archive, counterQueries())
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range live.Stats() { // traced statistics are not recorded by default
		if !st.Traced {
			continue
		}
		q, err := live.Parse(fullQuery(&st))
		if err != nil {
			t.Fatal(err)
		}
		q.Step = measure.Second
		if _, err := set.Enable("the test", q); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { set.Run(ctx); close(ended) }()
	over := measure.Interval{Start: base, End: base.Add(ticks * measure.Second)}
	if _, err := set.Tick(ctx, over.End-1); err != nil {
		t.Fatal(err)
	}
	stop()
	<-ended
	lines := map[string][]byte{} // by tool: its output with --json
	past := dataset.NewReplay(set, set.Stats(), over)

	for _, tool := range classic.All() {
		rows := 0
		for _, o := range testedOptions(tool) {
			if slices.ContainsFunc(tool.Ask(o), func(q string) bool { return !isCounted(q) }) {
				continue // it shows what BPF programs measure
			}
			name := fmt.Sprintf("%s %v", tool.Name, o)
			now, _ := watchTables(t, live, live.Parse, tool, o)
			then, _ := watchTables(t, past, past.Parse, tool, o)
			if len(now) != ticks || len(then) != ticks {
				t.Fatalf(
					"%s: %d tables live, %d of the past, want %d", name, len(now), len(then), ticks,
				)
			}
			for i := range now {
				rows += len(now[i].Rows)
				for n, d := range differences(now[i], then[i]) {
					if n == 5 {
						t.Errorf("%s: more differences", name)
						break
					}
					t.Errorf("%s, tick %d: %s", name, i, d)
				}
				if len(o) == 0 {
					lines[tool.Name] = append(view.AppendJSON(lines[tool.Name], then[i]), '\n')
				}
				if want := base.Add(measure.Span(i+1) * measure.Second); then[i].Over.End != want {
					t.Errorf("%s: tick %d ends at %v, want %v", name, i, then[i].Over.End, want)
				}
			}
		}
		if rows == 0 {
			t.Errorf("%s has no row: nothing was compared", tool.Name)
		}
	}

	// The value of a longer step is the amount of all its ticks over their time: the average that
	// the live tool prints.
	tool := classic.NIC()
	each, frames := watchTables(t, live, live.Parse, tool, nil)
	mean := frames.Frame()
	wanted := tool.Table(nil, mean)
	whole := watchWholeTable(t, past, tool)
	// A device that appears or disappears meanwhile, as those of other tests do, has another
	// average: its rate while it existed.
	came := func(r view.Row) bool {
		return slices.ContainsFunc(each, func(tab *view.Table) bool {
			return !slices.ContainsFunc(
				tab.Rows, func(o view.Row) bool { return o.Key == r.Key && o.Total == r.Total },
			)
		})
	}
	if slices.ContainsFunc(whole.Rows, came) {
		off := func(r view.Row) bool { return r.Total || came(r) }
		wanted.Rows = slices.DeleteFunc(wanted.Rows, off)
		whole.Rows = slices.DeleteFunc(whole.Rows, off)
	}
	// The mean's interval goes from the first start to the last end, and has each note once.
	wanted.Over, wanted.Notes = whole.Over, whole.Notes
	if d := differences(wanted, whole); len(d) > 0 {
		t.Errorf("the whole time in one step: %s", strings.Join(d, "\n"))
	}

	// The command line prints the same from the archive.
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	from, to := over.Start.AsTime().Format(time.RFC3339), over.End.AsTime().Format(time.RFC3339)
	for _, tool := range classic.All() {
		status, out, errs := call(
			t, tool.Name, "--json", "--dir", dir, "--from", from, "--to", to, "1",
		)
		if status != 0 || !bytes.Equal(out, lines[tool.Name]) {
			t.Errorf(
				"culprit %s --from: status %d, %s\n%s\nwant\n%s", tool.Name, status, errs, out,
				lines[tool.Name],
			)
		}
		if !strings.Contains(string(errs), "no server runs: this was recorded in "+dir) {
			t.Errorf("culprit %s does not print the origin of its numbers: %s", tool.Name, errs)
		}
	}
	if status, out, errs := call(t, "diagnose", "--json", "--dir", dir, "--from", from, "--to", to); status != 0 ||
		!bytes.Contains(out, []byte(`"checked":["`)) {
		t.Errorf("diagnose: status %d, %s%s", status, out, errs)
	}
	if status, _, errs := call(t, "nic", "--dir", dir, "--at", "-1m"); status != 2 ||
		!strings.Contains(
			string(errs), "held is "+over.Start.AsTime().Local().Format(time.DateTime),
		) {
		t.Errorf("a time that is not held: status %d, %s", status, errs)
	}
	if status, _, errs := call(t, "nic", "--dir", t.TempDir(), "--at", "-1m"); status != 1 ||
		!strings.Contains(string(errs), "start `culprit serve`") {
		t.Errorf("an empty directory: status %d, %s", status, errs)
	}
}

// watchWholeTable returns the table of a recording with one step over the whole time.
func watchWholeTable(t *testing.T, m *dataset.Replay, tool *view.Tool) *view.Table {
	t.Helper()
	var queries []measure.Query
	for _, s := range tool.Ask(nil) {
		q, err := m.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		queries = append(queries, q)
	}
	var tables []*view.Table
	err := m.Watch(t.Context(), queries, func(tk *measure.Tick) error {
		f := &view.Frame{Over: tk.Over, Answers: tk.Answers}
		tab := tool.Table(nil, f)
		tab.Over, tab.Loss, tab.Notes = f.Over, f.Losses(), append(
			tab.Notes,
			f.Notes(nil, math.MaxInt)...)
		tables = append(tables, tab)
		return nil
	})
	if err != nil || len(tables) != 1 {
		t.Fatalf("%d tables of the whole time, %v", len(tables), err)
	}
	return tables[0]
}

// TestRecordedByNamespace checks that default datasets have the field netns if the statistic has
// it. Without --netns a tool shows its own namespace, although a server records all.
func TestRecordedByNamespace(t *testing.T) {
	c := catalogue()
	fields := map[measure.StatID][]string{}
	for _, s := range counterQueries() {
		q, err := c.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		fields[q.Stat] = append(fields[q.Stat], q.By...)
	}
	for id, by := range fields {
		if _, i := c.Stat(id).Field("netns"); i >= 0 && !slices.Contains(by, "netns") {
			t.Errorf("%s is recorded without its namespace", id)
		}
	}
}

// counterQueries returns the queries of tools and rules whose statistics collectors have.
func counterQueries() (queries []string) {
	for _, tool := range classic.All() {
		for _, o := range testedOptions(tool) {
			queries = append(queries, tool.Ask(o)...)
		}
	}
	return slices.DeleteFunc(append(queries, rules.Queries()...), func(text string) bool {
		return !isCounted(text)
	})
}

// isCounted reports whether a collector has the statistic of a query; a BPF program may have it
// otherwise.
func isCounted(query string) bool {
	q, err := measure.ParseQuery(query)
	return err != nil || slices.ContainsFunc(
		collect.New(collect.Env{}, all.Collectors()...).Stats(),
		func(st measure.Stat) bool { return st.ID == q.Stat },
	)
}

package dataset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"culprit/measure"
)

// script is a source that replays rows, one list per tick, and ends.
type script struct {
	stats []measure.Stat
	ticks [][]row
	// the tick in which a statistic can't be measured: its interval is empty
	blind map[measure.StatID]int
	asked []measure.Query
}

type row struct {
	stat  measure.StatID
	key   []string
	value float64
}

func (s *script) Stats() []measure.Stat { return s.stats }

func (s *script) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	s.asked = queries
	for n, rows := range s.ticks {
		start := measure.Time(n) * measure.Time(2*measure.Second)
		var batches []*measure.Batch
		for i := range s.stats {
			b := &measure.Batch{
				Stat: s.stats[i].ID,
				Over: measure.Interval{Start: start, End: start.Add(2 * measure.Second)},
			}
			if blind, ok := s.blind[b.Stat]; ok && blind == n {
				b.Over.Start = b.Over.End
			}
			for _, f := range s.stats[i].Fields {
				b.By = append(b.By, f.Name)
			}
			for _, r := range rows {
				if r.stat != b.Stat {
					continue
				}
				for _, k := range r.key {
					b.Keys = append(b.Keys, measure.Label(len(b.Labels)))
					b.Labels = append(b.Labels, k)
				}
				b.Values = append(b.Values, r.value)
			}
			batches = append(batches, b)
		}
		// One dictionary for all rows, as collect's sources have.
		for _, b := range batches {
			index, words := map[string]measure.Label{}, []string(nil)
			for i, k := range b.Keys {
				w := b.Labels[k]
				if _, ok := index[w]; !ok {
					index[w] = measure.Label(len(words))
					words = append(words, w)
				}
				b.Keys[i] = index[w]
			}
			b.Labels = words
		}
		if err := sink.Accept(batches); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func network() *script {
	dev := []measure.Field{
		{Name: "device", Type: measure.Word},
		{Name: "direction", Type: measure.Word},
	}
	return &script{
		stats: []measure.Stat{
			{ID: "net.device.bytes", Kind: measure.Delta, Unit: measure.Bytes, Fields: dev},
			{
				ID:     "net.device.speed",
				Kind:   measure.Level,
				Unit:   measure.BitsPerSec,
				Fold:   measure.Max,
				Fields: dev[:1],
			},
			{
				ID:     "process.cpu",
				Kind:   measure.Delta,
				Unit:   measure.Nanoseconds,
				Sparse: true,
				Fields: []measure.Field{{Name: "pid", Type: measure.Number}},
			},
		},
		ticks: [][]row{
			{
				{"net.device.bytes", []string{"eth0", "rx"}, 2000},
				{"net.device.bytes", []string{"eth0", "tx"}, 400},
				{"net.device.bytes", []string{"lo", "rx"}, math.NaN()},
				{"net.device.speed", []string{"eth0"}, 1e9},
			},
			{
				{"net.device.bytes", []string{"eth0", "rx"}, 4000},
				{"net.device.bytes", []string{"lo", "rx"}, 8},
				{"process.cpu", []string{"7"}, 1e9},
			},
		},
	}
}

func record(t *testing.T, s *script, sentences ...string) (*Catalogue, *Window) {
	t.Helper()
	c := New(s)
	var queries []measure.Query
	for _, text := range sentences {
		q, err := c.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		q.Step = 2 * measure.Second
		queries = append(queries, q)
	}
	w, err := c.Record(context.Background(), queries, len(s.ticks), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

func ask(t *testing.T, c *Catalogue, r measure.Reader, sentence string) *measure.Answer {
	t.Helper()
	q, err := c.Parse(sentence)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.Ask(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Values that could not be measured are unknown, also where a missing row of a sparse statistic
// would otherwise be 0. They don't change the interval of the others.
func TestUnmeasuredTick(t *testing.T) {
	s := network()
	s.ticks = append(s.ticks, []row{{"process.cpu", []string{"7"}, 1e9}})
	c, w := record(t, s, "process.cpu by pid")
	want := show(&measure.Answer{
		Query:  measure.Query{By: []string{"pid"}},
		Labels: []string{"7"},
		Series: []measure.Series{{Key: []measure.Label{0}, Values: []float64{0, 0.5, 0.5}}},
	})
	if got := show(ask(t, c, w, "process.cpu by pid")); got != want {
		t.Errorf("seen in all ticks: %s, want %s", got, want)
	}
	// The unmeasured statistic comes first, so the watcher sees its interval first.
	s.blind = map[measure.StatID]int{"net.device.bytes": 0, "process.cpu": 0}
	c, w = record(
		t, s, "net.device.bytes by device", "net.device.speed by device", "process.cpu by pid",
	)
	a := ask(t, c, w, "process.cpu by pid")
	if v := a.Series[0].Values; !math.IsNaN(v[0]) || v[1] != 0.5 || v[2] != 0.5 ||
		a.Elapsed[0] != 0 ||
		a.Elapsed[1] != 2*measure.Second {
		t.Errorf("blind in the first tick: %v over %v", v, a.Elapsed)
	}
	if over := w.Ticks()[0]; over.Span() != 2*measure.Second {
		t.Errorf("the tick is %v long", over.Span())
	}
}

func show(a *measure.Answer) string {
	var out []string
	for i, s := range a.Series {
		line := ""
		for j := range a.Query.By {
			line += a.Label(i, j) + " "
		}
		for _, v := range s.Values {
			if math.IsNaN(v) {
				line += "- "
			} else {
				line += strconv.FormatFloat(v, 'f', -1, 64) + " "
			}
		}
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "; ")
}

func TestWindowAnswersFromWhatWasRecorded(t *testing.T) {
	s := network()
	c, w := record(
		t, s, "net.device.bytes by device,direction", "net.device.speed by device",
		"process.cpu by pid",
	)
	for sentence, want := range map[string]string{
		`net.device.bytes by device,direction`:                     "eth0 rx 1000 2000; eth0 tx 200 -; lo rx - 4",
		`net.device.bytes by direction,device`:                     "rx eth0 1000 2000; tx eth0 200 -; rx lo - 4",
		`net.device.bytes by device`:                               "eth0 1200 2000; lo - 4",
		`net.device.bytes by device where direction = "tx"`:        "eth0 200 -",
		`net.device.bytes`:                                         "1200 2004",
		`net.device.speed by device`:                               "eth0 1000000000 -",
		`process.cpu by pid`:                                       "7 0 0.5",
		`process.cpu by pid where pid > 7`:                         "",
		`net.device.bytes by device where device in ("lo","eth9")`: "lo - 4",
	} {
		if got := show(ask(t, c, w, sentence)); got != want {
			t.Errorf("%s\n got %s\nwant %s", sentence, got, want)
		}
	}
	a := ask(t, c, w, "process.cpu by pid")
	if a.Unit != measure.Ratio || len(a.Elapsed) != 2 || a.Elapsed[1] != 2*measure.Second ||
		a.Mean(0) != 0.25 {
		t.Errorf("unit %s elapsed %v mean %g", a.Unit, a.Elapsed, a.Mean(0))
	}
	q, _ := c.Parse("process.cpu by pid")
	q.Over = measure.Interval{Start: w.Ticks()[1].Start, End: w.Ticks()[1].End}
	a, err := w.Ask(context.Background(), q)
	if err != nil || show(a) != "7 0.5" {
		t.Errorf("second tick: %s, %v", show(a), err)
	}
}

// An outline is the answer without its rows, for rows that are answered as they were recorded.
func TestOutline(t *testing.T) {
	s := network()
	s.blind = map[measure.StatID]int{"net.device.speed": 0}
	s.ticks = append(s.ticks, []row{{"net.device.bytes", []string{"br0", "rx"}, math.NaN()}})
	_, w := record(
		t, s, "net.device.bytes by device,direction", "net.device.speed by device",
		"process.cpu by pid",
	)
	second := measure.Interval{Start: w.Ticks()[1].Start, End: w.Ticks()[1].End}
	for _, x := range []struct {
		sentence string
		over     measure.Interval
		rows     int
		numbers  bool
		ok       bool
	}{
		{"net.device.bytes by device,direction", measure.Interval{}, 4, true, true},
		{"net.device.speed by device", measure.Interval{}, 1, false, true},
		{"net.device.speed by device", second, 1, false, true},
		{"process.cpu by pid", second, 1, true, true},
		{"net.device.bytes by device", measure.Interval{}, 0, false, false},
		{`net.device.bytes by device,direction where device = "lo"`, measure.Interval{}, 0, false, false},
		{"sched.none", measure.Interval{}, 0, false, false},
	} {
		q, err := measure.ParseQuery(x.sentence)
		if err != nil {
			t.Fatal(err)
		}
		q.Over = x.over
		o, rows, numbers, ok := w.Outline(context.Background(), q)
		if ok != x.ok || ok && (numbers != x.numbers || o.Series != nil) {
			t.Errorf(
				"%s: %d rows, numbers %v, outline %v, series %v", x.sentence, rows, numbers, ok, o,
			)
		}
		if !ok {
			continue
		}
		a, err := w.Ask(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Series) != rows || rows != x.rows {
			t.Errorf(
				"%s: %d rows in outline, %d in the answer, want %d", x.sentence, rows,
				len(a.Series), x.rows,
			)
		}
		if a.Series = nil; fmt.Sprint(*a) != fmt.Sprint(*o) {
			t.Errorf("%s: outline %v, answer %v", x.sentence, *o, *a)
		}
	}
}

func TestQueriesShareOneSourceQuery(t *testing.T) {
	s := network()
	record(t, s, "net.device.bytes by device", `net.device.bytes where direction = "rx"`)
	if len(s.asked) != 1 || s.asked[0].String() != "net.device.bytes by device,direction" {
		t.Errorf("asked %v", s.asked)
	}
}

func TestUnrecordedQueries(t *testing.T) {
	c, w := record(t, network(), "net.device.bytes by device")
	for _, sentence := range []string{"net.device.speed", "net.device.bytes by direction"} {
		q, _ := c.Parse(sentence)
		if _, err := w.Ask(context.Background(), q); !errors.Is(err, measure.ErrUnclear) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}

func TestUnknownNamesHavePositionAndHint(t *testing.T) {
	c := New(network())
	for sentence, want := range map[string]string{
		"net.device.byte by device":                 "column 1: there is no statistic net.device.byte (did you mean net.device.bytes?)",
		"net.device.bytes by devise":                "column 21: net.device.bytes has no field devise (did you mean device?)",
		"net.device.bytes by device where size = 3": "column 34: net.device.bytes has no field size (it has device, direction)",
		"net.device.bytes where device > 3":         "column 24: device is a word and can't be compared with >",
		"process.cpu by pid where pid = nginx":      "column 32: pid is a number",
		// An error in a term is marked in the term, also when the breakdown or a value has the same
		// word.
		"net.device.bytes by device where device > 3":                                "column 34: device is a word and can't be compared with >",
		`net.device.bytes by direction where device = "direction" and direction > 3`: "column 62: direction is a word and can't be compared with >",
		`net.device.bytes where device in ("a\tb", "size", "where") and size = 3`:    "column 64: net.device.bytes has no field size",
		"process.cpu by pid where pid > 3 and pid = pid":                             "column 44: pid is a number",
		"quantum.flux": "column 1: there is no statistic quantum.flux (`culprit stat --list` shows all)",
	} {
		_, err := c.Parse(sentence)
		var d *measure.Diagnostic
		if !errors.As(err, &d) || !strings.HasPrefix(d.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", sentence, err, want)
		}
	}
}

// TestWordAt finds the position of a word of a query for a diagnostic.
func TestWordAt(t *testing.T) {
	for _, tt := range []struct {
		text, word string
		want       int
	}{
		{"cpu.time by cpu", "cpu", 12}, {"a by xa, a_b, ab, 0a, a9, az, zA, a", "a", 0},
		{"xa za aa 9a _a .a a", "a", 18}, {"a0 a9 aa az aZ a_ a. a", "a", 21},
		{"xab", "a", 1}, {"x", "a", 0}, {"/a", "a", 1}, {"b:a", "a", 2}, {"`a", "a", 1}, {"{a", "a", 1},
	} {
		if got := wordAt(tt.text, tt.word); got != tt.want {
			t.Errorf("%q is at %d of %q, want %d", tt.word, got, tt.text, tt.want)
		}
	}
}

// TestWatchedTicksStay checks that a tick of Watch is not overwritten by the next one.
func TestWatchedTicksStay(t *testing.T) {
	c := New(network())
	q, err := c.Parse("net.device.bytes by device")
	if err != nil {
		t.Fatal(err)
	}
	q.Step = 2 * measure.Second
	var all []*measure.Tick
	var texts []string
	text := func(k *measure.Tick) string {
		a := k.Answers[0]
		var b strings.Builder
		fmt.Fprint(&b, k.Over)
		for i := range a.Series {
			fmt.Fprint(&b, " ", a.LabelOf(i, "device"), a.Series[i].Values)
		}
		return b.String()
	}
	enough := errors.New("enough")
	err = c.Watch(t.Context(), []measure.Query{q}, func(k *measure.Tick) error {
		if all, texts = append(all, k), append(texts, text(k)); len(all) == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(all) != 2 || texts[0] == texts[1] {
		t.Fatalf("%d ticks, %v: %q", len(all), err, texts)
	}
	for n, k := range all {
		if got := text(k); got != texts[n] {
			t.Errorf("tick %d was %s, is %s", n, texts[n], got)
		}
	}
}

// failing is a source that cannot run.
type failing struct{ *script }

func (failing) Run(context.Context, []measure.Query, measure.Sink) error {
	return errors.New("the file is gone")
}

// TestRecordFails checks the error of a source that cannot run, and of no query.
func TestRecordFails(t *testing.T) {
	c := New(failing{network()})
	q, err := c.Parse("net.device.bytes by device")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		queries []measure.Query
		want    string
	}{
		"a source": {[]measure.Query{q}, "record: the file is gone"},
		"no query": {nil, "record: no query"},
	} {
		w, err := c.Record(t.Context(), tt.queries, 1, nil)
		if err == nil || err.Error() != tt.want || w == nil || len(w.Ticks()) != 0 {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	err = c.Watch(t.Context(), []measure.Query{q}, func(*measure.Tick) error { return nil })
	if err == nil || err.Error() != "watch: the file is gone" {
		t.Errorf("watch: %v", err)
	}
}

func TestSeveralSourcesMakeOneTick(t *testing.T) {
	a, b := network(), &script{
		stats: []measure.Stat{{ID: "x.y", Kind: measure.Level, Unit: measure.Count}},
		ticks: [][]row{{{"x.y", nil, 1}}, {{"x.y", nil, 2}}},
	}
	c := New(a, b)
	q1, _ := c.Parse("x.y")
	q2, _ := c.Parse("net.device.speed")
	var got []string
	done := errors.New("done")
	err := c.Watch(context.Background(), []measure.Query{q1, q2}, func(tick *measure.Tick) error {
		got = append(got, show(tick.Answers[0])+" / "+show(tick.Answers[1]))
		if len(got) == 2 {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) || strings.Join(got, "|") != "1 / 1000000000|2 / " {
		t.Errorf("%v %v", got, err)
	}
}

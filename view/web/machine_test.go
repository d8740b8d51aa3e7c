package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"culprit/measure"
)

// memory is a machine with its recording in memory, a batch per statistic and second. It is read by
// the rules of the archive: it folds over rows first, then over time, and a rate is the amount over
// the measured time.
type memory struct {
	attended atomic.Int32 // readers of diagnoses
	stats    []measure.Stat

	mu       sync.Mutex
	fresh    chan struct{}
	ticks    []moment
	sets     []measure.Dataset
	changes  []measure.Change
	reports  map[measure.Time][]byte
	asked    int
	refusing error // what Enable says
	asking   chan struct{}
	programs []measure.Script
}

// moment is one second: the rows of each statistic.
type moment struct {
	at      measure.Time
	elapsed measure.Span
	rows    map[measure.StatID][]line
}

type line struct {
	key   []string // as many as the statistic's fields
	value float64
}

const second = measure.Time(1e9)

// start is a time that is a multiple of all steps up to a day.
const start = 20_000 * 86400 * second

func newMemory(t testing.TB) *memory {
	word := func(names ...string) (f []measure.Field) {
		for _, n := range names {
			f = append(f, measure.Field{Name: n, Type: measure.Word, Help: n})
		}
		return f
	}
	m := &memory{
		fresh:   make(chan struct{}),
		reports: map[measure.Time][]byte{},
		stats: []measure.Stat{
			{
				ID:     "cpu.time",
				Kind:   measure.Delta,
				Unit:   measure.Nanoseconds,
				Help:   "time <of> CPUs",
				Fields: word("cpu", "mode"),
			},
			{ID: "memory.free", Kind: measure.Level, Unit: measure.Bytes, Help: "free"},
			{
				ID:     "net.device.bytes",
				Kind:   measure.Delta,
				Unit:   measure.Bytes,
				Help:   "bytes",
				Fields: word("device", "direction"),
			},
			{
				ID:     "net.drops",
				Kind:   measure.Delta,
				Unit:   measure.Packets,
				Sparse: true,
				Help:   "drops",
				Fields: word("device"),
			},
			{
				ID:     "tcp.rtt",
				Kind:   measure.Level,
				Unit:   measure.Nanoseconds,
				Fold:   measure.Mean,
				Help:   "round trip",
				Fields: word("peer"),
			},
		},
	}
	for i, st := range m.stats {
		q := measure.Query{Stat: st.ID, Step: measure.Second}
		for _, f := range st.Fields {
			q.By = append(q.By, f.Name)
		}
		m.sets = append(
			m.sets,
			measure.Dataset{
				ID:      uint32(i + 1),
				Query:   q,
				Stat:    st,
				Created: start,
				State:   measure.Recording,
				Creator: "default",
			},
		)
	}
	return m
}

// add records a second.
func (m *memory) add(at measure.Time, rows map[measure.StatID][]line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ticks = append(m.ticks, moment{at, measure.Second, rows})
	m.signal()
}

func (m *memory) signal() {
	close(m.fresh)
	m.fresh = make(chan struct{})
}

// filled records n seconds of a small machine. eth0 receives 1000 B/s, and 5000 in second 7 of each
// ten; eth1 receives 10 B/s.
func (m *memory) filled(n int) *memory {
	for i := range n {
		rx := 1000.0
		if i%10 == 7 {
			rx = 5000
		}
		rows := map[measure.StatID][]line{
			"cpu.time":    {{[]string{"0", "user"}, 3e8}, {[]string{"0", "idle"}, 7e8}},
			"memory.free": {{nil, float64(1e9 + i)}},
			"net.device.bytes": {
				{[]string{"eth0", "rx"}, rx},
				{[]string{"eth0", "tx"}, 100},
				{[]string{"eth1", "rx"}, 10},
				{[]string{"eth1", "tx"}, measure.NaN},
			},
			"tcp.rtt": {{[]string{"a"}, 1e6}, {[]string{"b"}, 3e6}},
		}
		if i%4 == 0 {
			rows["net.drops"] = []line{{[]string{"eth0"}, 2}}
		}
		m.add(start+measure.Time(i+1)*second, rows)
	}
	return m
}

func (m *memory) Stats() []measure.Stat { return m.stats }

func (m *memory) stat(id measure.StatID) *measure.Stat {
	for i := range m.stats {
		if m.stats[i].ID == id {
			return &m.stats[i]
		}
	}
	return nil
}

func (m *memory) Parse(text string) (measure.Query, error) {
	q, err := measure.ParseQuery(text)
	if err != nil {
		return q, err
	}
	st := m.stat(q.Stat)
	if st == nil {
		return q, &measure.Diagnostic{
			Text:    text,
			Pos:     strings.Index(text, string(q.Stat)),
			Len:     len(q.Stat),
			Code:    "unknown-statistic",
			Message: "there is no statistic " + string(q.Stat),
			Hint:    "did you mean <another>?",
		}
	}
	for _, f := range q.By {
		if _, i := st.Field(f); i < 0 {
			return q, &measure.Diagnostic{
				Text:    text,
				Pos:     strings.Index(text, f),
				Len:     len(f),
				Code:    "unknown-field",
				Message: string(q.Stat) + " has no field " + f,
			}
		}
	}
	return q, nil
}

func (m *memory) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	if m.asking != nil {
		select {
		case <-m.asking:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	st := m.stat(q.Stat)
	if st == nil {
		return nil, &measure.Diagnostic{
			Text:    q.String(),
			Len:     len(q.Stat),
			Code:    "unknown-statistic",
			Message: "there is no statistic " + string(q.Stat),
		}
	}
	switch q.String() {
	case `tcp.rtt where peer = "denied"`:
		return nil, &measure.Denied{Doing: "read it", Needs: "CAP_NET_ADMIN"}
	case `tcp.rtt where peer = "unclear"`:
		return nil, fmt.Errorf("ask: it was not recorded: %w", measure.ErrUnclear)
	case `tcp.rtt where peer = "unsupported"`:
		return nil, fmt.Errorf("ask: %w", measure.ErrUnsupported)
	case `tcp.rtt where peer = "large"`:
		return nil, fmt.Errorf("ask: %w", measure.ErrTooLarge)
	case `tcp.rtt where peer = "broken"`:
		return nil, errors.New("the disk broke")
	}
	if slices.Contains(q.By, "unrecorded") {
		return nil, fmt.Errorf("ask: no dataset has all that it needs: %w", measure.ErrUnclear)
	}
	step := q.Step
	if step == 0 {
		step = measure.Second
	}
	cells := int((q.Over.Span() + step - 1) / step)
	a := &measure.Answer{
		Query:   q,
		Kind:    st.Kind,
		Unit:    st.AnswerUnit(),
		Sparse:  st.Sparse,
		Start:   q.Over.Start,
		Step:    step,
		Elapsed: make([]measure.Span, cells),
		Loss:    []measure.Loss{},
		Notes:   nil,
	}
	labels := map[string]measure.Label{}
	index := map[string]int{}
	type sums struct {
		sum, n, least, most []float64
		dists               []measure.Dist
	}
	var all []sums
	several := false
	for _, t := range m.ticks {
		if t.at <= q.Over.Start || t.at > q.Over.End {
			continue
		}
		c := int(t.at.Sub(q.Over.Start)-1) / int(step)
		several = several || a.Elapsed[c] > 0
		a.Elapsed[c] += t.elapsed
		folded := map[string][]float64{} // key -> values of the rows of this tick
		for _, row := range t.rows[q.Stat] {
			wanted := true
			for _, term := range q.Where {
				_, i := st.Field(term.Field)
				wanted = wanted && term.Match(row.key[i])
			}
			if !wanted {
				continue
			}
			var key []string
			for _, by := range q.By {
				_, i := st.Field(by)
				key = append(key, row.key[i])
			}
			k := strings.Join(key, "\x00")
			if _, ok := index[k]; !ok {
				index[k] = len(a.Series)
				s := measure.Series{}
				for _, w := range key {
					if _, ok := labels[w]; !ok {
						labels[w] = measure.Label(len(a.Labels))
						a.Labels = append(a.Labels, w)
					}
					s.Key = append(s.Key, labels[w])
				}
				a.Series = append(a.Series, s)
				nan := func() []float64 { return slices.Repeat([]float64{measure.NaN}, cells) }
				all = append(
					all, sums{
						make([]float64, cells), make([]float64, cells), nan(), nan(),
						make([]measure.Dist, cells),
					},
				)
			}
			folded[k] = append(folded[k], row.value)
			if st.Kind == measure.Dists { // value events, at what the last label says
				d := &all[index[k]].dists[c]
				d.Base = 2
				at, _ := strconv.ParseUint(row.key[len(row.key)-1], 10, 64)
				d.Add(at, uint64(row.value))
			}
		}
		for k, values := range folded {
			s := all[index[k]]
			v, n := 0.0, 0.0
			for _, x := range values {
				if x == x {
					v, n = v+x, n+1
				}
			}
			if n == 0 {
				continue
			}
			if st.Fold == measure.Mean {
				v /= n
			}
			s.sum[c], s.n[c] = s.sum[c]+v, s.n[c]+1
			if st.Kind == measure.Delta {
				v = st.Unit.Rate(v, t.elapsed)
			}
			if !(s.least[c] <= v) {
				s.least[c] = v
			}
			if !(s.most[c] >= v) {
				s.most[c] = v
			}
		}
	}
	for i, s := range all {
		values := make([]float64, cells)
		for c := range values {
			switch {
			case s.n[c] == 0 && st.Sparse && a.Elapsed[c] > 0:
			case s.n[c] == 0:
				values[c] = measure.NaN
			case st.Kind == measure.Delta:
				values[c] = st.Unit.Rate(s.sum[c], a.Elapsed[c])
			default:
				values[c] = s.sum[c] / s.n[c]
			}
		}
		a.Series[i].Values = values
		if st.Kind == measure.Dists {
			a.Series[i].SetDists(s.dists)
			continue
		}
		if several {
			a.Series[i].SetRange(s.least, s.most)
		}
	}
	return a, nil
}

func (m *memory) Tick(ctx context.Context, after measure.Time) (measure.Time, error) {
	for {
		m.mu.Lock()
		fresh, n := m.fresh, len(m.ticks)
		var at measure.Time
		if n > 0 {
			at = m.ticks[n-1].at
		}
		m.mu.Unlock()
		if at > after {
			return at, nil
		}
		select {
		case <-fresh:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (m *memory) Health() measure.Health {
	return measure.Health{
		Started:   start,
		CPU:       0.01,
		Memory:    50 << 20,
		Disk:      1 << 20,
		DiskLimit: 2 << 30,
		Late:      1,
		Problems:  []measure.Problem{{Key: "disk", Text: "the disk is full"}},
	}
}

func (m *memory) Datasets() []measure.Dataset {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sets)
}

func (m *memory) Held(id uint32) measure.Stored {
	return measure.Stored{
		Over:    measure.Interval{Start: start, End: start + 60*second},
		Disk:    1000,
		Memory:  10,
		Samples: 5,
		Rows:    2,
		Loss:    []measure.Loss{{Reason: "damaged", Events: 3}},
	}
}

func (m *memory) Usage(
	id uint32,
) measure.Usage {
	return measure.Usage{CPU: measure.NaN, Samples: 4}
}

func (m *memory) Enable(who string, q measure.Query) (uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refusing != nil {
		return 0, m.refusing
	}
	id := m.sets[len(m.sets)-1].ID + 1
	m.sets = append(
		m.sets,
		measure.Dataset{
			ID:      id,
			Query:   q,
			Stat:    *m.stat(q.Stat),
			Created: start,
			State:   measure.Recording,
			Creator: who,
		},
	)
	m.changes = append(
		m.changes,
		measure.Change{At: start, Actor: who, Action: "made", Dataset: id, Query: q.String()},
	)
	return id, nil
}

func (m *memory) set(who, what string, id uint32, over measure.Interval, change func(i int)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.sets, func(d measure.Dataset) bool { return d.ID == id })
	if i < 0 {
		return errors.New("no such dataset")
	}
	m.changes = append(
		m.changes,
		measure.Change{
			At:      start,
			Actor:   who,
			Action:  what,
			Dataset: id,
			Query:   m.sets[i].Query.String(),
			Over:    over,
		},
	)
	change(i)
	return nil
}

func (m *memory) Suspend(who string, id uint32) error {
	return m.set(
		who, "suspended", id, measure.Interval{},
		func(i int) { m.sets[i].State = measure.Suspended },
	)
}

func (m *memory) Resume(who string, id uint32) error {
	return m.set(
		who, "resumed", id, measure.Interval{}, func(i int) { m.sets[i].State = measure.Recording },
	)
}

func (m *memory) Destroy(who string, id uint32) error {
	return m.set(
		who, "destroyed", id, measure.Interval{},
		func(i int) { m.sets = slices.Delete(m.sets, i, i+1) },
	)
}

func (m *memory) Discard(who string, id uint32, over measure.Interval) error {
	return m.set(who, "discarded", id, over, func(int) {})
}

func (m *memory) Changes(_ context.Context, over measure.Interval) ([]measure.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.changes), nil
}

func (m *memory) Attend() func() {
	m.attended.Add(1)
	return func() { m.attended.Add(-1) }
}

func (m *memory) Report(ctx context.Context, after measure.Time) (measure.Time, []byte, error) {
	for {
		m.mu.Lock()
		fresh := m.fresh
		var at measure.Time
		for t := range m.reports {
			at = max(at, t)
		}
		doc := m.reports[at]
		m.mu.Unlock()
		if at > after {
			return at, doc, nil
		}
		select {
		case <-fresh:
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
}

func (m *memory) report(at measure.Time, doc string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reports[at] = []byte(doc)
	m.signal()
}

func (m *memory) Reports(
	_ context.Context, over measure.Interval, each func(measure.Time, []byte) error,
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []measure.Time
	for t := range m.reports {
		if t > over.Start && t <= over.End {
			all = append(all, t)
		}
	}
	slices.Sort(all)
	for _, t := range all {
		if err := each(t, m.reports[t]); err != nil {
			return err
		}
	}
	return nil
}

// scripted holds the scripts of a memory.
type scripted struct{ *memory }

func (m scripted) Scripts() []measure.Script {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.programs)
}

func (m scripted) Add(by measure.Asker, s measure.Script, record bool) (uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := strings.Index(s.Text, "wrong"); i >= 0 {
		return 0, errors.Join(
			&measure.Diagnostic{
				Text:    s.Text,
				Pos:     i,
				Len:     5,
				Code:    "unknown",
				Message: "nothing is known by the name wrong",
				Hint:    "right",
			},
			&measure.Diagnostic{
				Text:    s.Text,
				Pos:     i + 6,
				Len:     1,
				Code:    "syntax",
				Message: "and this",
			},
		)
	}
	if m.refusing != nil {
		return 0, m.refusing
	}
	s.ID, s.Creator, s.State, s.Created, s.CPU, s.Output = uint32(
		len(m.programs)+1,
	), by.Name, measure.ScriptRunning, start, measure.NaN, "said\n"
	s.Loss, s.Notes, s.Stats = []measure.Loss{
		{Reason: "full", Events: 2},
	}, []string{
		"a note",
	}, m.stats[:1]
	s.Role = by.Role
	m.programs = append(m.programs, s)
	return s.ID, nil
}

func (m scripted) turn(id uint32, state measure.ScriptState) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.programs {
		if m.programs[i].ID == id {
			m.programs[i].State = state
		}
	}
	return nil
}

func (m scripted) Start(_ measure.Asker, id uint32) error {
	return m.turn(id, measure.ScriptRunning)
}

func (m scripted) Stop(_ measure.Asker, id uint32) error {
	return m.turn(id, measure.ScriptStopped)
}

func (m scripted) Remove(_ measure.Asker, id uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.programs = slices.DeleteFunc(m.programs, func(s measure.Script) bool { return s.ID == id })
	return nil
}

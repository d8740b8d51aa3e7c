package remote

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"culprit/measure"
)

// machine makes random ticks of a source, as real sources make them: append-only words and frames,
// which are sometimes replaced, shapes that last, rows that come and go.
type machine struct {
	*rand.Rand
	words  []string
	frames []measure.Frame
	keys   map[int][]measure.Label
	shapes map[int]measure.Shape
	now    measure.Time
}

func newMachine(seed uint64) *machine {
	return &machine{
		Rand:   rand.New(rand.NewPCG(seed, 1)),
		words:  []string{""},
		frames: []measure.Frame{{Parent: -1}},
		keys:   map[int][]measure.Label{},
		shapes: map[int]measure.Shape{},
		now:    1e18,
	}
}

// machineStats are the statistics of a machine: values by two words, distributions by one, stacks.
func machineStats() []measure.Stat {
	f := func(name string, of measure.Type) measure.Field {
		return measure.Field{Name: name, Type: of}
	}
	return []measure.Stat{
		{
			ID:     "a.a.values",
			Kind:   measure.Delta,
			Fields: []measure.Field{f("x", measure.Word), f("y", measure.Number)},
		},
		{ID: "a.a.dists", Kind: measure.Dists, Fields: []measure.Field{f("x", measure.Word)}},
		{
			ID:     "a.a.stacks",
			Kind:   measure.Delta,
			Fields: []measure.Field{f("x", measure.Word), f("s", measure.Stack)},
		},
		{ID: "a.a.single", Kind: measure.Level},
	}
}

func (m *machine) tick() []*measure.Batch {
	m.now = m.now.Add(measure.Second)
	switch m.IntN(20) {
	case 0:
		m.words, m.keys, m.shapes = []string{
			"new",
		}, map[int][]measure.Label{}, map[int]measure.Shape{}
	case 1:
		m.frames = []measure.Frame{{Symbol: "root", Parent: -1}}
	}
	var all []*measure.Batch
	for i, st := range machineStats() {
		if m.IntN(8) == 0 {
			continue
		}
		b := &measure.Batch{
			Stat: st.ID,
			Over: measure.Interval{Start: m.now.Add(-measure.Second), End: m.now},
		}
		for range m.IntN(3) {
			m.words = append(m.words, fmt.Sprint("word", len(m.words), m.Uint32()))
		}
		for _, f := range st.Fields {
			b.By = append(b.By, f.Name)
		}
		if m.IntN(10) == 0 && len(b.By) > 0 && st.ID != "a.a.stacks" {
			b.By = b.By[1:]
		}
		b.Labels = m.words
		if st.ID == "a.a.stacks" {
			for range m.IntN(5) {
				m.frames = append(m.frames, measure.Frame{
					Symbol: fmt.Sprint("f", m.Uint32()), Module: "m", Offset: m.Uint64(),
					Parent: int32(m.IntN(len(m.frames))),
				})
			}
			b.Frames = m.frames
		}
		rows := m.IntN(6)
		if len(b.By) == 0 {
			rows = 1
		}
		if old := m.keys[i]; m.IntN(2) == 0 && len(b.By) > 0 && old != nil &&
			len(old)%len(b.By) == 0 &&
			len(b.Frames) == 0 {
			b.Keys, b.Shape, rows = old, m.shapes[i], len(old)/len(b.By)
		} else {
			for range rows {
				for _, name := range b.By {
					n := len(b.Labels)
					if name == "s" {
						n = len(b.Frames)
					}
					b.Keys = append(b.Keys, measure.Label(m.IntN(n)))
				}
			}
			if m.IntN(3) > 0 {
				b.Shape = measure.NewShape()
			}
			m.keys[i], m.shapes[i] = b.Keys, b.Shape
		}
		for range rows {
			if st.Kind == measure.Dists {
				d := measure.Dist{Base: uint8(m.IntN(7))}
				for range m.IntN(4) {
					d.Add(m.Uint64()>>m.IntN(64), 1+m.Uint64()%5)
				}
				b.Dists = append(b.Dists, d)
				continue
			}
			b.Values = append(
				b.Values, []float64{0, 1.5, measure.NaN, -3, math.MaxFloat64}[m.IntN(5)],
			)
		}
		if m.IntN(4) == 0 {
			b.Loss = []measure.Loss{{Reason: "full", Events: m.Uint64()}}
			b.Notes = []string{"a note", ""}
		}
		if m.IntN(5) == 0 {
			b.Over.Start = b.Over.End
		}
		all = append(all, b)
	}
	return all
}

// statOf returns the statistic of a batch of a machine.
func statOf(b *measure.Batch) *measure.Stat {
	all := machineStats()
	i := slices.IndexFunc(all, func(st measure.Stat) bool { return st.ID == b.Stat })
	return &all[i]
}

// plain returns what a reader sees of a batch.
func plain(b *measure.Batch) string {
	var rows []string
	st := statOf(b)
	stacks := st.Stacks(b.By)
	for i := range b.Rows() {
		row := ""
		for j, k := range b.Key(i) {
			if stacks != nil && stacks[j] {
				row += measure.FoldedStack(b.Frames, k) + fmt.Sprint(b.Frames[k]) + ","
			} else {
				row += b.Labels[k] + ","
			}
		}
		if len(b.Dists) > 0 {
			row += fmt.Sprintf("%v", b.Dists[i])
		} else {
			row += fmt.Sprint(b.Values[i])
		}
		rows = append(rows, row)
	}
	return fmt.Sprint(b.Stat, b.By, b.Over, rows, b.Loss, b.Notes, len(b.Labels), len(b.Frames))
}

// What the other end reads is what the source reported; equal shapes mean equal keys.
func TestTicks(t *testing.T) {
	for seed := range uint64(50) {
		m := newMachine(seed)
		log, enc := newBacklog(machineStats()), newEncoder(machineStats())
		dec := &tickDecoder{stats: machineStats()}
		shapes := map[measure.Shape]string{}
		kept := map[*string][]string{} // words that a sink has kept
		copies := map[*string][]string{}
		reuses := 0
		for n := range 60 {
			all := m.tick()
			k := log.add(all, nil)
			if m.IntN(10) == 0 { // another connection
				enc, dec = newEncoder(machineStats()), &tickDecoder{stats: machineStats()}
			}
			payload := enc.append(nil, 7, k)
			if n > 3 {
				log.ack(uint64(n - 3))
			}
			d := newDecoder(payload)
			if d.ID() != 7 {
				t.Fatal("the ID")
			}
			got, err := dec.decode(d)
			if err != nil {
				t.Fatalf("seed %d, tick %d: %v", seed, n, err)
			}
			if len(got.batches) != len(all) || got.number != uint64(n+1) {
				t.Fatalf("seed %d, tick %d: %d batches of %d", seed, n, len(got.batches), len(all))
			}
			for i, b := range got.batches {
				if is, want := plain(b), plain(all[i]); is != want {
					t.Fatalf("seed %d, tick %d:\n%s\nwant\n%s", seed, n, is, want)
				}
				if (b.Shape == 0) != (all[i].Shape == 0) {
					t.Fatalf("seed %d, tick %d: shape %d", seed, n, b.Shape)
				}
				keys := fmt.Sprint(b.Stat, b.By, b.Keys, b.Labels[:min(1, len(b.Labels))])
				if was, ok := shapes[b.Shape]; ok && b.Shape != 0 {
					reuses++
					if was != keys {
						t.Fatalf(
							"seed %d, tick %d: shape %d is %s and %s", seed, n, b.Shape, was, keys,
						)
					}
				}
				shapes[b.Shape] = keys
				if len(b.Labels) > 0 {
					at := &b.Labels[len(b.Labels)-1]
					kept[at], copies[at] = b.Labels, slices.Clone(b.Labels)
				}
			}
		}
		if !reflect.DeepEqual(kept, copies) {
			t.Fatalf("seed %d: words changed that a sink has kept", seed)
		}
		if reuses == 0 {
			t.Errorf("seed %d: no shape lasts", seed)
		}
	}
}

// What the protocol cannot carry is left out, and does not end the connection.
func TestWrongBatches(t *testing.T) {
	good := &measure.Batch{Stat: "a.a.single", Values: []float64{1}}
	tests := []struct {
		name string
		b    *measure.Batch
	}{
		{"unknown statistic", &measure.Batch{Stat: "no.such.thing", Values: []float64{1}}},
		{"unknown field", &measure.Batch{Stat: "a.a.dists", By: []string{"y"}}},
		{
			"keys missing",
			&measure.Batch{Stat: "a.a.dists", By: []string{"x"}, Values: []float64{1}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newBacklog(machineStats()).add([]*measure.Batch{tt.b, good}, nil)
			d := newDecoder(newEncoder(machineStats()).append(nil, 0, k))
			d.ID()
			got, err := (&tickDecoder{stats: machineStats()}).decode(d)
			if err != nil || len(got.batches) != 1 || got.batches[0].Stat != good.Stat {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func BenchmarkTick(b *testing.B) {
	st := machineStats()
	batch := &measure.Batch{Stat: st[0].ID, By: []string{"x", "y"}, Shape: measure.NewShape(),
		Over: measure.Interval{Start: 1, End: 2}}
	for i := range 5000 {
		batch.Labels = append(batch.Labels, fmt.Sprint("word ", i))
		batch.Keys = append(batch.Keys, measure.Label(i), measure.Label(i))
		batch.Values = append(batch.Values, float64(i))
	}
	log, enc, dec := newBacklog(st), newEncoder(st), &tickDecoder{stats: st}
	var payload []byte
	b.ReportAllocs()
	for b.Loop() {
		k := log.add([]*measure.Batch{batch}, nil)
		payload = enc.append(payload[:0], 1, k)
		if k.number > 4 {
			log.ack(k.number - 4)
		}
		d := newDecoder(payload)
		d.ID()
		if _, err := dec.decode(d); err != nil {
			b.Fatal(err)
		}
	}
}

package remote

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"culprit/dataset"
	"culprit/measure"
)

// heapBound fails the test when f leaves more of the heap allocated than a few times its input.
func heapBound(t *testing.T, input int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	// TotalAlloc counts garbage too: a decoder that allocates and drops is no better.
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(64*input)+8<<20 {
		t.Errorf("%d bytes of input allocate %d", input, n)
	}
}

// idle is a source that measures nothing.
type idle struct{}

func (idle) Stats() []measure.Stat { return machineStats() }

func (idle) Run(ctx context.Context, _ []measure.Query, _ measure.Sink) error {
	<-ctx.Done()
	return nil
}

// FuzzRecorder: whatever a client sends, the recorder answers or ends the connection.
func FuzzRecorder(f *testing.F) {
	hello := endFrame(appendUint(append(startFrame(nil, kindHello), magic...), version), 0)
	frame := func(k kind, b []byte) []byte { return endFrame(append(startFrame(nil, k), b...), 0) }
	q, err := measure.ParseQuery(`a.a.values by x,y where x ~ "a*" and y in (1, 2)`)
	if err != nil {
		f.Fatal(err)
	}
	q.Step = measure.Second
	run := runRequest{id: 1, role: RoleRecord, queries: []measure.Query{q}}
	script := scriptRequest{id: 2, role: RoleTrace, name: "x", text: "BEGIN{}"}
	sample := sampleRequest{
		id:       3,
		role:     RoleTrace,
		Sampling: Sampling{Hz: 9, For: 9, CPUs: []int{1}},
	}
	f.Add(slices.Concat(hello, frame(kindRun, run.append(nil)), frame(kindAck, []byte{1, 1})))
	f.Add(slices.Concat(hello, frame(kindScript, script.append(nil)), frame(kindStop, []byte{2})))
	f.Add(slices.Concat(hello, frame(kindSample, sample.append(nil)), frame(kindStop, []byte{3})))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewRecorder(Config{
			Sources: []measure.Source{idle{}},
			StartScript: func(measure.Script) (dataset.Runner, error) {
				return nil, measure.ErrUnsupported
			},
			Sample: func(context.Context, Sampling) (*Sampled, error) { return &Sampled{}, nil },
		})
		heapBound(t, len(b), func() { _ = r.Serve(newStream(b)) }) // any error will do
		r.Close()
	})
}

// FuzzClient: whatever a recorder sends, a client reads it or ends the connection. The first byte
// says which call is waiting.
func FuzzClient(f *testing.F) {
	for seed := range uint64(3) {
		m := newMachine(seed)
		log, enc := newBacklog(machineStats()), newEncoder(machineStats())
		var b []byte
		for range 3 {
			from := len(b)
			b = endFrame(enc.append(startFrame(b, kindTick), 1, log.add(m.tick(), nil)), from)
		}
		from := len(b)
		b = endFrame(appendError(appendUint(startFrame(b, kindEnded), 1), measure.ErrUnclear), from)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		heapBound(t, len(b), func() {
			r := frameReader{r: newStream(b), limit: maxReply}
			ticks, parts := tickDecoder{stats: machineStats()}, sampledDecoder{}
			for {
				k, payload, err := r.next()
				if err != nil {
					return
				}
				d := &decoder{b: payload}
				switch k {
				case kindHello:
					d.hello()
					d.stats()
				case kindTick:
					d.id()
					if got, err := ticks.decode(d); err == nil {
						for _, b := range got.batches {
							read(b)
						}
					}
				case kindSampled:
					d.id()
					_, _ = parts.decode(d) // the error is d's
				case kindEnded:
					d.id()
					_ = d.error() // it may be nil
				case kindStarted:
					d.id()
					d.id()
					d.stats()
				}
				if d.end() != nil {
					return
				}
			}
		})
	})
}

// read reads all of a batch, as a sink does.
func read(b *measure.Batch) {
	stacks := machineStats()[slices.IndexFunc(machineStats(), func(st measure.Stat) bool {
		return st.ID == b.Stat
	})]
	is := stacks.Stacks(b.By)
	for i := range b.Rows() {
		for j, k := range b.Key(i) {
			if is != nil && is[j] {
				_ = b.Frames[k]
			} else {
				_ = b.Labels[k]
			}
		}
		if len(b.Dists) > 0 {
			b.Dists[i].Quantile(0.5)
		} else {
			_ = b.Values[i]
		}
	}
}

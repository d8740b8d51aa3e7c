package remote

import (
	"context"
	"slices"
	"testing"

	"culprit/dataset"
	"culprit/heapbound"
	"culprit/measure"
	"culprit/wire"
)

// frameLimit is how much frames may allocate.
func frameLimit() heapbound.Limit { return heapbound.Limit{Base: 8 << 20, PerByte: 64} }

// idle is a source that measures nothing.
type idle struct{}

func (idle) Stats() []measure.Stat { return machineStats() }

func (idle) Run(ctx context.Context, _ []measure.Query, _ measure.Sink) error {
	<-ctx.Done()
	return nil
}

// FuzzRecorder: whatever a client sends, the recorder answers or ends the connection.
func FuzzRecorder(f *testing.F) {
	hello := endFrame(wire.AppendUint(append(startFrame(nil, kindHello), magic...), version), 0)
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
	words := completeRequest{4, RoleTrace, Completing{Text: "BEGIN", Pos: 3, Match: "x"}}
	f.Add(slices.Concat(hello, frame(kindComplete, words.append(nil))))
	heapbound.FuzzWithin(f, frameLimit(), func(t *testing.T, b []byte) {
		r := NewRecorder(Config{
			Complete: func(Completing) (*Completion, error) { return &Completion{}, nil },
			Sources:  []measure.Source{idle{}},
			StartScript: func(measure.Script) (dataset.Runner, error) {
				return nil, measure.ErrUnsupported
			},
			Sample: func(context.Context, Sampling) (*Sampled, error) { return &Sampled{}, nil },
		})
		_ = r.Serve(newStream(b)) // any error will do
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
		b = wire.AppendUint(startFrame(b, kindEnded), 1)
		b = endFrame(appendError(b, measure.ErrUnclear), from)
		f.Add(b)
	}
	heapbound.FuzzWithin(f, frameLimit(), func(t *testing.T, b []byte) {
		r := frameReader{wire.Reader{From: newStream(b), Limit: maxReply}}
		ticks, parts := tickDecoder{stats: machineStats()}, sampledDecoder{}
		for {
			k, payload, err := r.next()
			if err != nil {
				return
			}
			d := newDecoder(payload)
			switch k {
			case kindHello:
				d.hello()
				d.stats()
			case kindTick:
				d.ID()
				if got, err := ticks.decode(d); err == nil {
					for _, b := range got.batches {
						read(b)
					}
				}
			case kindSampled:
				d.ID()
				_, _ = parts.decode(d) // the error is d's
			case kindCompleted:
				d.ID()
				d.completion()
			case kindEnded:
				d.ID()
				_ = d.error() // it may be nil
			case kindStarted:
				d.ID()
				d.ID()
				d.stats()
			}
			if d.End() != nil {
				return
			}
		}
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

// TestIsProtocolError: only what the peer sent wrong is a protocol error; the end of the connection
// is none.
func TestIsProtocolError(t *testing.T) {
	hello := endFrame(wire.AppendUint(append(startFrame(nil, kindHello), magic...), version), 0)
	other := endFrame(wire.AppendUint(append(startFrame(nil, kindHello), magic...), version+1), 0)
	for _, tt := range []struct {
		name  string
		sent  []byte
		wants bool
	}{
		{"nothing", nil, false},
		{"a hello", hello, false},
		{"half a hello", hello[:len(hello)-1], false},
		{"another version", other, true},
		{"two hellos", slices.Concat(hello, hello), true},
		{"a long frame", []byte{0xff, 0xff, 0xff, 0x7f, 1}, true},
		{"text", []byte("GET / HTTP/1.1\r\n\r\n"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRecorder(Config{Sources: []measure.Source{idle{}}})
			defer r.Close()
			if err := r.Serve(newStream(tt.sent)); IsProtocolError(err) != tt.wants {
				t.Errorf("%v is a protocol error: %v", err, !tt.wants)
			}
		})
	}
}

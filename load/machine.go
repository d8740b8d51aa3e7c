package load

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/measure"
)

// Machine is what the room is told of the machine that an end runs on. A nil member: that is not known here.
type Machine struct {
	ID   string // of this start of this machine: two ends that have the same share their CPUs
	Host string // its name

	// Watch tells of statistics as time passes.
	Watch measure.Watcher
	// Device gives the name of the interface through which packets from one address to the other leave.
	Device func(local, peer netip.Addr) (string, error)
	// Diagnose looks at the machine until the context ends, in so long if nothing comes between, and then gives what `culprit diagnose --json` prints of that time.
	Diagnose func(context.Context, measure.Span) (json.RawMessage, error)
}

// What is asked of the machine while traffic flows.
const (
	askedCPU      = `cpu.time by cpu,mode`
	askedWire     = `net.device.wire by netns,device,direction`
	askedCapacity = `net.device.capacity by netns,device,direction,from`
)

// Sentences gives all that is asked of a Machine's Watch.
func Sentences() []string { return []string{askedCPU, askedWire, askedCapacity} }

// Usage is the CPU time that something took: all numbers are CPUs, mean over the time that was measured. Unknown ones are null.
type Usage struct {
	Machine Number            `json:"machine_cpus"` // busy with anything, also with what others do
	Process Number            `json:"process_cpus"` // this process, what it measures included
	Traffic Number            `json:"traffic_cpus"` // its threads that carry traffic
	Thread  Number            `json:"busiest_thread_cpus"`
	Of      Number            `json:"cpus"` // how many the machine has
	Modes   map[string]Number `json:"modes_cpus,omitempty"`
	Busiest string            `json:"busiest_cpu,omitempty"`
	Share   Number            `json:"busiest_cpu_share"` // of its time that it was busy
}

func noUsage() Usage {
	return Usage{Machine: unknown(), Process: unknown(), Traffic: unknown(), Thread: unknown(), Of: unknown(), Share: unknown()}
}

// Wire is what a device carried in one direction, by the same arithmetic as the diagnosis: headers of each segment, preamble, gap and checksum.
type Wire struct {
	Direction string `json:"direction"` // rx, tx
	Rate      Number `json:"bits_per_s"`
	Capacity  Number `json:"capacity_bits_per_s"`
	From      string `json:"capacity_from,omitempty"` // how the capacity is known
	Share     Number `json:"share"`                   // rate by capacity
}

// seen is one tick.
type seen struct {
	span  measure.Span
	modes map[string]float64 // CPUs
	busy  map[string]float64 // of each CPU, the share of its time
	wire  map[string]float64 // of the device, by direction: B/s
	limit map[string]limitSeen
}

type limitSeen struct {
	bits float64
	from string
}

// A watching follows the machine through one run.
type watching struct {
	mu    sync.Mutex
	ticks []seen
	more  chan struct{} // closed at the next tick
	why   string        // why there are none
	notes []string
	stop  context.CancelFunc
	done  chan struct{}
}

// watch begins to follow the machine. device is the interface whose wire is told; "" none.
func (m *Machine) watch(ctx context.Context, device string, step measure.Span) *watching {
	w := &watching{more: make(chan struct{}), done: make(chan struct{})}
	ctx, w.stop = context.WithCancel(ctx)
	if m.Watch == nil {
		w.why = "nothing tells of this machine"
		close(w.done)
		return w
	}
	var queries []measure.Query
	sentences := Sentences()
	if device == "" {
		sentences = sentences[:1]
	}
	for _, s := range sentences {
		q, err := measure.ParseQuery(s)
		if err != nil {
			panic(err) // they are this file's
		}
		q.Step = step
		queries = append(queries, q)
	}
	go func() {
		defer close(w.done)
		err := m.Watch.Watch(ctx, queries, func(t *measure.Tick) error {
			w.add(t, device)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			w.mu.Lock()
			w.why = printable(err.Error())
			w.mu.Unlock()
		}
	}()
	return w
}

// mostNotes bounds what is kept of what statistics say about themselves.
const mostNotes = 8

func (w *watching) add(t *measure.Tick, device string) {
	s := seen{span: t.Over.Span(), modes: map[string]float64{}, busy: map[string]float64{}, wire: map[string]float64{}, limit: map[string]limitSeen{}}
	for n, a := range t.Answers {
		for i := range a.Series {
			v := a.Last(i)
			if v != v {
				continue
			}
			switch {
			case n == 0:
				cpu, mode := a.LabelOf(i, "cpu"), a.LabelOf(i, "mode")
				s.modes[mode] += v
				if mode != "idle" && mode != "iowait" {
					s.busy[cpu] += v
				} else {
					s.busy[cpu] += 0
				}
			case a.LabelOf(i, "netns") != "" || a.LabelOf(i, "device") != device:
			case n == 1:
				s.wire[a.LabelOf(i, "direction")] += v
			default:
				d := a.LabelOf(i, "direction")
				if l, ok := s.limit[d]; v > 0 && (!ok || v < l.bits) {
					s.limit[d] = limitSeen{v, a.LabelOf(i, "from")}
				}
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range t.Answers {
		for _, note := range a.Notes {
			if note = printable(note); len(w.notes) < mostNotes && !slices.Contains(w.notes, note) {
				w.notes = append(w.notes, note)
			}
		}
	}
	w.ticks = append(w.ticks, s)
	close(w.more)
	w.more = make(chan struct{})
}

// upTo waits for tick n, from 1, at most so long, and gives what was seen in the ticks behind from up to it; nil when it did not come.
func (w *watching) upTo(ctx context.Context, from, n int, most time.Duration) []seen {
	late := time.NewTimer(most)
	defer late.Stop()
	for {
		w.mu.Lock()
		got, more := w.ticks, w.more
		w.mu.Unlock()
		if len(got) >= n {
			return got[from:n]
		}
		select {
		case <-more:
		case <-w.done:
			return nil
		case <-late.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// end stops it and gives all that was seen.
func (w *watching) end() ([]seen, []string, string) {
	w.stop()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	why := w.why
	if len(w.ticks) == 0 && why == "" {
		why = "it ended before a first interval was over"
	}
	return w.ticks, w.notes, why
}

// usage gives the machine's part of a Usage.
func usage(ticks []seen) Usage {
	u := noUsage()
	total, cpus := 0.0, map[string]float64{}
	modes := map[string]float64{}
	for _, s := range ticks {
		d := float64(s.span)
		if d <= 0 || len(s.busy) == 0 {
			continue
		}
		total += d
		for mode, v := range s.modes {
			modes[mode] += v * d
		}
		for cpu, v := range s.busy {
			cpus[cpu] += v * d
		}
	}
	if total == 0 {
		return u
	}
	u.Modes, u.Machine, u.Of, u.Share = map[string]Number{}, 0, Number(len(cpus)), -1
	for mode, v := range modes {
		u.Modes[mode] = Number(v / total)
		if mode != "idle" && mode != "iowait" && mode != "steal" { // what a hypervisor takes nobody here has used
			u.Machine += Number(v / total)
		}
	}
	u.Machine = min(u.Machine, u.Of) // ticks are counted coarser than the time that they are counted in
	for cpu, v := range cpus {
		if share := Number(min(v/total, 1)); share > u.Share || share == u.Share && cpu < u.Busiest {
			u.Busiest, u.Share = cpu, share
		}
	}
	return u
}

// wires gives what the device carried. The first tick of several is left out: traffic began somewhere in it.
func wires(ticks []seen) []Wire {
	if len(ticks) > 2 {
		ticks = ticks[1:]
	}
	var out []Wire
	for _, direction := range []string{"tx", "rx"} {
		w := Wire{Direction: direction, Rate: unknown(), Capacity: unknown(), Share: unknown()}
		sum, total := 0.0, 0.0
		for _, s := range ticks {
			if v, ok := s.wire[direction]; ok && s.span > 0 {
				sum += v * float64(s.span)
				total += float64(s.span)
			}
			if l, ok := s.limit[direction]; ok {
				w.Capacity, w.From = Number(l.bits), printable(l.from)
			}
		}
		if total > 0 {
			w.Rate = Number(sum / total * 8)
			w.Share = w.Rate / w.Capacity // NaN while one is
		}
		out = append(out, w)
	}
	return out
}

// printable makes a text of others fit for a line: no control characters, no blanks around it, not too long.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\uFFFD' {
			return ' '
		}
		return r
	}, s)
	if s = strings.Join(strings.Fields(s), " "); len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + " ..."
	}
	return s
}

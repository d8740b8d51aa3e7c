package load

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"culprit/measure"
)

// Machine provides facts about the machine of an end. A nil function: unknown here.
type Machine struct {
	ID   string // of this boot: two ends with the same ID share their CPUs
	Host string // host name

	// Watch returns statistics tick by tick.
	Watch measure.Watcher
	// Device returns the name of the interface through which packets from local to peer leave.
	Device func(local, peer netip.Addr) (string, error)
	// Diagnose diagnoses the machine for the given time, or until the context ends, and returns the
	// output of `culprit diagnose --json`.
	Diagnose func(context.Context, measure.Span) (json.RawMessage, error)
}

// The queries during traffic.
const (
	askedCPU      = `cpu.time by cpu,mode`
	askedWire     = `net.device.wire by netns,device,direction`
	askedCapacity = `net.device.capacity by netns,device,direction,from`
)

// Queries returns all queries for a Machine's Watch.
func Queries() []string { return []string{askedCPU, askedWire, askedCapacity} }

// Usage is CPU time in CPUs, means over the measured time. Unknown numbers are null.
type Usage struct {
	Machine Number            `json:"machine_cpus"` // busy, including other programs
	Process Number            `json:"process_cpus"` // of this process, including its measurements
	Traffic Number            `json:"traffic_cpus"` // of its threads with traffic
	Thread  Number            `json:"busiest_thread_cpus"`
	Of      Number            `json:"cpus"` // number of CPUs of the machine
	Modes   map[string]Number `json:"modes_cpus,omitempty"`
	Busiest string            `json:"busiest_cpu,omitempty"`
	Share   Number            `json:"busiest_cpu_share"` // busy share of its time
}

func noUsage() Usage {
	return Usage{Machine: unknown(), Process: unknown(), Traffic: unknown(), Thread: unknown(),
		Of: unknown(), Share: unknown()}
}

// Wire is the traffic of a device in one direction, on the wire like in the diagnosis: including
// headers of each segment, preamble, gap and checksum.
type Wire struct {
	Direction string `json:"direction"` // rx, tx
	Rate      Number `json:"bits_per_s"`
	Capacity  Number `json:"capacity_bits_per_s"`
	From      string `json:"capacity_from,omitempty"` // source of the capacity
	Share     Number `json:"share"`                   // rate divided by capacity
}

// seen contains the values of one tick.
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

// A machineWatch records the machine's statistics during one run.
type machineWatch struct {
	mu    sync.Mutex
	ticks []seen
	more  chan struct{} // closed at the next tick
	why   string        // why there are no ticks
	notes []string
	stop  context.CancelFunc
	done  chan struct{}
}

// watch starts to record the machine. device is the interface to record; "": none.
func (m *Machine) watch(ctx context.Context, device string, step measure.Span) *machineWatch {
	w := &machineWatch{more: make(chan struct{}), done: make(chan struct{})}
	ctx, w.stop = context.WithCancel(ctx)
	if m.Watch == nil {
		w.why = "this machine is not measured"
		close(w.done)
		return w
	}
	var queries []measure.Query
	texts := Queries()
	if device == "" {
		texts = texts[:1]
	}
	for _, s := range texts {
		q, err := measure.ParseQuery(s)
		if err != nil {
			panic(err) // the queries are constants
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

// maxNotes is the number of notes about statistics that are kept.
const maxNotes = 8

func (w *machineWatch) add(t *measure.Tick, device string) {
	s := seen{span: t.Over.Span(), modes: map[string]float64{}, busy: map[string]float64{},
		wire: map[string]float64{}, limit: map[string]limitSeen{}}
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
			if note = printable(note); len(w.notes) < maxNotes && !slices.Contains(w.notes, note) {
				w.notes = append(w.notes, note)
			}
		}
	}
	w.ticks = append(w.ticks, s)
	close(w.more)
	w.more = make(chan struct{})
}

// waitForTick waits for tick n, counted from 1, for at most limit. It returns the ticks after from
// up to n; nil when n did not come.
func (w *machineWatch) waitForTick(ctx context.Context, from, n int, limit time.Duration) []seen {
	late := time.NewTimer(limit)
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

// end stops the recording and returns all ticks, notes, and why there are no ticks.
func (w *machineWatch) end() ([]seen, []string, string) {
	w.stop()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	why := w.why
	if len(w.ticks) == 0 && why == "" {
		why = "the run ended before its first interval"
	}
	return w.ticks, w.notes, why
}

// usage returns the machine's part of a Usage.
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
		if mode != "idle" && mode != "iowait" &&
			mode != "steal" { // stolen time was not used by this machine
			u.Machine += Number(v / total)
		}
	}
	u.Machine = min(u.Machine, u.Of) // CPU time is counted in coarser units than the interval
	for cpu, v := range cpus {
		if share := Number(min(v/total, 1)); share > u.Share ||
			share == u.Share && cpu < u.Busiest {
			u.Busiest, u.Share = cpu, share
		}
	}
	return u
}

// wires returns the traffic of the device. It ignores the first of several ticks, in which traffic
// began.
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
			w.Share = w.Rate / w.Capacity // NaN when one is unknown
		}
		out = append(out, w)
	}
	return out
}

// printable returns a text of a peer as one line without control characters and surrounding blanks,
// shortened.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !measure.IsShown(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	if s = strings.Join(strings.Fields(s), " "); len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + " ..."
	}
	return s
}

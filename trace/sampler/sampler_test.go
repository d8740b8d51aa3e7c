package sampler

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// A Sampler finds, as Profile does, that a function has 70 % of the time and another 30 %. Two
// readers receive the same samples. Without readers nothing of it is in the kernel.
func TestSamplerShares(t *testing.T) {
	spinShares(t)
	s := NewSampler(499)
	var queries []measure.Query
	for _, st := range s.Stats() {
		q := measure.Query{Stat: st.ID, Step: 200 * measure.Millisecond}
		for _, f := range st.Fields {
			q.By = append(q.By, f.Name)
		}
		queries = append(queries, q)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	type seen struct{ one, other, all, busy, rate float64 }
	var sum [2]seen
	pid := strconv.Itoa(os.Getpid())
	ended := make(chan error, 2)
	for n := range sum {
		go func() {
			u := &sum[n]
			ended <- s.Run(ctx, queries, measure.SinkFunc(func(batches []*measure.Batch) error {
				if len(batches) != len(queries) {
					t.Errorf("%d batches", len(batches))
				}
				for _, b := range batches {
					for i := range b.Rows() {
						key, v := b.Key(i), b.Values[i]
						switch b.Stat {
						case SampledBusy:
							slot, err := strconv.Atoi(b.Labels[key[0]])
							if err != nil || slot < 0 || slot >= slotsOfSecond {
								t.Errorf("slot %s", b.Labels[key[0]])
							}
							u.busy += v
						case SampledRate:
							u.rate = v
						case SampledStacks:
							u.all += v
							if b.Labels[key[1]] != pid {
								continue
							}
							leaf := b.Frames[key[4]]
							switch {
							case strings.Contains(leaf.Symbol, "spinSeventy"):
								u.one += v
							case strings.Contains(leaf.Symbol, "spinThirty"):
								u.other += v
							}
						}
					}
				}
				if u.one+u.other >= 300 {
					stop()
				}
				return nil
			}))
		}()
	}
	for range sum {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	u := &sum[0]
	if sum[1].one+sum[1].other > u.one+u.other {
		u = &sum[1]
	}
	if u.one+u.other < 300 {
		t.Errorf("%.0f samples of the functions, want 300", u.one+u.other)
	}
	checkShares(t, u.one, u.other)
	// the two are cut some milliseconds apart
	if u.rate != 499 || u.busy < 300 || u.busy > u.all*1.05+20 {
		t.Errorf(
			"%.0f samples, %.0f of them of CPUs with something to do, at %g Hz", u.all, u.busy,
			u.rate,
		)
	}
	if s.all.source != nil {
		t.Error("nobody reads, and it goes on")
	}
	if s.Cost(SampledStacks) <= 0 || s.ExternalCost() <= 0 {
		t.Errorf("it has cost %v, %v of it elsewhere", s.Cost(SampledStacks), s.ExternalCost())
	}
}

// dueBench feeds a due with seconds of samples, and with a /proc/stat.
type dueBench struct {
	t    *testing.T
	due  due
	cpus []string
	stat map[string][8]uint64
}

func newDueBench(t *testing.T, stat bool) *dueBench {
	online, err := proc.OnlineCPUs(kernel.Root{})
	if err != nil {
		t.Fatal(err)
	}
	d := &dueBench{t: t, stat: map[string][8]uint64{}}
	d.due = due{hz: 49, times: cpuTimes{path: filepath.Join(t.TempDir(), "stat"), perSec: 100}}
	for _, c := range online {
		d.cpus = append(d.cpus, strconv.Itoa(int(c)))
	}
	if stat {
		d.write()
	}
	d.due.begin()
	return d
}

func (d *dueBench) write() {
	text := "cpu  1 2 3 4 5 6 7 8 9 10\n"
	for _, c := range d.cpus {
		text += "cpu" + c
		for _, n := range d.stat[c] {
			text += fmt.Sprint(" ", n)
		}
		text += " 0 0\n"
	}
	if err := os.WriteFile(d.due.times.path, []byte(text+"intr 1 2\n"), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// dueSecond is what the first CPU does in a second, in hundredths, and its samples.
type dueSecond struct{ sys, idle, soft, steal, came, rested int }

// period adds ten seconds, in which the other CPUs are busy and have all their samples. It returns
// the losses by reason and the last notes.
func (d *dueBench) period(s dueSecond, already ...measure.Loss) (map[string]uint64, []string) {
	d.t.Helper()
	out, notes := map[string]uint64{}, []string(nil)
	for i := range 10 {
		b := &measure.Batch{
			Stat: SampledStacks, By: []string{"pid", "cpu"},
			Over: measure.Interval{End: measure.Time(measure.Second)},
		}
		for n, c := range d.cpus {
			did := dueSecond{sys: 100, came: 49}
			if n == 0 {
				did = s
			}
			stat := d.stat[c]
			stat[2] += uint64(did.sys)
			stat[3] += uint64(did.idle)
			stat[6] += uint64(did.soft)
			stat[7] += uint64(did.steal)
			d.stat[c] = stat
			l := measure.Label(len(b.Labels))
			b.Labels = append(b.Labels, "7", "0", c)
			b.Keys = append(b.Keys, l, l+2, l+1, l+2)
			b.Values = append(b.Values, float64(did.came), float64(did.rested))
		}
		if i == 4 {
			b.Loss = append(b.Loss, already...)
		}
		if d.due.times.last != nil {
			d.write()
		}
		rate := d.due.account(b)
		if len(rate.Values) != len(d.cpus) ||
			slices.ContainsFunc(rate.Values, func(v float64) bool { return v != 49 }) {
			d.t.Errorf("the rates are %v", rate.Values)
		}
		for _, l := range b.Loss {
			out[l.Reason] += l.Events
		}
		notes = b.Notes
	}
	return out, notes
}

// Samples that were due while a CPU was busy are reported as lost, each once. Idle time without
// samples is a note, and time in which the virtual machine did not run is nothing.
func TestDue(t *testing.T) {
	const full = "a map was full"
	for _, tt := range []struct {
		name    string
		second  dueSecond
		already []measure.Loss
		want    map[string]uint64
		noted   bool
	}{
		{
			"all come", dueSecond{sys: 40, idle: 60, came: 20, rested: 29}, nil,
			map[string]uint64{}, false,
		},
		{
			"none comes while it is idle", dueSecond{sys: 40, idle: 60, came: 20}, nil,
			map[string]uint64{}, true,
		},
		{
			"half come while it is idle", dueSecond{sys: 40, idle: 60, came: 20, rested: 15}, nil,
			map[string]uint64{}, true,
		},
		{
			"none comes while it is idle, and it has time in no column",
			dueSecond{sys: 40, idle: 50, came: 19}, nil, map[string]uint64{}, true,
		},
		{
			"it does not run a tenth of the time", dueSecond{sys: 90, steal: 10, came: 44}, nil,
			map[string]uint64{}, false,
		},
		{
			"half of those of a process", dueSecond{sys: 100, came: 25}, nil,
			map[string]uint64{lostBusy: 240}, false,
		},
		{
			"half of those of interrupts", dueSecond{soft: 100, came: 25}, nil,
			map[string]uint64{lostBusy: 240}, false,
		},
		{
			"those of idleness come, and few of a process",
			dueSecond{sys: 60, idle: 40, came: 9, rested: 20}, nil,
			map[string]uint64{lostBusy: 200}, false,
		},
		{
			"none of idleness comes, and few of a process", dueSecond{sys: 60, idle: 40, came: 9},
			nil, map[string]uint64{lostBusy: 204}, true,
		},
		{
			"some were lost on the way", dueSecond{sys: 100, came: 25},
			[]measure.Loss{{Reason: full, Events: 140}},
			map[string]uint64{full: 140, lostBusy: 100}, false,
		},
		{
			"stacks were lost on the way", dueSecond{sys: 100, came: 25},
			[]measure.Loss{{Reason: full, Events: 140, Kind: measure.LostStacks}},
			map[string]uint64{full: 140, lostBusy: 240}, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDueBench(t, true)
			for range 2 { // the second period is as the first
				got, notes := d.period(tt.second, tt.already...)
				if !maps.Equal(got, tt.want) {
					t.Errorf("lost %v, want %v", got, tt.want)
				}
				noted := slices.ContainsFunc(notes, func(n string) bool {
					return strings.Contains(n, "of idle time on CPU "+d.cpus[0]+":")
				})
				if noted != tt.noted {
					t.Errorf("notes %q", notes)
				}
			}
		})
	}
}

// A sample that is late is in the next reading. Losses of a machine that does not show what its
// CPUs did are reported all the same.
func TestDueWithoutTimes(t *testing.T) {
	d := newDueBench(t, false)
	at := measure.Interval{End: measure.Time(measure.Second)}
	for n := range 40 {
		b := &measure.Batch{By: []string{"pid", "cpu"}, Over: at}
		for _, c := range d.cpus {
			l := measure.Label(len(b.Labels))
			b.Labels = append(b.Labels, "7", c)
			b.Keys, b.Values = append(b.Keys, l, l+1), append(b.Values, float64(48+2*(n%2)))
		}
		if d.due.account(b); len(b.Loss)+len(b.Notes) > 0 {
			t.Fatalf("lost %v, notes %q", b.Loss, b.Notes)
		}
	}
	if got, _ := d.period(dueSecond{came: 20}); got[lostAny] < 270 || got[lostAny] > 293 {
		t.Errorf("lost %v", got)
	}
}

func FuzzParseTimes(f *testing.F) {
	f.Add([]byte("cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8 9\ncpu1 1 2 3 x 5 6 7 8\nintr 7\n"))
	f.Add([]byte("cpu"))
	heapbound.Fuzz(f, func(t *testing.T, text []byte) {
		if !bytes.HasPrefix(text, []byte("cpu")) && len(parseTimes(text)) > 0 {
			t.Error("CPUs of nothing")
		}
	})
}

// A query without stacks of programs receives all samples, including those within programs, and
// culprit does not read the programs' files.
func TestSamplerKernelAlone(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	over := atomic.Bool{}
	defer over.Store(true)
	go func() {
		zero, err := os.Open("/dev/zero")
		if err != nil {
			t.Error(err)
			return
		}
		defer zero.Close()
		b := make([]byte, 1<<20)
		for !over.Load() {
			if _, err := zero.Read(b); err != nil {
				t.Error(err)
				return
			}
			spinThirty(1000)
		}
	}()
	s := NewSampler(499)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	pid := strconv.Itoa(os.Getpid())
	reads, inside := 0.0, 0.0
	err := s.Run(
		ctx,
		[]measure.Query{
			{
				Stat: SampledStacks,
				By:   []string{"process", "pid", "cpu", "kernel"},
				Step: 200 * measure.Millisecond,
			},
			{Stat: SampledRate, By: []string{"cpu"}, Step: 200 * measure.Millisecond},
		},
		measure.SinkFunc(func(batches []*measure.Batch) error {
			if s.all.source != nil || s.kernels.source == nil {
				t.Error("programs are looked into")
			}
			if len(batches) != 2 || len(batches[1].Values) == 0 {
				t.Fatalf("%d batches", len(batches))
			}
			b := batches[0]
			if strings.Join(b.By, ",") != "process,pid,cpu,kernel" {
				t.Errorf("by %v", b.By)
			}
			for i := range b.Rows() {
				if key := b.Key(i); b.Labels[key[1]] == pid {
					if stack := measure.FoldedStack(b.Frames, key[3]); strings.Contains(
						stack, "vfs_read",
					) {
						reads += b.Values[i]
					} else if stack == "" {
						inside += b.Values[i]
					}
				}
			}
			if reads >= 50 && inside >= 50 {
				stop()
			}
			return nil
		}),
	)
	if err != nil || reads < 50 || inside < 50 {
		t.Errorf("%.0f samples in read(2), %.0f in the program: %v", reads, inside, err)
	}
	if s.kernels.source != nil {
		t.Error("nobody reads, and it goes on")
	}
}

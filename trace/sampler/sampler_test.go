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

// Missing samples are reported as lost, each once, and late ones are not. A note names a CPU that
// has no samples while it is idle.
func TestDue(t *testing.T) {
	cpus, err := proc.OnlineCPUs(kernel.Root{})
	if err != nil {
		t.Fatal(err)
	}
	tick := func(d *due, each func(cpu int) (pid string, n float64)) *measure.Batch {
		b := &measure.Batch{
			Stat: SampledStacks,
			By:   []string{"pid", "cpu"},
			Over: measure.Interval{End: measure.Time(measure.Second)},
		}
		for _, c := range cpus {
			pid, n := each(int(c))
			l := measure.Label(len(b.Labels))
			b.Labels = append(b.Labels, pid, strconv.Itoa(int(c)))
			b.Keys, b.Values = append(b.Keys, l, l+1), append(b.Values, n)
		}
		rate := d.account(b)
		if len(rate.Values) != len(cpus) ||
			slices.ContainsFunc(rate.Values, func(v float64) bool { return v != 49 }) {
			t.Errorf("the rates are %v", rate.Values)
		}
		return b
	}
	d := due{hz: 49}
	for n := range 40 {
		// one is late; the next reading has it
		b := tick(&d, func(int) (string, float64) { return "0", 48 + 2*float64(n%2) })
		if len(b.Loss)+len(b.Notes) > 0 {
			t.Fatalf("nothing lacks, and it says %v %v", b.Loss, b.Notes)
		}
	}
	d = due{hz: 49}
	lost, noted := uint64(0), false
	for range 40 {
		b := tick(&d, func(cpu int) (string, float64) {
			if cpu == int(cpus[0]) {
				return "7", 20
			}
			return "0", 49
		})
		for _, l := range b.Loss {
			lost += l.Events
		}
		for _, n := range b.Notes {
			noted = noted ||
				strings.Contains(n, "while idle on CPU "+strconv.Itoa(int(cpus[0]))+":")
		}
	}
	if lost < 40*29-jitter-1 || lost > 40*29 || !noted {
		t.Errorf(
			"%d samples lack, and %d are reported; CPU %d is named: %v", 40*29, lost, cpus[0], noted,
		)
	}
}

// Samples that lack while a CPU is idle have a reason of their own, and samples that the program
// dropped are not reported twice.
func TestDueAsleep(t *testing.T) {
	cpus, err := proc.OnlineCPUs(kernel.Root{})
	if err != nil {
		t.Fatal(err)
	}
	file, ticks := filepath.Join(t.TempDir(), "stat"), 0
	d := due{hz: 49, idle: idleness{path: file, perSec: 100, looks: idleLooks}}
	// second adds a second in which the first CPU has busy samples of a process and idle samples of
	// idleness, and was idle for rested hundredths. The other CPUs have all samples.
	second := func(busy, idle float64, rested int, already ...measure.Loss) map[string]uint64 {
		ticks += rested
		text := fmt.Sprintf(
			"cpu  1 2 3 %d 5 0 0 0 0 0\ncpu%d 1 2 3 %d 5 0 0 0 0 0\nintr 1 2\n", ticks, cpus[0],
			ticks,
		)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b := &measure.Batch{
			Stat: SampledStacks,
			By:   []string{"pid", "cpu"},
			Over: measure.Interval{End: measure.Time(measure.Second)},
			Loss: already,
		}
		for n, c := range cpus {
			l := measure.Label(len(b.Labels))
			b.Labels = append(b.Labels, "7", "0", strconv.Itoa(int(c)))
			if n == 0 {
				b.Keys, b.Values = append(b.Keys, l, l+2, l+1, l+2), append(b.Values, busy, idle)
			} else {
				b.Keys, b.Values = append(b.Keys, l, l+2), append(b.Values, 49)
			}
		}
		d.account(b)
		out := map[string]uint64{}
		for _, l := range b.Loss {
			out[l.Reason] += l.Events
		}
		return out
	}
	check := func(what string, got, want map[string]uint64) {
		t.Helper()
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check(
		"how long it was idle is not known yet", second(24, 0, 50),
		map[string]uint64{lostOther: 25},
	)
	check("none comes while it is idle", second(29, 0, 40), map[string]uint64{lostAsleep: 20})
	check("all come", second(29, 20, 40), map[string]uint64{})
	check(
		"none comes of idleness, nor some of a process", second(9, 0, 40),
		map[string]uint64{lostAsleep: 20, lostOther: 20},
	)
	check(
		"those of idleness come, and some of a process do not", second(9, 20, 40),
		map[string]uint64{lostOther: 20},
	)
	const full = "a map was full"
	check(
		"some were lost on the way", second(9, 20, 40, measure.Loss{Reason: full, Events: 15}),
		map[string]uint64{full: 15, lostOther: 5},
	)
	check(
		"stacks were lost on the way",
		second(
			9, 20, 40, measure.Loss{Reason: full, Events: 15, Kind: measure.LostStacks},
		),
		map[string]uint64{full: 15, lostOther: 20},
	)
	for range idleLooks {
		check("all come", second(49, 0, 0), map[string]uint64{})
	}
	check("it was not looked at any more", second(29, 0, 40), map[string]uint64{lostOther: 20})
	check("it does no harm to be idle and to look again", second(29, 20, 40), map[string]uint64{})
	check("it is looked at again", second(29, 0, 40), map[string]uint64{lostAsleep: 20})
}

func FuzzParseIdle(f *testing.F) {
	f.Add([]byte("cpu  1 2 3 4 5 6\ncpu0 1 2 3 4 5 6 7\ncpu1 1 2 3 x 5 6\nintr 7\n"))
	f.Add([]byte("cpu"))
	heapbound.Fuzz(f, func(t *testing.T, text []byte) {
		if !bytes.HasPrefix(text, []byte("cpu")) && len(parseIdle(text)) > 0 {
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

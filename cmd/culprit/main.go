// Command culprit finds what holds a Linux machine back, and proves it. This file wires the rooms
// together and decides nothing.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"culprit/collect"
	"culprit/dataset"
	"culprit/kernel"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace/sampler"
	"culprit/view/term"

	"golang.org/x/sys/unix"
)

// version is set by the build (make build).
var version = "unversioned"

func main() {
	runtime.LockOSThread() // this is the first thread as yet
	tune(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(sameRequest, stop) })
	args := os.Args[1:]
	p := program(term.ReadTerminal())
	if programName() == "dtrace" { // a link of that name runs scripts as dtrace does
		args, p.DTrace = append([]string{"trace"}, args...), true
	}
	run := func() {
		status := term.Run(ctx, p, args)
		stop()
		os.Exit(status)
	}
	if len(args) == 0 || args[0] != "trace" {
		runtime.UnlockOSThread()
		run()
	}
	first := make(firstThread)
	p.Trace = func(ctx context.Context, t term.Tracing, terminal term.Terminal) (int, error) {
		return runTrace(ctx, t, terminal, first.do)
	}
	go run()
	for f := range first {
		f()
	}
}

// sameRequest is the time after the first signal in which further signals are the same request to
// end. timeout(1) signals the process and then its group, and a terminal's Ctrl-C can meet a
// parent's SIGTERM. A signal after this time ends the process at once.
const sameRequest = time.Second

// A firstThread takes what is to be run on the first thread of the process, which does nothing
// else.
type firstThread chan func()

func (t firstThread) do(f func()) {
	done := make(chan struct{})
	t <- func() {
		f()
		close(done)
	}
	<-done
}

// program is all rooms behind one command line.
func program(t term.Terminal) term.Program {
	return term.Program{
		Version:       version,
		Open:          openMachine,
		Recorded:      openRecorded,
		Server:        connectServer,
		Hosts:         openHosts,
		Tokens:        openTokens,
		Serve:         serve,
		Trace:         traceOnAnyThread,
		Profile:       runProfile,
		Locks:         openLocks,
		LoadMachine:   loadMachine,
		Script:        openScript,
		Reading:       tuneForFiles,
		Terminal:      t,
		DiagnoseNetns: defaultNetns(),
	}
}

// tune fits the Go runtime to a tool that wakes once a second, works for a millisecond and sleeps.
// What the user sets in GOMAXPROCS and GOGC stands.
//
// With more than one processor the runtime wakes further threads at each tick, in case there is
// work for them: half of what an interval then costs, and on a busy machine time taken from others.
// Whoever works on several sets it back.
//
// The heap may grow by half until it is collected, not to the double. With 20,000 connections that
// keeps 9 MB of 35 and costs no CPU time that could be measured, since a collection takes 2 ms and
// most of an interval is spent in the kernel.
//
// args is the command line: for flame the first collection is put off.
func tune(args []string) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		if len(args) > 0 && args[0] == "flame" {
			debug.SetGCPercent(
				firstGrowth,
			) // as reading does, but before the start's own tables make a collection
			return
		}
		debug.SetGCPercent(heapGrowth)
	}
}

// heapGrowth is by how much of itself the heap grows between collections, in percent.
const heapGrowth = 50

// limitHeap lets a heap above largeHeap grow by lowGrowth only: with 20,000 connections that keeps 6
// MB, and costs a collection every few seconds, since an interval leaves little garbage.
func limitHeap() {
	setGrowthByLive(func(live uint64) int {
		if live > largeHeap {
			return lowGrowth
		}
		return heapGrowth
	})
}

// limitHeapNow does so at once after a first reading. What follows the heap looks after a collection,
// in a goroutine that waits for its turn as long as the first
// table is made.
func limitHeapNow() {
	if os.Getenv("GOGC") != "" {
		return
	}
	var objects [1]metrics.Sample
	objects[0].Name = "/memory/classes/heap/objects:bytes"
	metrics.Read(objects[:])
	if objects[0].Value.Kind() == metrics.KindUint64 &&
		objects[0].Value.Uint64() > largeHeap*(100+heapGrowth)/100 { // so much is alive, then
		debug.SetGCPercent(lowGrowth)
	}
}

// setGrowthByLive has the heap grow by so many percent as is said of what is alive, in bytes. It looks
// after each collection. What the user sets in GOGC stands.
func setGrowthByLive(percent func(live uint64) int) {
	if os.Getenv("GOGC") != "" {
		return
	}
	var live [1]metrics.Sample
	live[0].Name = "/gc/heap/live:bytes"
	current := heapGrowth
	var afterCollection func(*[16]byte)
	afterCollection = func(b *[16]byte) {
		metrics.Read(live[:])
		if live[0].Value.Kind() == metrics.KindUint64 {
			if want := percent(live[0].Value.Uint64()); want != current {
				current = want
				debug.SetGCPercent(current)
			}
		}
		runtime.SetFinalizer(b, afterCollection)
	}
	runtime.SetFinalizer(new([16]byte), afterCollection)
}

const (
	largeHeap  = 12 << 20 // bytes alive
	lowGrowth  = 20       // percent
	readGrowth = 12       // percent

	// The first collection comes when 5.6 MB were allocated, 1.4 of them by the start: it alone
	// brings 1.4 MB along, of the runtime's functions, tables and queues, which a profile with few
	// stacks never needs.
	firstGrowth = 200
)

// tuneForFiles fits the process to a command that reads files and no counters of the machine. While the
// heap is small, a collection takes a millisecond and starts whenever the heap has grown by an
// eighth.
func tuneForFiles() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(firstGrowth)
	setGrowthByLive(func(live uint64) int {
		if live > largeHeap {
			return heapGrowth
		}
		return readGrowth
	})
}

func openMachine(l term.Look) (term.Machine, error) {
	if l.Alone {
		limitHeap()
	}
	if err := collect.CheckNetns(l.Netns); err != nil {
		return nil, err
	}
	all := sources(collect.Env{Root: kernel.Root{}, Netns: l.Netns, SinceBoot: l.SinceBoot}, 0)
	all = append(all, sampler.NewSampler(diagnosisHz()))
	return machine{Catalogue: dataset.New(all...), brief: l.Alone, firstTick: new(sync.Once)}, nil
}

// diagnosisHz is how many samples of each CPU are due in a second while somebody looks: a finding needs
// some tens in ten seconds. On machines with many CPUs half as many.
func diagnosisHz() int {
	if online, err := proc.OnlineCPUs(kernel.Root{}); err == nil && len(online) > manyCPUs {
		return 49
	}
	return 99
}

// manyCPUs is from where on a look samples each CPU less often.
const manyCPUs = 16

// machine is a catalogue whose recordings are readers.
type machine struct {
	*dataset.Catalogue
	brief     bool // no tick is kept
	firstTick *sync.Once
}

// afterTick is called at each tick. After the first one the heap holds nearly all that it will hold.
func (m machine) afterTick() {
	if m.brief {
		m.firstTick.Do(limitHeapNow)
	}
}

func (m machine) Watch(
	ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	if m.brief {
		return m.WatchBrief(ctx, queries, func(t *measure.Tick) error {
			m.afterTick()
			return each(t)
		})
	}
	return m.Catalogue.Watch(ctx, queries, each)
}

func (m machine) Record(
	ctx context.Context, queries []measure.Query, n int, progress func(int),
) (measure.Reader, error) {
	return m.Catalogue.Record(ctx, queries, n, func(tick int) {
		if progress != nil {
			progress(tick)
		}
		m.afterTick()
	})
}

// defaultNetns gives "all" in the host's own network namespace, else "": who works inside another
// one means that one.
func defaultNetns() string {
	if netlink.InHostNamespace(kernel.Root{}) {
		return "all"
	}
	return ""
}

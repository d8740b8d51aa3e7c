// Command culprit finds the bottleneck of a Linux machine and shows the evidence. This package
// parses the command line and connects the packages. It decides nothing itself.
package main

import (
	"context"
	"fmt"
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
	"culprit/kernel/feature"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/supervise"
	"culprit/trace"
	"culprit/trace/probe"
	"culprit/trace/sampler"
	"culprit/view/term"

	"golang.org/x/sys/unix"
)

// version is set by the build (make build).
var version = "unversioned"

func main() {
	runtime.LockOSThread() // main starts on the first thread of the process
	tune(os.Args[1:])
	if supervise.IsChild(symbolizerName) {
		if err := runSymbolizer(); err != nil {
			fmt.Fprintln(os.Stderr, "culprit:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(sameRequest, stop) })
	args := os.Args[1:]
	p := program(term.ReadTerminal())
	var server serverProcesses
	p.Serve, p.ReadConfig = server.serve, server.readConfig
	if programName() == "dtrace" { // a link with that name runs scripts as dtrace does
		args, p.DTrace = append([]string{"trace"}, args...), true
	}
	if programName() == "bpftrace" { // and one with this name those of bpftrace
		args = append([]string{"bpftrace"}, args...)
	}
	run := func() {
		status := term.Run(ctx, p, args)
		stop()
		server.exit(status)
		os.Exit(status)
	}
	if len(args) == 0 || args[0] != "trace" && args[0] != "bpftrace" {
		runtime.UnlockOSThread()
		run()
	}
	first := make(firstThread)
	p.Trace = func(ctx context.Context, t term.Tracing, terminal term.Terminal) (int, error) {
		return runTrace(ctx, t, terminal, first.do)
	}
	p.Bpftrace = func(
		ctx context.Context, t term.Bpftracing, terminal term.Terminal,
	) (int, error) {
		return runBpftrace(ctx, t, terminal, first.do)
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

// A firstThread carries functions to the first thread of the process, which does nothing else.
type firstThread chan func()

// do runs f on the first thread and waits for its end.
func (t firstThread) do(f func()) {
	done := make(chan struct{})
	t <- func() {
		f()
		close(done)
	}
	<-done
}

// program returns the command line with the functions that it calls.
func program(t term.Terminal) term.Program {
	return term.Program{
		Version:       version,
		Open:          openMachine,
		Recorded:      openRecorded,
		Engine:        openEngine,
		Fleet:         openFleet,
		Server:        connectServer,
		Hosts:         openHosts,
		Tokens:        openTokens,
		Sessions:      connectSessions,
		Archive:       openArchiveFiles,
		CheckServing:  checkServing,
		Trace:         traceOnAnyThread,
		Bpftrace:      bpftraceOnAnyThread,
		Profile:       runProfile,
		Locks:         openLocks,
		LoadMachine:   loadMachine,
		Script:        openScript,
		Names:         storedNames,
		ProfilePage:   profilePage,
		ReadsFiles:    tuneForFiles,
		Terminal:      t,
		DiagnoseNetns: defaultNetns(),
	}
}

// tune adapts the Go runtime to a tool that wakes once a second, works for a millisecond and
// sleeps. GOMAXPROCS and GOGC of the environment have precedence.
//
// GOMAXPROCS is 1. With more, the runtime wakes idle threads at each tick in case there is work,
// which takes half of the CPU time of an interval. Commands that work in parallel raise it again.
//
// The heap may grow by 50 % between collections, not by 100 %. With 20,000 connections that saves 9
// MB of 35 MB. It costs no measurable CPU time: a collection takes 2 ms, and most of an interval
// passes in the kernel.
//
// args is the command line. The command flame starts without collections: see firstGrowth.
func tune(args []string) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		if len(args) > 0 && args[0] == "flame" {
			// tuneForFiles does it too late: the tables of the start cause a collection before.
			debug.SetGCPercent(firstGrowth)
			return
		}
		debug.SetGCPercent(heapGrowth)
	}
}

// heapGrowth is the growth of the heap between collections, in percent of the live heap.
const heapGrowth = 50

// limitHeap lets a live heap above largeHeap grow by lowGrowth only. With 20,000 connections that
// saves 6 MB. It costs a collection every few seconds, since an interval leaves little garbage.
func limitHeap() {
	setGrowthByLive(func(live uint64) int {
		if live > largeHeap {
			return lowGrowth
		}
		return heapGrowth
	})
}

// limitHeapNow does the same at once after the first reading. The finalizer of limitHeap would run
// too late: it waits for its turn while the first table is made.
func limitHeapNow() {
	if os.Getenv("GOGC") != "" {
		return
	}
	var objects [1]metrics.Sample
	objects[0].Name = "/memory/classes/heap/objects:bytes"
	metrics.Read(objects[:])
	if objects[0].Value.Kind() == metrics.KindUint64 &&
		// then largeHeap bytes are alive
		objects[0].Value.Uint64() > largeHeap*(100+heapGrowth)/100 {
		debug.SetGCPercent(lowGrowth)
	}
}

// setGrowthByLive sets the heap's growth after each collection: percent returns it for the number
// of live bytes. GOGC of the environment has precedence. A finalizer that sets itself again runs
// after each collection.
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
	largeHeap  = 12 << 20 // bytes of live heap
	lowGrowth  = 20       // percent, above largeHeap
	readGrowth = 12       // percent, for commands that read files

	// firstGrowth puts the first collection off until 5.6 MB are allocated. 1.4 MB of them are of
	// the start. A collection adds 1.4 MB for the runtime's own functions, tables and queues, which
	// a profile with few stacks never needs.
	firstGrowth = 200 // percent
)

// tuneForFiles adapts the Go runtime to a command that reads files and no counters. A small heap
// may grow by readGrowth only: a collection of it takes a millisecond.
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

// openMachine opens this machine for a tool. An unknown network namespace is an error.
func openMachine(look term.MachineOptions) (term.Machine, error) {
	if look.Alone {
		limitHeap()
	}
	if err := collect.CheckNetns(look.Netns); err != nil {
		return nil, err
	}
	all := sources(
		collect.Env{Root: kernel.Root{}, Netns: look.Netns, SinceBoot: look.SinceBoot},
		trace.Budget(look.Budget),
	)
	stacks := sampler.NewSampler(diagnosisHz())
	stacks.Files, _ = toolFiles() // it ends with this process
	all = append(all, stacks)
	return machine{
		Catalogue: dataset.New(all...),
		brief:     look.Alone,
		firstTick: new(sync.Once),
	}, nil
}

// diagnosisHz returns the samples per second and CPU of a tool or diagnosis. A finding needs some
// tens in ten seconds. Machines with many CPUs need half of them per CPU.
func diagnosisHz() int {
	if online, err := proc.OnlineCPUs(kernel.Root{}); err == nil && len(online) > manyCPUs {
		return 49
	}
	return 99
}

// manyCPUs is the number of CPUs above which each CPU is sampled less often.
const manyCPUs = 16

// A machine is a catalogue that returns recordings as readers, and tunes the heap after the first
// tick.
type machine struct {
	*dataset.Catalogue
	brief     bool // no tick is kept: see WatchBrief
	firstTick *sync.Once
}

// afterTick is called at each tick. After the first one the heap has nearly its final size.
func (m machine) afterTick() {
	if m.brief {
		m.firstTick.Do(limitHeapNow)
	}
}

// Watch reports live answers at each tick until ctx ends or each fails.
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

// Record keeps n ticks and returns them as a reader. progress may be nil.
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

// CanTrace returns an error that names the rights that this process lacks for tracing; nil: it can
// trace.
func (m machine) CanTrace() error {
	if err := feature.RawTracepoints.Have(kernel.Root{}); err != nil {
		return probe.MissingRight(kernel.Root{}, "use BPF", err)
	}
	return nil
}

// defaultNetns returns the network namespaces that a diagnosis or server reads: "all" in the host's
// namespace, else "": its own, which the user of a container means.
func defaultNetns() string {
	if netlink.InHostNamespace(kernel.Root{}) {
		return "all"
	}
	return ""
}

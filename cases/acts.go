package cases

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Act makes this process a load or the guardian if the lab started it as one, and then never
// returns. A program that makes labs calls it first in main, or in TestMain before anything else.
func Act() {
	name := os.Getenv(envAct)
	if name == "" {
		return
	}
	if name == "guardian" {
		os.Exit(guard())
	}
	for _, procs := range strings.Split(os.Getenv(envCgroup), ":") {
		if procs == "" {
			continue
		}
		// 0: the writer, with all its threads.
		if err := os.WriteFile(procs, []byte("0"), 0); err != nil {
			fmt.Fprintln(os.Stderr, "enter cgroup:", err)
			os.Exit(1)
		}
	}
	act, ok := acts()[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no act is called %q\n", name)
		os.Exit(2)
	}
	raiseFiles()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	t := &tally{}
	f := flag.NewFlagSet(name, flag.ExitOnError)
	if err := act(ctx, f, os.Args[1:], t); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	t.print()
	os.Exit(0)
}

// acts is what the lab's helpers can be: the list is the documentation.
func acts() map[string]func(context.Context, *flag.FlagSet, []string, *tally) error {
	return map[string]func(context.Context, *flag.FlagSet, []string, *tally) error{
		"sink":     actSink,     // accepts TCP connections and reads them empty
		"stream":   actStream,   // writes to TCP connections, as fast as it goes or at a rate
		"serve":    actServe,    // answers each request with a fixed number of bytes
		"ask":      actAsk,      // sends requests, over lasting connections or a new one for each
		"deaf":     actDeaf,     // listens and never accepts
		"spray":    actSpray,    // sends UDP datagrams
		"fill":     actFill,     // fills the table of established TCP connections
		"hear":     actHear,     // reads UDP datagrams
		"sniff":    actSniff,    // reads all frames of an interface from a packet socket
		"cable":    actCable,    // joins taps, each pair a cable with a speed
		"burn":     actBurn,     // keeps CPUs busy, wholly or for a share of the time
		"write":    actWrite,    // writes to a file past the page cache
		"reread":   actReread,   // reads a file larger than its memory over and over
		"grow":     actGrow,     // takes more and more memory, or uses what it has
		"restart":  actRestart,  // starts a program that fails, again and again
		"spawn":    actSpawn,    // starts children that end, and waits for them or not
		"put":      actPut,      // writes to a FIFO
		"take":     actTake,     // opens a FIFO, and reads it or not
		"list":     actList,     // lists a directory again and again
		"hold":     actHold,     // takes files, connections, inotify instances, names, and keeps them
		"answer":   actAnswer,   // listens on an AF_UNIX socket, and accepts or not
		"names":    actNames,    // answers DNS queries, or not
		"lookup":   actLookup,   // looks names up
		"web":      actWeb,      // answers HTTP requests, late or with a status, or hands them on
		"get":      actGet,      // asks a web server
		"image":    actImage,    // serves a file for a block device, and hangs after some writes
		"fetch":    actFetch,    // reads a file through the page cache
		"track":    actTrack,    // fills the table of connection tracking
		"log":      actLog,      // writes to a file that grows up to a size
		"lockup":   actLockUp,   // takes locks on a file on which it has many
		"turn":     actTurn,     // takes turns at a lock with many threads, or waits for work with them
		"crew":     actCrew,     // takes turns at a file lock with worker processes
		"queue":    actQueue,    // waits at a System V semaphore with worker processes
		"pingpong": actPingPong, // hands a byte to and fro between two threads
		"fault":    actFault,    // writes to memory that it releases after each pass, or keeps
		"poll":     actPoll,     // waits for events, or polls for them
		"purge":    actPurge,    // removes directories of which many names are cached that do not exist
	}
}

// tally counts what an act does and reports it.
type tally struct {
	bytes, ops, errors atomic.Int64
	mu                 sync.Mutex
	took               []time.Duration // since the last report
	out                sync.Mutex
}

func (t *tally) done(bytes int64, took time.Duration) {
	t.bytes.Add(bytes)
	t.ops.Add(1)
	if took > 0 {
		t.mu.Lock()
		if len(t.took) < 1<<16 {
			t.took = append(t.took, took)
		}
		t.mu.Unlock()
	}
}

// ready reports to the lab that the act runs, and prints reports from then on.
func (t *tally) ready() {
	t.out.Lock()
	fmt.Println("ready")
	t.out.Unlock()
	t.print()
	go func() {
		for range time.Tick(250 * time.Millisecond) {
			t.print()
		}
	}()
}

func (t *tally) print() {
	c := Count{At: time.Now(), Bytes: t.bytes.Load(), Ops: t.ops.Load(), Errors: t.errors.Load()}
	t.mu.Lock()
	took := t.took
	t.took = nil
	t.mu.Unlock()
	if n := len(took); n > 0 {
		sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
		c.P50, c.P99 = took[n/2], took[n*99/100]
	}
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	t.out.Lock()
	defer t.out.Unlock()
	// The lab is gone; the guardian will come.
	if _, err := os.Stdout.Write(append(b, '\n')); err != nil {
		os.Exit(1)
	}
}

// pace lets things pass at a rate. What was missed while the process didn't run is made good, up to
// 100 ms of it.
type pace struct {
	mu   sync.Mutex
	rate float64 // units a second; 0: no limit
	next time.Time
}

// wait returns when n more units may pass, or with the context's error.
func (p *pace) wait(ctx context.Context, n float64) error {
	if p.rate <= 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	oldest := now.Add(-100 * time.Millisecond)
	if p.next.IsZero() || n/p.rate > 0.1 {
		// Nothing to make good at the start; nor with steps longer than what is made good.
		oldest = now
	}
	if p.next.Before(oldest) {
		p.next = oldest
	}
	at := p.next
	p.next = p.next.Add(time.Duration(n / p.rate * float64(time.Second)))
	p.mu.Unlock()
	return sleep(ctx, at.Sub(now))
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// raiseFiles allows as many open files as the machine lets this process have.
func raiseFiles() {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil && r.Cur < r.Max {
		r.Cur = r.Max
		unix.Setrlimit(
			unix.RLIMIT_NOFILE, &r,
		) // failing leaves the softer limit, which the acts live with
	}
}

func ignoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
}

func drain(r io.Reader, t *tally) {
	b := make([]byte, 1<<20)
	for {
		n, err := r.Read(b)
		t.bytes.Add(int64(n))
		if err != nil {
			return
		}
	}
}

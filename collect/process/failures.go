package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Failures counts processes that end by a signal or with another code than 0. The kernel sends
// their statistics at their end (taskstats), so that a process that lives for a millisecond is
// counted too. A filter in the socket drops those of other processes and threads. Where more than
// mostStarts processes and threads start per second the messages are turned off, since the kernel
// makes one for each thread that ends.
type Failures struct {
	listen func(env *collect.Env) (exitListener, error) // nil: taskstats
	now    func() time.Time                             // nil: time.Now
}

// An exitListener receives messages about ended processes.
type exitListener interface {
	// Receive returns the length of a message. It waits for one, or returns 0. The error is
	// errExitsLost after messages were lost, and os.ErrClosed after Close.
	Receive(b []byte, wait bool) (int, error)
	// Turn turns the messages on or off.
	Turn(on bool) error
	Close() error
}

// errExitsLost reports that the queue of the socket was full.
var errExitsLost = errors.New("messages about ended processes were lost")

// The statistics.
const (
	failuresID     = measure.StatID("process.failures")
	failuresTimeID = measure.StatID("process.failures.time")
)

const (
	// mostStarts is how many processes and threads may start per second while the messages are on.
	// The task that ends pays for its message.
	mostStarts = 2000
	quietFor   = 30 * time.Second // how long the messages stay off
	mostKinds  = 200              // kinds of failures in an interval
	mostLooks  = 20               // processes in an interval whose control group is read
	pauseAfter = 50               // messages in an interval; after that they are read in groups
	pauseFor   = 100 * time.Millisecond
)

// otherProcesses is the name of processes beyond mostKinds.
const otherProcesses = "(others)"

// Stats returns process.failures and process.failures.time.
func (Failures) Stats() []measure.Stat {
	word := func(name, help string) measure.Field {
		return measure.Field{Name: name, Type: measure.Word, Help: help}
	}
	fields := []measure.Field{
		word("process", "name of the program: 15 bytes, which the process may change"),
		{Name: "parent", Type: measure.Number, Help: "process id of the parent, 0 for none"},
		word("parentprocess", "its name; empty: it had ended too"),
		word("end", "code 1, code 2 ...; or the signal: SIGSEGV SIGKILL ..."),
		word("cgroup", "path of its control group, of that of its parent where it was gone"),
	}
	return []measure.Stat{{
		ID: failuresID, Kind: measure.Delta, Unit: measure.Events, Sparse: true,
		Help: "processes that ended by a signal or with another code than 0 (taskstats at the " +
			"end of a process)", Fields: fields,
	}, {
		ID: failuresTimeID, Kind: measure.Delta, Unit: measure.Nanoseconds, Sparse: true,
		Help:   "how long these had lived, in all",
		Fields: fields,
	}}
}

// Open asks the kernel for the messages. An error means that it sends none, or that a right is
// missing. The caller closes the Reading.
func (c Failures) Open(env *collect.Env, _ collect.Want) (collect.Reading, error) {
	listen := c.listen
	if listen == nil {
		listen = listenExits
	}
	l, err := listen(env)
	if err != nil {
		return nil, err
	}
	dir, err := proc.OpenProcDir(env.Root, "")
	if err != nil {
		_ = l.Close() // only read
		return nil, err
	}
	r := &failureReading{listener: l, dir: dir, now: c.now, on: true, ended: make(chan struct{})}
	if r.now == nil {
		r.now = time.Now
	}
	if r.stat, err = proc.OpenProc(env.Root, "stat"); err != nil {
		r.Close()
		return nil, err
	}
	go r.run()
	return r, nil
}

// failure is a kind of failures.
type failure struct {
	process, parentName, end, cgroup string
	parent                           int32
}

// amount is how many failures of a kind there were, and how long these processes had lived.
type amount struct{ count, nanoseconds float64 }

type failureReading struct {
	listener exitListener
	dir      *proc.Dir
	stat     *proc.File
	now      func() time.Time
	ended    chan struct{} // closed when the goroutine has ended
	close    sync.Once

	forks    procfs.Stat
	last     uint64    // forks at the previous reading; 0: none
	lastTime time.Time // of it
	on       bool      // the messages are on
	offSince time.Time

	mu sync.Mutex // guards the fields below
	tally
}

// tally is what happened since the latest reading.
type tally struct {
	kinds    map[failure]amount
	messages int
	looks    int // processes whose control group was read
	lost     bool
	failed   error // of the listener; it has ended
}

// run receives messages until the listener is closed.
func (r *failureReading) run() {
	defer close(r.ended)
	b := make([]byte, 8<<10)
	wait := true
	for {
		n, err := r.listener.Receive(b, wait)
		r.mu.Lock()
		switch {
		case errors.Is(err, errExitsLost):
			r.lost = true
		case err != nil:
			if !errors.Is(err, os.ErrClosed) {
				r.failed = err
			}
			r.mu.Unlock()
			return
		case n > 0:
			r.take(b[:n])
		}
		busy := r.messages > pauseAfter
		r.mu.Unlock()
		if wait = !busy; busy && n == 0 {
			time.Sleep(pauseFor)
		}
	}
}

// take counts the message of an ended process. r.mu is held.
func (r *failureReading) take(b []byte) {
	e, ok := parseExit(b)
	if !ok || e.code == 0 {
		return
	}
	r.messages++
	f := failure{process: e.process, parent: e.parent, end: e.end()}
	if r.looks < mostLooks {
		// At once: a parent that is quick has waited for it a moment later.
		r.looks++
		f.parentName = r.nameOf(e.parent)
		if f.cgroup = r.cgroupOf(e.pid); f.cgroup == "" || f.cgroup == "/" {
			f.cgroup = r.cgroupOf(e.parent)
		}
	} else {
		f = r.known(f)
	}
	if _, has := r.kinds[f]; !has && len(r.kinds) >= mostKinds {
		f = failure{process: otherProcesses, end: f.end}
	}
	a := r.kinds[f]
	a.count++
	a.nanoseconds += e.lived * 1e3
	if r.kinds == nil {
		r.kinds = map[failure]amount{}
	}
	r.kinds[f] = a
}

// known returns a failure with the words that an equal one of this interval has.
func (r *failureReading) known(f failure) failure {
	for k := range r.kinds {
		if k.process == f.process && k.parent == f.parent && k.end == f.end {
			return k
		}
	}
	return f
}

// nameOf returns the name of a living process, "" when there is none.
func (r *failureReading) nameOf(pid int32) string {
	if pid <= 0 {
		return ""
	}
	b, err := r.dir.ReadPID(pid, "comm", nil)
	if err != nil {
		return ""
	}
	return string(appendClean(nil, bytes.TrimSuffix(b, []byte("\n"))))
}

// cgroupOf returns the control group of a process, "" when it is not known.
func (r *failureReading) cgroupOf(pid int32) string {
	if pid <= 0 {
		return ""
	}
	b, err := r.dir.ReadPID(pid, "cgroup", nil)
	if err != nil {
		return ""
	}
	return string(appendClean(nil, parseCgroup(b, cgroupControllers())))
}

// Read puts the failures since the previous reading.
func (r *failureReading) Read(out *collect.Out) error {
	r.mu.Lock()
	t := r.tally
	r.tally = tally{failed: r.failed}
	r.mu.Unlock()
	if t.failed != nil {
		return t.failed
	}
	count, lived := out.Table(failuresID), out.Table(failuresTimeID)
	starts := r.starts()
	for _, table := range []*collect.Table{count, lived} {
		switch {
		case table == nil:
		case !r.on:
			table.Unmeasured(fmt.Sprintf("turned off for %d s: more than %d processes and "+
				"threads started per second", int(quietFor/time.Second), mostStarts))
		case t.lost:
			table.Loss("more processes failed than could be read", 1)
		}
	}
	if r.on && !out.First {
		for f, a := range t.kinds {
			labels := []measure.Label{out.Label(f.process), out.Number(int64(f.parent)),
				out.Label(f.parentName), out.Label(f.end), out.Label(f.cgroup)}
			if count != nil {
				count.Put(a.count, labels...)
			}
			if lived != nil {
				lived.Put(a.nanoseconds, labels...)
			}
		}
	}
	return r.turn(starts)
}

// starts returns how many processes and threads started per second since the previous reading; 0
// when it is not known.
func (r *failureReading) starts() float64 {
	b, err := r.stat.ReadOne()
	if err != nil || r.forks.Parse(b, true) != nil {
		return 0
	}
	now, n := r.now(), r.forks.Forks
	last, since := r.last, now.Sub(r.lastTime).Seconds()
	r.last, r.lastTime = n, now
	if last == 0 || n < last || since <= 0 {
		return 0
	}
	return float64(n-last) / since
}

// turn turns the messages off when too many processes start, and on again later.
func (r *failureReading) turn(starts float64) error {
	switch now := r.now(); {
	case r.on && starts > mostStarts:
		r.on, r.offSince = false, now
		return r.listener.Turn(false)
	case !r.on && now.Sub(r.offSince) >= quietFor && starts <= mostStarts:
		r.on = true
		return r.listener.Turn(true)
	}
	return nil
}

// Close ends the messages and the goroutine.
func (r *failureReading) Close() {
	r.close.Do(func() {
		_ = r.listener.Close() // only read
		<-r.ended
		r.stat.Close()
		r.dir.Close() //nolint:errcheck // only read
	})
}

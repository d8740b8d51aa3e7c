package process

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Processes reads the counters of each process and, if wanted, of each thread.
//
// A process that has not run has changed nothing but its resident size. So the first step is its
// pulse (run time, waits, times run), and more expensive files are read only of processes that ran.
// With CAP_NET_ADMIN the pulses of all processes come by taskstats (netlink). Otherwise they come
// from /proc/PID/schedstat of each thread, kept open. Both take 2 us for a sleeping process. To
// open one file takes 9 to 80 us.
//
// CPU time is exact to the scheduler's last update of a running thread (a tick, 1 to 10 ms); see
// cpuClock. The kernel counts time waited for a CPU, a disk or memory when the wait ends, so a long
// wait is in the interval of its end. Resident sizes, states and parents of sleeping processes are
// read again every 10 seconds, cgroups and command lines every minute.
type Processes struct {
	now    func() measure.Span // nil: the machine's time since boot
	passwd string              // "": /etc/passwd
	files  bool                // do not use taskstats
	walk   bool                // wait until the walk over tasks is open
}

// Open opens /proc and chooses how to read the pulses. An error means that nothing can be measured.
// The caller closes the Reading.
func (c Processes) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	dir, err := proc.OpenProcDir(env.Root, "")
	if err != nil {
		return nil, err
	}
	r := &processReading{
		wants:    wantProcesses(want),
		programs: env.Programs,
		masks:    env.Masks,
		processSources: processSources{
			dir:    dir,
			root:   env.Root,
			spaces: env.Namespaces,
			now:    c.now,
		},
		processRules: processRules{
			tick:        procfs.TickNanoseconds,
			page:        uint64(kernel.PageSize()),
			controllers: cgroupControllers(),
			reasons:     delayReasons(),
			self:        int32(os.Getpid()),
			hide:        hidePID(dir, nil),
		},
		processBuffers: processBuffers{buf: make([]byte, 4096)},
	}
	r.users.path = c.passwd
	if r.users.path == "" {
		r.users.path = "/etc/passwd"
	}
	if r.now == nil {
		r.now = kernel.Uptime
	}
	r.onTaskStats = r.taken // bound once: a bound method allocates
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		r.keep = int(min(limit.Cur/2, mostFiles))
	}
	b, err := dir.ReadOne("self/schedstat", r.buf)
	if p, ok := parseSched(b); err == nil && ok && p.count > 0 {
		r.sched = true
	}
	_, err = dir.ReadOne("self/io", r.buf)
	r.noIO = errors.Is(err, fs.ErrNotExist)
	b, err = dir.ReadOne("sys/kernel/task_delayacct", r.buf)
	// before Linux 5.14 there is no such file, and it is on
	r.delayAcct = err != nil || len(b) > 0 && b[0] != '0'
	own := env.Root.Proc == "" && r.sameNamespace()
	if own {
		r.ioPriority.get = ioPriorityOf
	}
	if !c.files && own {
		r.taskstats, r.taskstatsErr = openTaskstats(int32(os.Getpid()))
		if r.taskstats != nil && r.sched && (env.Long || c.walk) {
			if r.walk = startTaskWalk(env.Root); c.walk {
				r.walk.wait()
			}
		}
	} else {
		r.taskstatsErr = measure.ErrUnsupported
	}
	if r.wants.lost {
		if r.stat, err = proc.OpenProc(env.Root, "stat"); err != nil {
			r.wants.lost = false
		}
	}
	return r, nil
}

// sameNamespace reports whether /proc shows the pids that system calls of this process use.
func (r *processReading) sameNamespace() bool {
	self, err := os.Readlink(r.root.InProc("self"))
	return err == nil && self == strconv.Itoa(os.Getpid())
}

// processWants are the wanted statistics.
type processWants struct {
	amountWants
	levelWants
	user, cgroup, command  bool // fields of info
	thread, threadSwitches bool
}

type amountWants struct{ runwait, delay, switches, io, calls, short, lost bool }

type levelWants struct {
	rss, threads, state, info, count, files, visibility, blocked bool

	long bool // those of longTables
}

func wantProcesses(w collect.Want) processWants {
	return processWants{
		amountWants: amountWants{
			runwait:  w.Stat("process.runwait", "process.weight"),
			delay:    w.Stat("process.delay"),
			switches: w.Stat("process.switches"),
			io:       w.Stat("process.io", "process.io.priority"),
			calls:    w.Stat("process.calls.bytes"),
			short:    w.Stat("process.short"),
			lost:     w.Stat("process.lost"),
		},
		levelWants: levelWants{
			rss:     w.Stat("process.rss"),
			threads: w.Stat("process.threads"),
			state:   w.Stat("process.state"),
			info:    w.Stat("process.info"),
			long: w.Stat("process.virtual", "process.priority", "process.nice",
				"process.time"),
			count:      w.Stat("process.count"),
			files:      w.Stat("process.files", "process.files.limit"),
			visibility: w.Stat("process.visibility"),
			blocked:    w.Stat("process.blocked"),
		},
		user:    w.Field("process.info", "user"),
		cgroup:  w.Field("process.info", "cgroup"),
		command: w.Field("process.info", "command"),
		thread: w.Stat("thread.cpu", "thread.runwait", "thread.switches", "thread.faults",
			"process.blocked", "process.lock.waiters", "process.sleepers", "thread.realtime",
			"process.placement", "process.pipe.waiters", "process.weight"),
		threadSwitches: w.Stat("thread.switches"),
	}
}

// processReading is the Reading of Processes.
type processReading struct {
	wants    processWants
	programs bool           // command lines without their arguments
	masks    measure.Masker // of the secrets in command lines
	processSources
	processRules
	processList
	processPulses
	processBuffers
	shortcomings

	users     users
	listFiles tristate // whether open files must be listed, as the kernel does not count them
	files     filesReading
	locked    proc.TimedReader
	heads     headReading
	busy      lostClock
	tables    processTables
}

// processSources are what the numbers come from.
type processSources struct {
	dir          *proc.Dir
	root         kernel.Root
	now          func() measure.Span
	taskstats    *taskstatsConn
	taskstatsErr error               // why taskstats are not used
	walk         *taskWalk           // in addition to taskstats; nil: not available
	spaces       *collect.Namespaces // nil: no collector uses them
	stat         *proc.File          // /proc/stat
	onTaskStats  func(i int, t *taskStats, err error)
}

// processRules is what this kernel counts, and in which units.
type processRules struct {
	tick, page  uint64 // nanoseconds, bytes
	sched       bool   // schedstat counts
	noIO        bool   // it has no /proc/PID/io
	delayAcct   bool
	lateDelays  bool // delay accounting was turned on after process 1 started
	kinds       int  // how many reasons of delays taskstats have
	reasons     []string
	controllers []string
	hide        string // option hidepid of /proc; "": none
	self        int32
}

// processList is the known processes.
type processList struct {
	listed measure.Span // time since boot of the previous listing
	base   bool         // first reading: nothing to compare with
	procs  []*process   // by pid
	other  []*process   // buffer for the next list
	gone   []*process   // ended within this interval

	fresh  cursor // whose stat line is read again
	facts  cursor // whose info is read again
	counts cursor // whose open files are counted again
	lists  cursor // whose open files are listed again
}

// processPulses finds the processes that ran; see process.pulse.
type processPulses struct {
	asked    []*process   // processes asked for by taskstats
	pulsedAt measure.Span // time since boot when it asked
	deltas   []*processDelta
	used     int   // how many of deltas are in use
	opens    int   // files opened for pulses in this reading
	keep     int   // how many more files may be kept open
	failed   error // error of a pulse
}

type processBuffers struct {
	pids, tids []int32
	parents    []int32    // of zombies
	renewed    []*process // whose stat line is read again
	buf        []byte
	text       []byte // for cleaned text
	line       procStat
	blocked    blockedReading
	lockWaits  lockReading
	sleepers   sleeperReading
	pipes      pipeReading
	placement  placementReading
	ioPriority ioPriorityReading
	weights    weightReading
}

// shortcomings is what a reading could not see.
type shortcomings struct {
	ended      uint64 // known processes that ended within this interval
	ioDenied   bool   // /proc/PID/io of a process that ran may not be read
	hung       bool   // the read of a file did not return
	hidden     bool   // a process could not be read at all
	noSwitches bool   // the status of a thread that ran does not have its switches
	noBlkio    bool   // the stat line of a process that ran does not have disk waits
}

// process is one process, identified by pid and start: a reused pid is another process.
type process struct {
	pid     int32
	known   bool // read before: there is something to compare with
	ran     bool // ran within this interval, or is new: delta is set
	missed  bool // ran, and its stat line could not be read: read again even if it sleeps now
	dead    bool // found to have ended
	split   bool // has, or had, several threads, which are followed one by one
	clock   cpuClock
	delta   *processDelta // of this interval, if it ran
	kids    children
	files   openFiles
	threads []*thread   // threads whose pulse is read by files, and those of a split process
	head    *head       // what was just read; nil: nothing
	held    *headReader // whose read has not returned; nil: none
	processPulse
	processStat
	processIO
	processFacts
}

// processPulse shows whether a process ran.
type processPulse struct {
	task       taskStats  // the latest
	last       taskStats  // the values that delta was counted from
	pulsed     bool       // task is of this reading
	pulse      *proc.File // schedstat, in addition to taskstats
	schedPulse pulse      // its latest content
	walked     taskSigns  // signs of the latest walk, instead of both
	unsure     bool       // the walk cannot show whether it ran
	twice      bool       // last has a thread twice; see countedTwice
	lead       int64      // ns by which the ticks may be ahead of the run time
}

// processStat has the stat line of a process.
type processStat struct {
	stat      procStat // without comm
	comm      string   // cleaned
	name      labelPair
	file      *proc.File
	statStale bool // the line has changed without the process running, and was not read again
}

// processIO has the I/O of a process.
type processIO struct {
	io     ioBytes
	hasIO  bool
	ioFile *proc.File
}

// processFacts has the description of a process; info is nil if process.info is not wanted.
type processFacts struct {
	info         *processInfo
	ranSinceInfo bool         // it ran since info was read
	blocked      *blockedWait // of its only thread; nil: not blocked, or not read yet
	pipe         *pipeWait    // of its only thread; nil: not read since it ran
	idleLock     uint64       // lock whose holder was seen to wait for work; 0: none
	unread       int          // consecutive samples in which no call of a thread could be read
}

// processDelta is what a process did within an interval; NaN if not known.
type processDelta struct {
	usr, sys, wait, short  float64
	voluntary, involuntary float64
	minor, major           float64
	io                     [4]float64 // read write rchar wchar
	delays                 [delayKinds]float64
	kinds                  int // how many of delays are known
}

func (r *processReading) Close() {
	for _, p := range r.procs {
		r.drop(p)
	}
	r.procs = nil
	r.locked.Close()
	r.heads.close()
	r.walk.close()
	r.taskstats.close()
	r.stat.Close()
	r.dir.Close()
}

func (r *processReading) Read(out *collect.Out) error {
	r.base = out.First && !out.SinceBoot
	r.shortcomings, r.files = shortcomings{}, filesReading{}
	r.gone, r.used, r.opens, r.failed = r.gone[:0], 0, 0, nil
	now := r.now()
	if err := r.list(); err != nil {
		return err
	}
	if err := r.pulseByTaskstats(); err != nil {
		return err
	}
	for _, p := range r.procs {
		if r.taskstats == nil {
			r.pulseByFiles(p)
		}
		if p.ran = p.ran || !p.known || p.missed; p.ran {
			r.askHead(p, true)
		}
	}
	r.readHeads()
	for _, p := range r.procs {
		r.look(p, out)
	}
	r.freeHeads()
	r.listed = now
	r.subtractEnded()
	r.renew(out)
	r.renewFiles(out)
	r.put(out)
	r.putHeads(out)
	r.forget()
	return nil
}

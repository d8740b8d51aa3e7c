package process

import (
	"errors"
	"io/fs"
	"os"
	"slices"
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

// Stats returns process.* and thread.*.
func (Processes) Stats() []measure.Stat {
	with := func(more ...measure.Field) []measure.Field {
		return append(
			[]measure.Field{
				{Name: "pid", Type: measure.Number, Help: "process id"},
				{
					Name: "process",
					Type: measure.Word,
					Help: "name of the program: 15 bytes, which the process may change",
				},
			},
			more...)
	}
	thread := func(more ...measure.Field) []measure.Field {
		return append(
			with(
				measure.Field{Name: "tid", Type: measure.Number, Help: "thread id"},
				measure.Field{Name: "thread", Type: measure.Word, Help: "name of the thread"},
			),
			more...)
	}
	word := func(name, help string) measure.Field {
		return measure.Field{Name: name, Type: measure.Word, Help: help}
	}
	mode, kind, fault := word("mode", "usr sys"), word("type", "voluntary: it went to sleep; "+
		"involuntary: the scheduler took the CPU"), word("type", "minor: without a disk; "+
		"major: read from a disk")
	state := word("state", "R running or ready, S sleeping, D uninterruptible, T stopped, t "+
		"traced, Z ended and not waited for, I idle kernel thread")
	delta := func(id measure.StatID, unit measure.Unit, help string, fields []measure.Field) measure.Stat {
		return measure.Stat{
			ID:     id,
			Kind:   measure.Delta,
			Unit:   unit,
			Sparse: true,
			Help:   help,
			Fields: fields,
		}
	}
	level := func(id measure.StatID, unit measure.Unit, help string, fields []measure.Field) measure.Stat {
		return measure.Stat{ID: id, Kind: measure.Level, Unit: unit, Help: help, Fields: fields}
	}
	info := level("process.info", measure.Count, "description of a process; cgroup is its "+
		"place in cgroup v2, or in v1 if it has none there (/proc/PID/stat, status, cgroup, "+
		"cmdline)",
		with(measure.Field{Name: "parent", Type: measure.Number, Help: "process id of the " +
			"parent, 0 for none"}, word("user", "effective user, by /etc/passwd, or its number"),
			word("cgroup", "path of the control group"), word("command", "command line, at "+
				"most 4 KiB, or only the program if arguments are not recorded; empty for "+
				"kernel threads"), state))
	info.Fold = measure.Max
	return []measure.Stat{
		delta("process.cpu", measure.Nanoseconds, "CPU time of all threads, including ended "+
			"ones (taskstats or /proc/PID/schedstat, bounded by /proc/PID/stat)", with(mode)),
		delta("process.runwait", measure.Nanoseconds, "time that threads were ready and waited "+
			"for a CPU (taskstats or /proc/PID/schedstat)", with()),
		delta("process.delay", measure.Nanoseconds, "time that threads waited, by reason "+
			"(taskstats with delay accounting)", with(word("reason", "blkio swapin reclaim "+
			"thrashing compact wpcopy irq softirq"))),
		delta("process.switches", measure.Events, "context switches (taskstats or "+
			"/proc/PID/status)", with(kind)),
		delta("process.faults", measure.Events, "page faults (/proc/PID/stat)", with(fault)),
		delta("process.io", measure.Bytes, "bytes read from storage, and bytes written that "+
			"will reach it; those of unseen children are added when they are waited for "+
			"(/proc/PID/io)", with(word("direction", "read write"))),
		delta("process.calls.bytes", measure.Bytes, "bytes through read, write and similar "+
			"calls, including caches and pipes; children as in process.io (/proc/PID/io rchar, "+
			"wchar)", with(word("direction", "read write"))),
		delta("process.short", measure.Nanoseconds, "CPU time of children that were waited for "+
			"within the interval and that is in no row of process.cpu: of processes that ended "+
			"before they were seen, and the last part of others (/proc/PID/stat cutime, cstime)", with()),
		{
			ID:   "process.lost",
			Kind: measure.Delta,
			Unit: measure.Nanoseconds,
			Help: "CPU time (usr, nice, sys of /proc/stat) that is neither in process.cpu nor " +
				"in process.short: of processes that were not waited for, or that are not " +
				"visible here. Known to 20 ms for each CPU",
		},
		level("process.rss", measure.Bytes, "resident memory (/proc/PID/stat)", with()),
		level("process.threads", measure.Count, "threads (/proc/PID/stat)", with()),
		level("process.state", measure.Count, "1 for each process, by the state of its first "+
			"thread (/proc/PID/stat)", with(state)),
		info,
		visibilityStat(),
		level("process.files", measure.Count, "open file descriptors (/proc/PID/fd)", with()),
		level("process.files.limit", measure.Count, "file descriptors that a process may have "+
			"open; above that, open and accept fail with EMFILE (soft limit, /proc/PID/limits)", with()),
		level("process.count", measure.Count, "processes in each state", []measure.Field{state}),
		delta(
			"thread.cpu", measure.Nanoseconds, "CPU time of a thread; see process.cpu",
			thread(mode),
		),
		delta("thread.runwait", measure.Nanoseconds, "time that the thread was ready and "+
			"waited for a CPU", thread()),
		delta("thread.switches", measure.Events, "context switches of the thread", thread(kind)),
		delta("thread.faults", measure.Events, "page faults of the thread", thread(fault)),
	}
}

// Open opens /proc and chooses how to read the pulses. An error means that nothing can be measured.
// The caller closes the Reading.
func (c Processes) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	dir, err := proc.OpenProcDir(env.Root, "")
	if err != nil {
		return nil, err
	}
	r := &processReading{
		dir:         dir,
		root:        env.Root,
		spaces:      env.Namespaces,
		wants:       wantProcesses(want),
		programs:    env.Programs,
		now:         c.now,
		tick:        procfs.TickNanoseconds,
		page:        uint64(kernel.PageSize()),
		controllers: cgroupControllers(),
		reasons:     delayReasons(),
		buf:         make([]byte, 4096),
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
	if !c.files && env.Root.Proc == "" && r.sameNamespace() {
		r.taskstats, r.taskstatsErr = openTaskstats(int32(os.Getpid()))
		if r.taskstats != nil && r.sched && (env.Long || c.walk) {
			if r.walk = startTaskWalk(env.Root); c.walk {
				r.walk.wait()
			}
		}
	} else {
		r.taskstatsErr = measure.ErrUnsupported
	}
	r.self = int32(os.Getpid())
	r.hide = hidePID(dir, nil)
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

// mostFiles is how many files are kept open. Each uses 4 KiB of kernel memory for its text and
// about 1 KiB more.
const mostFiles = 8192

type processWants struct {
	runwait, delay, switches, io, calls, short, lost, rss, threads, state, info, count bool
	files, visibility                                                                  bool
	// of info
	user, cgroup, command  bool
	thread, threadSwitches bool
}

func wantProcesses(w collect.Want) processWants {
	p := processWants{
		runwait:        w.Stat("process.runwait"),
		delay:          w.Stat("process.delay"),
		switches:       w.Stat("process.switches"),
		io:             w.Stat("process.io"),
		calls:          w.Stat("process.calls.bytes"),
		short:          w.Stat("process.short"),
		lost:           w.Stat("process.lost"),
		rss:            w.Stat("process.rss"),
		threads:        w.Stat("process.threads"),
		state:          w.Stat("process.state"),
		info:           w.Stat("process.info"),
		count:          w.Stat("process.count"),
		files:          w.Stat("process.files", "process.files.limit"),
		visibility:     w.Stat("process.visibility"),
		thread:         w.Stat("thread.cpu", "thread.runwait", "thread.switches", "thread.faults"),
		threadSwitches: w.Stat("thread.switches"),
	}
	p.user, p.cgroup, p.command = w.Field("process.info", "user"), w.Field("process.info", "cgroup"), w.Field("process.info", "command")
	return p
}

type processReading struct {
	dir          *proc.Dir
	root         kernel.Root
	wants        processWants
	programs     bool // command lines without their arguments
	now          func() measure.Span
	tick, page   uint64 // nanoseconds, bytes
	taskstats    *taskstatsConn
	taskstatsErr error               // why taskstats are not used
	walk         *taskWalk           // in addition to taskstats; nil: not available
	spaces       *collect.Namespaces // nil: no collector uses them
	sched        bool                // schedstat counts
	delayAcct    bool
	lateDelays   bool // delay accounting was turned on after process 1 started
	kinds        int  // how many reasons of delays taskstats have
	keep         int  // how many more files may be kept open
	controllers  []string
	reasons      []string
	users        users
	stat         *proc.File // /proc/stat

	listed      measure.Span // time since boot of the previous listing
	base        bool         // first reading: nothing to compare with
	procs       []*process   // by pid
	other       []*process   // buffer for the next list
	asked       []*process   // processes asked for by taskstats
	deltas      []*processDelta
	used        int        // how many of deltas are in use
	opens       int        // files opened for pulses in this reading
	gone        []*process // ended within this interval
	pids        []int32
	tids        []int32
	onTaskStats func(i int, t *taskStats, err error)
	failed      error // error of a pulse
	buf         []byte
	text        []byte // buffer for cleaned text
	line        procStat
	fresh       cursor // whose stat line is read again
	facts       cursor // whose info is read again
	counts      cursor // whose open files are counted again
	lists       cursor // whose open files are listed again
	hide        string // option hidepid of /proc; "": none
	self        int32

	listFiles tristate // whether open files must be listed, as the kernel does not count them

	ended    uint64 // known processes that ended within this interval
	ioDenied bool   // /proc/PID/io of a process that ran may not be read

	hidden     bool // a process could not be read at all
	noSwitches bool // the status of a thread that ran does not have its switches
	noBlkio    bool // the stat line of a process that ran does not have disk waits
	noIO       bool // this kernel has no /proc/PID/io
	files      filesReading
	busy       lostClock
	tables     processTables
}

// process is one process, identified by pid and start: a reused pid is another process.
type process struct {
	pid          int32
	known        bool      // read before: there is something to compare with
	ran          bool      // ran within this interval, or is new: delta is set
	dead         bool      // found to have ended
	pulsed       bool      // task is of this reading
	split        bool      // has, or had, several threads, which are followed one by one
	stat         procStat  // without comm
	comm         string    // cleaned
	task         taskStats // the latest
	last         taskStats // the values that delta was counted from
	clock        cpuClock
	io           ioBytes
	hasIO        bool
	delta        *processDelta // of this interval, if it ran
	kids         children
	files        openFiles
	threads      []*thread  // threads whose pulse is read by files, and those of a split process
	file         *proc.File // stat
	ioFile       *proc.File
	pulse        *proc.File // schedstat, in addition to taskstats
	schedPulse   pulse      // its latest content
	walked       taskSigns  // signs of the latest walk, instead of both
	unsure       bool       // the walk cannot show whether it ran
	statStale    bool       // its stat line has changed without it running, and was not read again
	ranSinceInfo bool       // it ran since its info was read
	info         *processInfo
	name         labelPair
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
	r.walk.close()
	r.taskstats.close()
	r.stat.Close()
	r.dir.Close()
}

func (r *processReading) Read(out *collect.Out) error {
	r.base = out.First && !out.SinceBoot
	r.ended, r.ioDenied, r.hidden, r.failed = 0, false, false, nil
	r.noSwitches, r.noBlkio = false, false
	r.files = filesReading{}
	r.gone, r.used, r.opens = r.gone[:0], 0, 0
	now := r.now()
	if err := r.list(); err != nil {
		return err
	}
	if err := r.pulseByTaskstats(); err != nil {
		return err
	}
	for _, p := range r.procs {
		r.look(p, out)
	}
	r.listed = now
	r.subtractEnded()
	r.renew(out)
	r.renewFiles(out)
	r.put(out)
	r.forget()
	return nil
}

// errNoProcesses means that /proc is not mounted, or is empty.
var errNoProcesses = errors.New("/proc has no process: it is not mounted here, or is a " +
	"directory of another file system")

// list updates procs from /proc: ended ones go to gone, new ones are empty.
func (r *processReading) list() error {
	var err error
	if r.walk.look(r.dir) && r.walk.whole {
		r.pids = r.walk.list(r.pids[:0])
		r.spaces.Report(r.walk.nets)
	} else if r.pids, err = r.dir.ListPIDs(r.pids[:0]); err != nil {
		return err
	}
	if len(r.pids) == 0 { // at least this process should be there
		return errNoProcesses
	}
	if !slices.IsSorted(r.pids) {
		slices.Sort(r.pids)
	}
	old, next := r.procs, r.other[:0]
	for _, pid := range r.pids {
		for len(old) > 0 && old[0].pid < pid {
			r.markEnded(old[0])
			old = old[1:]
		}
		if len(old) > 0 && old[0].pid == pid {
			next, old = append(next, old[0]), old[1:]
			continue
		}
		next = append(next, &process{pid: pid})
	}
	for _, p := range old {
		r.markEnded(p)
	}
	clear(r.procs[len(r.procs):cap(r.procs)])
	r.procs, r.other = next, r.procs
	for _, p := range r.procs {
		p.ran, p.pulsed, p.delta = false, false, nil
	}
	return nil
}

// markEnded marks a process as ended.
func (r *processReading) markEnded(p *process) {
	if p.dead {
		return
	}
	p.dead = true
	if p.known {
		r.ended++
		r.gone = append(r.gone, p)
	}
	r.drop(p)
}

// drop closes the files of a process.
func (r *processReading) drop(p *process) {
	r.closeFile(&p.file)
	r.closeFile(&p.ioFile)
	r.closeFile(&p.pulse)
	for _, t := range p.threads {
		r.closeFile(&t.file)
	}
	p.threads = nil
}

func (r *processReading) closeFile(f **proc.File) {
	if *f != nil {
		(*f).Close()
		*f = nil
		r.keep++
	}
}

// forget removes ended processes from the list.
func (r *processReading) forget() {
	r.procs = slices.DeleteFunc(r.procs, func(p *process) bool { return p.dead })
}

// pulseByTaskstats finds the processes that ran, where taskstats work. For a process of one thread
// it first reads a schedstat file that is kept open, which is cheaper (1.9 us instead of 2.5). It
// asks taskstats for all that ran, that have several threads, or whose file cannot be kept.
func (r *processReading) pulseByTaskstats() error {
	if r.taskstats == nil {
		return nil
	}
	r.asked, r.pids = r.asked[:0], r.pids[:0]
	if r.walk.on() {
		r.pulseByWalk()
	}
	for _, p := range r.procs {
		if r.walk.on() {
			if p.ran || p.unsure || !p.known {
				r.asked, r.pids = append(r.asked, p), append(r.pids, p.pid)
			}
			continue
		}
		if p.known && p.stat.threads == 1 && r.sched &&
			(p.pulse != nil || r.keep > 0 && r.opens < opensAtOnce) {
			if p.pulse == nil {
				r.opens++
			}
			b, err := r.read(p, "schedstat", &p.pulse, true)
			now, ok := parseSched(b)
			if err == nil && ok && now == p.schedPulse {
				continue
			}
			p.ran = true
			if p.schedPulse = now; err != nil || !ok {
				p.schedPulse = pulse{}
				r.closeFile(&p.pulse)
			}
		} else if p.pulse != nil {
			r.closeFile(&p.pulse)
			p.schedPulse = pulse{}
		}
		r.asked, r.pids = append(r.asked, p), append(r.pids, p.pid)
	}
	if err := r.taskstats.get(taskstatsTGID, r.pids, r.onTaskStats); err != nil {
		return err
	}
	return r.failed
}

// opensAtOnce is how many files are opened in one reading for later pulses, at 10 to 40 us each.
// With thousands of processes the second reading would otherwise take a quarter of a second.
const opensAtOnce = 250

// taken stores the pulse of a process from taskstats.
func (r *processReading) taken(i int, t *taskStats, err error) {
	p := r.asked[i]
	switch {
	case err == nil:
		p.ran = p.ran || !p.known || p.task.pulse != t.pulse
		p.task, p.pulsed = *t, true
	// it has ended, or its first thread has: its file shows which
	case errors.Is(err, fs.ErrNotExist):
	default:
		r.failed = err
	}
}

// read reads a file of a process into r.buf. With keep it keeps the file open if it may.
func (r *processReading) read(
	p *process, name string, file **proc.File, keep bool,
) ([]byte, error) {
	var b []byte
	var err error
	if *file == nil && keep && r.keep > 0 {
		f, err := r.dir.OpenPID(p.pid, name)
		switch {
		case err == nil:
			*file = f
			r.keep--
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			r.keep = 0
		default:
			return nil, err
		}
	}
	if *file != nil {
		b, err = (*file).ReadOneInto(r.buf)
	} else {
		return r.readOnce(p.pid, name)
	}
	if cap(b) > cap(r.buf) {
		r.buf = b[:cap(b)]
	}
	return b, err
}

// readOnce is read without keeping the file open.
func (r *processReading) readOnce(pid int32, name string) ([]byte, error) {
	b, err := r.dir.ReadPIDOne(pid, name, r.buf)
	if cap(b) > cap(r.buf) {
		r.buf = b[:cap(b)]
	}
	return b, err
}

// readStat reads the stat line into r.line. If the process has ended it marks it as ended and returns
// false. A kept file of a reused pid fails (ESRCH), and a newly opened one shows another start.
func (r *processReading) readStat(p *process) bool {
	b, err := r.read(p, "stat", &p.file, p.known && p.ran)
	if err != nil && p.file != nil && errors.Is(err, fs.ErrNotExist) {
		r.closeFile(&p.file)
		b, err = r.readOnce(p.pid, "stat") // the pid may have been reused
	}
	switch {
	case err != nil:
		if !errors.Is(err, fs.ErrNotExist) {
			r.hidden = true
		}
		r.markEnded(p)
		return false
	case !r.line.parseStat(b):
		r.hidden = true
		r.markEnded(p)
		return false
	}
	return true
}

// look updates p.
func (r *processReading) look(p *process, out *collect.Out) {
	if r.taskstats == nil {
		r.pulseByFiles(p)
	}
	p.ran = p.ran || !p.known
	if !p.ran {
		return
	}
	p.ran = r.readStat(p)
	if p.ran && p.known && r.line.start != p.stat.start {
		r.replace(p)
		if r.taskstats == nil {
			r.pulseByFiles(p)
			p.ran = r.readStat(p) // the pulse overwrote r.line
		}
	}
	if !p.ran {
		return
	}
	before, fresh := p.stat, !p.known
	r.takeStat(p)
	p.statStale, p.ranSinceInfo = false, true
	if fresh {
		before = procStat{}
	}
	// A new process was born after the previous listing, or it would be in it; its start is cut to
	// a tick. It counts from zero. If its start is older, it was hidden before, or was restored
	// from a checkpoint under an old pid. Then there is nothing to compare with.
	born := fresh && !r.base && (out.First || measure.Span((p.stat.start+1)*r.tick) >= r.listed)
	compare := !fresh || born
	p.known, p.delta = true, r.blank()
	r.lookThreads(p, &before, compare)
	r.count(p, &before, compare)
	r.lookIO(p, fresh, compare)
	if !compare {
		p.ran, p.delta, p.kids = false, nil, children{}
		r.used--
	}
}

// blank returns a delta of zeros, which the next reading reuses: few of many processes run.
func (r *processReading) blank() *processDelta {
	if r.used == len(r.deltas) {
		r.deltas = append(r.deltas, new(processDelta))
	}
	d := r.deltas[r.used]
	*d = processDelta{}
	r.used++
	return d
}

// takeStat stores the line that was read.
func (r *processReading) takeStat(p *process) {
	r.text = appendClean(r.text[:0], stableName(&r.line))
	p.stat = r.line
	p.stat.comm = nil
	if p.comm != string(r.text) {
		p.comm = string(r.text)
		p.name = labelPair{}
		if p.info != nil {
			p.info.stale = true // most likely another program
		}
	}
}

// replace replaces an ended process by the one that has its pid now.
func (r *processReading) replace(p *process) {
	dead := *p
	r.markEnded(&dead)
	*p = process{pid: p.pid, ran: true, task: p.task, pulsed: p.pulsed, walked: p.walked}
}

// count sets the deltas of what stat and taskstats have.
func (r *processReading) count(p *process, before *procStat, compare bool) {
	s, d := &p.stat, p.delta
	u, y := s.usr*r.tick, s.sys*r.tick
	run, exact := r.runTime(p)
	if compare {
		usr, sys := p.clock.advance(run, exact, u, y)
		d.usr, d.sys = float64(usr), float64(sys)
	} else {
		p.clock.start(run, exact, u, y)
	}
	d.minor, d.major = growth(s.minor, before.minor), growth(s.major, before.major)
	p.kids.look(s, before, r.tick)
	if r.taskstats == nil || !p.pulsed {
		r.noBlkio = r.noBlkio || !s.hasBlkio
		// of the first thread only: complete for a process of one thread
		if r.delayAcct && s.hasBlkio {
			d.kinds = commonDelays
			for i := range d.delays {
				d.delays[i] = measure.NaN
			}
			if s.threads == 1 {
				d.delays[0] = growth(s.blkio, before.blkio) * float64(r.tick)
			}
		}
		return
	}
	t, last := &p.task, &p.last
	if s.state == 'Z' {
		// Taskstats leave out ended processes. Until one is waited for, its files have its last
		// values.
		d.wait, d.voluntary, d.involuntary = r.zombie(p)
	} else {
		d.wait = growth(t.wait, last.wait)
		d.voluntary, d.involuntary = switchesGrown(t, last, s.threads)
	}
	if r.delayAcct {
		d.kinds, r.kinds = t.kinds, t.kinds
		if p.pid == 1 {
			r.lateDelays = t.delays == [delayKinds]uint64{}
		}
		for i := range t.kinds {
			if s.state != 'Z' {
				d.delays[i] = growth(t.delays[i], last.delays[i])
			}
		}
	}
	if s.state != 'Z' {
		p.last = p.task
	}
}

// zombie returns the last waits and switches of a process that has ended and was not waited for, if
// it had one thread; NaN otherwise. It is called once.
func (r *processReading) zombie(p *process) (wait, voluntary, involuntary float64) {
	if p.last.kinds < 0 { // called before
		return 0, 0, 0
	}
	last := p.last
	p.last = taskStats{kinds: -1}
	b, err := r.readOnce(p.pid, "schedstat")
	now, ok := parseSched(b)
	if err != nil || !ok || now.count < last.count {
		return measure.NaN, measure.NaN, measure.NaN
	}
	b, err = r.readOnce(p.pid, "status")
	v, i, ok := parseSwitches(b)
	if err != nil || !ok {
		return growth(now.wait, last.wait), measure.NaN, measure.NaN
	}
	return growth(now.wait, last.wait), growth(v, last.voluntary), growth(i, last.involuntary)
}

// runTime returns the run time of p; exact is false if it is not known.
func (r *processReading) runTime(p *process) (run uint64, exact bool) {
	if r.taskstats != nil && p.pulsed {
		return p.task.run, p.stat.state != 'Z'
	}
	for _, t := range p.threads {
		run += t.now.run
	}
	return run, r.sched && len(p.threads) > 0
}

// growth returns the growth of a counter; NaN if it decreased.
func growth(now, before uint64) float64 {
	if now < before {
		return measure.NaN
	}
	return float64(now - before)
}

// switchesGrown returns the growth of voluntary and involuntary switches of a process. The kernel
// drops those of threads that end, but keeps how often they were put on a CPU. Each time they leave
// it is a switch, and the last one of a thread is voluntary.
func switchesGrown(now, last *taskStats, threads uint64) (voluntary, involuntary float64) {
	if now.count < last.count {
		return measure.NaN, measure.NaN
	}
	v, i := int64(now.voluntary-last.voluntary), int64(now.involuntary-last.involuntary)
	if c := int64(now.count - last.count); v < 0 || i < 0 || v+i+2*int64(threads) < c {
		i = min(max(i, 0), c)
		v = c - i
	}
	return float64(v), float64(i)
}

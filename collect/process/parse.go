package process

import (
	"bytes"
	"math"
	"unicode/utf8"

	"culprit/collect/procfs"
	"culprit/kernel/proc"
)

// procStat has the used columns of /proc/PID/stat (proc_pid_stat(5), do_task_stat in
// fs/proc/array.c). /proc/PID/task/TID/stat has the same columns for one thread.
type procStat struct {
	// part of the text; up to 15 bytes of anything but NUL (up to 63 for kernel workers)
	comm         []byte
	state        byte   // R S D T t Z X I P
	parent       int32  // 0: none that is visible here
	minor, major uint64 // page faults, including ended threads
	// ticks, including ended threads; the sum is the run time, its division into parts is sampled
	usr, sys uint64
	childStat
	schedule
	threads uint64
	start   uint64 // ticks since boot
	// pages; counted by CPU, so off by up to 64 pages for each CPU since Linux 6.2
	rss     uint64
	virtual uint64 // bytes of address space
	diskWait
	kernel, worker bool // PF_KTHREAD, PF_WQ_WORKER
}

// childStat has the columns that count children that were waited for, and theirs.
type childStat struct {
	childMinor         uint64 // page faults; each child has some, so it grows with each
	childUsr, childSys uint64 // ticks
}

// schedule is how the scheduler ranks the first thread.
type schedule struct {
	// 20 + nice of normal threads; below 0 of real-time ones: -1 minus their priority, -2 to -100
	priority int32
	nice     int32  // -20 to 19
	cpu      int32  // on which it ran last, or waits
	realtime uint64 // priority of a real-time thread, 1 to 99; 0: it is none, or SCHED_DEADLINE
	policy   uint64 // sched(7)
}

// diskWait is the ticks that the first thread waited for a disk; only with delay accounting.
type diskWait struct {
	blkio    uint64
	hasBlkio bool
}

// Flags of a task, include/linux/sched.h.
const (
	flagWorker       = 0x00000020 // PF_WQ_WORKER
	flagKernelThread = 0x00200000 // PF_KTHREAD
)

// parseStat parses a stat line. It returns false for anything else. The name may contain spaces,
// parentheses and newlines, so it ends at the last ')' of the text: only numbers and one letter
// follow.
func (s *procStat) parseStat(b []byte) bool {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return false
	}
	comm := b[open+1 : end]
	c := proc.Scan(b[end+1:])
	state := c.Word()
	// "R", "S" ... (task_state_array in fs/proc/array.c)
	if len(state) != 1 || state[0]|0x20 < 'a' || state[0]|0x20 > 'z' {
		return false
	}
	*s = procStat{comm: comm, state: state[0]}
	s.parent = int32(min(max(c.Int(), 0), math.MaxInt32))
	c.Skip(4) // pgrp session tty_nr tpgid
	flags := c.Uint()
	s.kernel, s.worker = flags&flagKernelThread != 0, flags&flagWorker != 0
	s.minor, s.childMinor = c.Uint(), c.Uint()
	s.major = c.Uint()
	c.Skip(1)
	s.usr, s.sys = c.Uint(), c.Uint()
	s.childUsr, s.childSys = uint64(max(c.Int(), 0)), uint64(max(c.Int(), 0))
	s.priority, s.nice = small(c.Int()), small(c.Int())
	s.threads = c.Uint()
	c.Skip(1)
	s.start = c.Uint()
	s.virtual = c.Uint()
	s.rss = uint64(max(c.Int(), 0))
	if c.Err() != nil {
		return false
	}
	c.Skip(14) // rsslim .. exit_signal
	s.cpu = small(c.Int())
	s.realtime, s.policy = c.Uint(), c.Uint()
	if c.More() {
		s.blkio = c.Uint()
		s.hasBlkio = c.Err() == nil
	}
	return true
}

// small returns a number that fits into 32 bits, or the nearest one that does.
func small(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// stableName returns the name of a process without the current work of a kernel worker:
// "kworker/0:1-events" has the name kworker/0:1 (wq_worker_comm in kernel/workqueue.c). Otherwise
// each piece of work would make another row.
func stableName(s *procStat) []byte {
	const prefix = "kworker/"
	if s.worker && bytes.HasPrefix(s.comm, []byte(prefix)) {
		if i := bytes.IndexAny(s.comm, "-+"); i > len(prefix) {
			return s.comm[:i]
		}
	}
	return s.comm
}

// parseSched parses /proc/PID/schedstat of one thread: nanoseconds on a CPU, nanoseconds waited for
// one, times run. All are 0 if the kernel does not count them.
func parseSched(b []byte) (p pulse, ok bool) {
	c := proc.Scan(b)
	p = pulse{run: c.Uint(), wait: c.Uint(), count: c.Uint()}
	return p, c.Err() == nil
}

// parseSwitches returns the context switches of one thread in /proc/PID/status or
// .../task/TID/status. They are at the end.
func parseSwitches(b []byte) (voluntary, involuntary uint64, ok bool) {
	at := bytes.LastIndex(b, []byte("\nvoluntary_ctxt_switches:"))
	if at < 0 {
		return 0, 0, false
	}
	c := proc.Scan(b[at+1:])
	c.Until(':')
	voluntary = c.Uint()
	c.NextLine()
	if string(c.Until(':')) != "nonvoluntary_ctxt_switches" {
		return 0, 0, false
	}
	involuntary = c.Uint()
	return voluntary, involuntary, c.Err() == nil
}

// parseUID returns the effective user in /proc/PID/status.
func parseUID(b []byte) (uint32, bool) {
	if !bytes.HasPrefix(b, []byte("Uid:")) {
		at := bytes.Index(b, []byte("\nUid:"))
		if at < 0 {
			return 0, false
		}
		b = b[at+1:]
	}
	c := proc.Scan(b)
	c.Skip(2)
	v := c.Uint()
	return uint32(v), c.Err() == nil && v <= 1<<32-1
}

// ioBytes has the used lines of /proc/PID/io, in bytes. They include children that were waited for.
type ioBytes struct{ rchar, wchar, read, write uint64 }

func parseIO(b []byte) (io ioBytes, ok bool) {
	found := 0
	for c := proc.Scan(b); !c.End(); c.NextLine() {
		var to *uint64
		switch string(c.Until(':')) {
		case "rchar":
			to = &io.rchar
		case "wchar":
			to = &io.wchar
		case "read_bytes":
			to = &io.read
		case "write_bytes":
			to = &io.write
		default:
			continue
		}
		if *to = c.Uint(); c.Err() != nil {
			return io, false
		}
		found++
	}
	return io, found == 4
}

func (a ioBytes) add(b ioBytes) ioBytes {
	return ioBytes{a.rchar + b.rchar, a.wchar + b.wchar, a.read + b.read, a.write + b.write}
}

// cgroupControllers returns the version 1 controllers whose hierarchies are tried in this order, if
// the process is in the root of version 2.
func cgroupControllers() []string {
	return []string{"cpu", "cpuacct", "memory", "name=systemd", "pids"}
}

// parseCgroup returns the most specific cgroup of a process in /proc/PID/cgroup: its path in the
// unified hierarchy; if that is the root, the first path of version 1's cpu, cpuacct, memory,
// systemd, pids that is not the root; else "/". The path is part of b. It is nil if there is no
// cgroup.
//
//	hierarchy:controller,controller:/path
func parseCgroup(b []byte, controllers []string) []byte {
	var best []byte
	rank := len(controllers) + 1
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		first := bytes.IndexByte(line, ':')
		if first < 0 {
			continue
		}
		second := bytes.IndexByte(line[first+1:], ':')
		if second < 0 {
			continue
		}
		names, path := line[first+1:first+1+second], line[first+2+second:]
		if best == nil && len(path) > 0 {
			best = path[:1] // "/"
		}
		if len(path) <= 1 {
			continue
		}
		if len(names) == 0 { // v2
			return path
		}
		for len(names) > 0 {
			name := names
			if i := bytes.IndexByte(names, ','); i >= 0 {
				name, names = names[:i], names[i+1:]
			} else {
				names = nil
			}
			for i, c := range controllers[:min(rank, len(controllers))] {
				if string(name) == c {
					best, rank = path, i
				}
			}
		}
	}
	return best
}

// appendClean appends text of unknown origin as valid UTF-8 without control characters. NULs
// between arguments become spaces.
func appendClean(dst, text []byte) []byte {
	for len(text) > 0 {
		c := text[0]
		if c < utf8.RuneSelf {
			switch {
			case c == 0 || c == '\n' || c == '\t':
				c = ' '
			case c < ' ' || c == 0x7f:
				c = '?'
			}
			dst, text = append(dst, c), text[1:]
			continue
		}
		r, n := utf8.DecodeRune(text)
		if r >= 0x80 && r < 0xa0 { // C1 controls: terminals obey them
			r = '?'
		}
		dst, text = utf8.AppendRune(dst, r), text[n:]
	}
	return dst
}

// appendCommand appends a clean command line: arguments separated by one space, nothing after the
// last.
func appendCommand(dst, cmdline []byte) []byte {
	return appendClean(dst, bytes.TrimRight(cmdline, "\x00"))
}

// programOf returns the program of a command line. A process that overwrites its arguments, as
// PostgreSQL and nginx do, has one text instead of them. Of that text it returns the first word.
func programOf(cmdline []byte) []byte {
	program, rest, _ := bytes.Cut(cmdline, []byte{0})
	if len(bytes.Trim(rest, "\x00")) == 0 {
		program, _, _ = bytes.Cut(program, []byte(" "))
	}
	return program
}

package collect

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Descriptors counts the open file descriptors of processes that are near the most they may have: a server at its limit can't
// accept a connection or open a file (EMFILE). All processes are looked at in turn, those near their limit at each reading.
type Descriptors struct{}

const (
	// descriptorsNear is the share of its limit from which a process has a row.
	descriptorsNear = 0.5
	// renewDescriptors is how many seconds it takes until all processes have been looked at again.
	renewDescriptors = 10
	// mostDescribed is how many processes are looked at in one reading: 20 microseconds each.
	mostDescribed = 2000
	// mostNear is how many processes have rows.
	mostNear = 200
)

// Stats lists process.descriptors and its limit.
func (Descriptors) Stats() []measure.Stat {
	fields := []measure.Field{{Name: "pid", Type: measure.Number, Help: "process id"},
		{Name: "process", Type: measure.Word, Help: "name of the program: 15 bytes, changed by the process at will"}}
	return []measure.Stat{
		{ID: "process.descriptors", Kind: measure.Level, Unit: measure.Count, Fields: fields,
			Help: "open file descriptors, of processes that have at least half of what they may (/proc/PID/fd); each is looked at every 10 seconds"},
		{ID: "process.descriptors.limit", Kind: measure.Level, Unit: measure.Count, Fields: fields,
			Help: "the most file descriptors that a process of process.descriptors may have open (/proc/PID/limits, RLIMIT_NOFILE)"},
	}
}

// Open opens /proc.
func (Descriptors) Open(env *Env, want Want) (Reading, error) {
	dir, err := env.Root.OpenProcDir("")
	if err != nil {
		return nil, err
	}
	return &descriptorReading{root: env.Root, dir: dir}, nil
}

type descriptorReading struct {
	root   kernel.Root
	dir    *kernel.Dir
	pids   []int32
	turn   cursor
	near   []described
	buf    []byte
	hidden bool // some processes could not be looked at
}

// described is a process near its limit.
type described struct {
	pid         int32
	open, limit uint64
}

func (r *descriptorReading) Read(out *Out) error {
	n := mostDescribed
	if !out.First {
		n = min(r.turn.due(len(r.pids), out.Over().Seconds()/renewDescriptors), mostDescribed)
	}
	near := r.near[:0]
	for _, p := range r.near {
		if p, ok := r.look(p.pid); ok {
			near = append(near, p)
		}
	}
	r.near = near
	for range n {
		if r.turn.at >= len(r.pids) {
			if len(r.pids) > 0 && out.First {
				break // all were looked at
			}
			var err error
			if r.pids, err = r.dir.ListPIDs(r.pids[:0]); err != nil {
				return err
			}
			if r.turn.at, r.hidden = 0, false; len(r.pids) == 0 {
				break
			}
		}
		pid := r.pids[r.turn.next(len(r.pids))]
		if len(r.near) < mostNear && !slices.ContainsFunc(r.near, func(d described) bool { return d.pid == pid }) {
			if p, ok := r.look(pid); ok {
				r.near = append(r.near, p)
			}
		}
	}
	r.put(out)
	return nil
}

func (r *descriptorReading) put(out *Out) {
	open, limit := out.Table("process.descriptors"), out.Table("process.descriptors.limit")
	for _, p := range r.near {
		comm, err := r.dir.ReadPIDOne(p.pid, "comm", r.buf)
		if err != nil {
			continue // it has ended
		}
		r.buf = comm[:cap(comm)]
		pid, name := out.Number(int64(p.pid)), out.LabelBytes(appendClean(nil, bytes.TrimSuffix(comm, []byte("\n"))))
		open.Put(float64(p.open), pid, name)
		limit.Put(float64(p.limit), pid, name)
	}
	if r.hidden {
		const text = "the open files of some processes may not be counted by this user"
		open.Note(text)
		limit.Note(text)
	}
}

// look counts the descriptors of a process; ok where it is near its limit.
func (r *descriptorReading) look(pid int32) (p described, ok bool) {
	b, err := r.dir.ReadPID(pid, "limits", r.buf)
	if err != nil {
		r.hidden = r.hidden || errors.Is(err, fs.ErrPermission)
		return p, false
	}
	limit, ok := parseOpenFiles(b)
	r.buf = b[:cap(b)]
	if !ok {
		return p, false
	}
	open, err := r.count(pid)
	if err != nil {
		r.hidden = r.hidden || errors.Is(err, fs.ErrPermission)
		return p, false
	}
	return described{pid, open, limit}, float64(open) >= descriptorsNear*float64(limit)
}

// count returns how many descriptors a process has open: the size of /proc/PID/fd since Linux 6.2, before that its entries.
func (r *descriptorReading) count(pid int32) (uint64, error) {
	name := strconv.Itoa(int(pid)) + "/fd"
	if r.root.Real() {
		var st unix.Stat_t
		if err := unix.Stat(r.root.InProc(name), &st); err != nil {
			return 0, err
		}
		if st.Size > 0 {
			return uint64(st.Size), nil
		}
	}
	dir, err := r.root.OpenProcDir(name)
	if err != nil {
		return 0, err
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	n := uint64(0)
	err = dir.Names(func(name []byte, _ bool) bool {
		if len(name) > 0 && name[0] != '.' {
			n++
		}
		return true
	})
	return n, err
}

// parseOpenFiles returns the soft limit of open files in /proc/PID/limits; not ok where there is none or it is unlimited.
func parseOpenFiles(b []byte) (limit uint64, ok bool) {
	const name = "Max open files"
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		if rest, found := bytes.CutPrefix(line, []byte(name)); found {
			c := kernel.Scan(rest)
			limit = c.Uint()
			return limit, c.Err() == nil && limit > 0
		}
	}
	return 0, false
}

func (r *descriptorReading) Close() { r.dir.Close() } //nolint:errcheck // nothing was written

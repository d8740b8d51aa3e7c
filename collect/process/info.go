package process

import (
	"bytes"
	"hash/crc64"
	"os"
	"strconv"
	"time"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// processInfo is the description of a process: process.info.
type processInfo struct {
	stale                 bool
	uid                   uint32
	user, cgroup, command string
	epoch                 int // Out.Epoch of the labels, plus one
	userL, cgroupL        measure.Label
	commandL              measure.Label
	raw                   uint64 // checksum of the command line as it was read
	parentL, stateL       measure.Label
	parent                int32
	state                 byte
}

// readInfo reads the wanted fields of process.info. What cannot be read stays as it was, or "".
func (r *processReading) readInfo(p *process) {
	i := p.info
	fresh := i == nil
	if fresh {
		i = &processInfo{uid: ^uint32(0)}
		p.info = i
	}
	// between fork and execve it still has its parent's program
	i.stale = fresh && p.ran && r.listed > 0 &&
		measure.Span((p.stat.start)*r.tick)+2*measure.Second > r.listed
	i.epoch, p.ranSinceInfo = 0, false
	if r.wants.user {
		if b, err := r.readOnce(p.pid, "status"); err == nil {
			if uid, ok := parseUID(b); ok && uid != i.uid {
				i.uid, i.user = uid, r.users.name(uid)
			}
		}
	}
	if r.wants.cgroup {
		if b, err := r.dir.ReadPID(p.pid, "cgroup", r.buf); err == nil {
			r.text = appendClean(r.text[:0], parseCgroup(b, r.controllers))
			if i.cgroup != string(r.text) {
				i.cgroup = string(r.text)
			}
			r.buf = b[:cap(b)]
		}
	}
	if r.wants.command && !p.stat.kernel {
		if b, ok := r.readLocked(p.pid, "cmdline", 0); ok {
			r.setCommand(i, b)
		}
	}
}

// commandSums is the table of checksums of command lines.
//
// table: never changed
var commandSums = crc64.MakeTable(crc64.ECMA)

// setCommand sets the command of a process to a command line, without its secrets.
func (r *processReading) setCommand(i *processInfo, b []byte) {
	if r.programs {
		b = programOf(b)
	} else {
		sum := crc64.Checksum(b, commandSums)
		if sum == i.raw && i.command != "" {
			return // masking takes longer
		}
		i.raw = sum
		b = r.masks.Mask(b)
	}
	r.text = appendCommand(r.text[:0], b)
	if i.command != string(r.text) {
		i.command = string(r.text)
	}
}

func (i *processInfo) put(out *collect.Out, t *processTables, p *process) {
	if i.epoch != out.Epoch+1 {
		i.epoch = out.Epoch + 1
		i.userL, i.cgroupL, i.commandL = out.Label(i.user), out.Label(
			i.cgroup,
		), out.Label(i.command)
		i.state, i.parent = 0, -1
	}
	if i.parent != p.stat.parent {
		i.parent, i.parentL = p.stat.parent, out.Number(int64(p.stat.parent))
	}
	if i.state != p.stat.state {
		i.state, i.stateL = p.stat.state, t.letter(out, p.stat.state)
	}
	pid, name := p.name.of(out, p.pid, p.comm)
	t.info.Put(1, pid, name, i.parentL, i.userL, i.cgroupL, i.commandL, i.stateL)
}

// users maps user IDs to names by a file like /etc/passwd. It reads the file again if it changed
// and does not have a user.
type users struct {
	path    string
	names   map[uint32]string
	changed time.Time
}

// name returns the name of a user, or its ID in digits if the file does not have it, as with users
// of a directory service or a container.
func (u *users) name(uid uint32) string {
	if n, ok := u.names[uid]; ok {
		return n
	}
	if u.names == nil {
		u.names = map[uint32]string{}
	}
	if info, err := os.Stat(u.path); err == nil && !info.ModTime().Equal(u.changed) {
		u.changed = info.ModTime()
		clear(u.names)
		if b, err := proc.ReadFile(u.path, nil); err == nil {
			parsePasswd(b, u.names)
		}
		if n, ok := u.names[uid]; ok {
			return n
		}
	}
	n := strconv.FormatUint(uint64(uid), 10)
	u.names[uid] = n
	return n
}

// parsePasswd parses passwd(5): name:password:uid:... The first name of an ID counts.
func parsePasswd(b []byte, names map[uint32]string) {
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		name, rest, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || name[0] == '+' || name[0] == '-' || name[0] == '#' {
			continue
		}
		_, rest, _ = bytes.Cut(rest, []byte(":"))
		number, _, _ := bytes.Cut(rest, []byte(":"))
		uid, err := proc.ParseUint(number)
		if err != nil || uid > 1<<32-1 {
			continue
		}
		if _, has := names[uint32(uid)]; !has {
			names[uint32(uid)] = string(appendClean(nil, name))
		}
	}
}

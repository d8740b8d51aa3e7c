package perfdata

import (
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// The modes in which code runs, in miscMode.
const (
	modeKernel = 1
	modeUser   = 2
)

// A Binary is a file with code.
type Binary struct {
	Name    string // such as /usr/bin/app, [kernel.kallsyms], [vdso]
	BuildID string // in hexadecimal; "": unknown. Complete when Read returns
	Inode   uint64 // of a dump of generated code; 0: unknown
}

// A Mapping is a file that is mapped into the memory of a process, or a part of the kernel.
type Mapping struct {
	*Binary
	Symbol     string // the only function in it, such as a BPF program; "": there may be more
	Start, End uint64
	Offset     uint64 // of Start in the file
}

// A world is the state of all processes at one moment of the file.
type world struct {
	r          *reader
	ids        map[uint64]int    // id of a sample -> index of File.Events
	identified map[string]string // file -> build ID
	processes  map[int]*process
	commands   map[int]string // of threads
	kernel     []*Mapping     // sorted, without overlaps
	binaries   map[Binary]*Binary
	frames     []Frame // of a sample
}

// A process has the mappings of one. Children share those of their parent until one changes them.
type process struct {
	maps   []*Mapping // sorted, without overlaps
	shared bool
	dump   *Binary // the dump of generated code that it has mapped; nil: there is none
}

// maxMaps is how many mappings a process can have: the kernel's own default limit.
const maxMaps = 65530

func newWorld(r *reader) world {
	return world{
		r: r, ids: map[uint64]int{}, identified: map[string]string{},
		processes: map[int]*process{}, commands: map[int]string{}, binaries: map[Binary]*Binary{},
	}
}

// apply handles a record whose turn has come.
func (r *reader) apply(b []byte, event int) error {
	w, misc := &r.world, binary.LittleEndian.Uint16(b[4:])
	in := fields{b: b[recordHead:]}
	switch binary.LittleEndian.Uint32(b) {
	case recordSample:
		return r.sample(b, event)
	case recordMmap, recordMmap2:
		w.mapped(b, misc)
	case recordKsymbol:
		w.symbol(in.b)
	case recordComm:
		pid, tid := in.pair()
		if misc&miscExec != 0 {
			w.processes[pid] = &process{}
		}
		w.r.charge(64)
		w.commands[tid] = cString(in.b)
	case recordFork:
		pid, parent := in.pair()
		tid, parentThread := in.pair()
		w.forked(pid, parent, tid, parentThread)
	case recordExit:
		if pid, _ := in.pair(); !in.short {
			if tid, _ := in.pair(); tid != pid {
				delete(w.commands, tid)
			}
		}
	case recordLost:
		in.u64()
		r.file.Lost += in.u64()
	case recordLostSamples:
		r.file.Lost += in.u64()
	}
	return nil
}

// forked handles a new thread or process.
func (w *world) forked(pid, parent, tid, parentThread int) {
	w.r.charge(64)
	if name, ok := w.commands[parentThread]; ok {
		w.commands[tid] = name
	}
	if pid == parent {
		return
	}
	if p := w.processes[parent]; p != nil {
		p.shared = true
		w.processes[pid] = &process{maps: p.maps, shared: true, dump: p.dump}
	}
}

// dumpName matches the names of files in which just-in-time compilers describe their code. They map
// a page of the file as code.
var dumpName = regexp.MustCompile(`/jit-\d+\.dump$`)

// mapped handles a record about a mapping.
func (w *world) mapped(b []byte, misc uint16) {
	in := fields{b: b[recordHead:]}
	pid, _ := in.pair()
	m := &Mapping{Start: in.u64()}
	size := in.u64()
	m.Offset = in.u64()
	var of Binary
	inode := uint64(0)
	if binary.LittleEndian.Uint32(b) == recordMmap2 {
		id := in.b
		in.skip(4)
		switch {
		case in.short:
		case misc&miscBuildID != 0:
			of.BuildID = hex.EncodeToString(id[4:][:min(id[0], 20)])
		default: // major and minor number of the device, inode
			inode = binary.LittleEndian.Uint64(id[8:])
		}
	}
	if in.short || size == 0 || m.Start+size < m.Start {
		return
	}
	m.End, of.Name = m.Start+size, cString(in.b)
	if misc&miscMode != modeKernel && pid != -1 {
		isDump := dumpName.MatchString(of.Name)
		if isDump {
			of.Inode = inode
		}
		m.Binary = w.binary(of)
		w.mapUser(pid, m)
		if p := w.processes[pid]; isDump && p != nil {
			p.dump = m.Binary
		}
		return
	}
	// The kernel's own text is named after the symbol whose address Offset has: _text.
	if name, symbol, ok := strings.Cut(of.Name, "]_"); ok && strings.HasPrefix(name, "[kernel") {
		of.Name = name + "]"
		if symbol == "text" || symbol == "stext" {
			w.r.file.KernelText = m.Offset
		}
	}
	m.Binary = w.binary(of)
	w.mapKernel(m)
}

// recordKsymbol is a record about a function that the kernel got at run time.
const recordKsymbol = 17

// symbol handles one: address, length, type, flags and name.
func (w *world) symbol(b []byte) {
	if len(b) < 16 {
		return
	}
	m := &Mapping{Start: binary.LittleEndian.Uint64(b), Symbol: cString(b[16:])}
	m.End = m.Start + uint64(binary.LittleEndian.Uint32(b[8:]))
	if removed := b[14]&1 != 0; removed || m.End <= m.Start {
		return // what it named stays named: samples of it precede
	}
	m.Binary = w.binary(Binary{Name: "[bpf]"})
	w.mapKernel(m)
}

// mapKernel adds a mapping of the kernel.
func (w *world) mapKernel(m *Mapping) {
	if len(w.kernel) >= maxMaps {
		return
	}
	w.r.charge(mappingBytes)
	w.kernel = insert(w.kernel, m)
}

// mapUser adds a mapping of a process.
func (w *world) mapUser(pid int, m *Mapping) {
	p := w.processes[pid]
	if p == nil {
		p = &process{}
		w.processes[pid] = p
	}
	if len(p.maps) >= maxMaps {
		return
	}
	if p.shared {
		w.r.charge(8 * len(p.maps))
		p.maps, p.shared = slices.Clone(p.maps), false
	}
	w.r.charge(mappingBytes)
	p.maps = insert(p.maps, m)
}

// mappingBytes is about what a mapping takes.
const mappingBytes = 80

// binary returns the one Binary of a name and a build ID.
func (w *world) binary(b Binary) *Binary {
	known, ok := w.binaries[b]
	if !ok {
		w.r.charge(200 + len(b.Name))
		known = &b
		w.binaries[b] = known
	}
	return known
}

// identify sets the build IDs that the file lists behind its data.
func (w *world) identify() {
	for _, b := range w.binaries {
		if b.BuildID == "" {
			b.BuildID = w.identified[b.Name]
		}
	}
	w.r.file.KernelBuildID = w.identified["[kernel.kallsyms]"]
}

// insert adds a mapping to sorted ones. Those that it covers are cut or removed.
func insert(all []*Mapping, m *Mapping) []*Mapping {
	from, _ := slices.BinarySearchFunc(all, m.Start, func(o *Mapping, start uint64) int {
		if o.End <= start {
			return -1
		}
		return 1
	})
	to := from
	var parts []*Mapping
	for ; to < len(all) && all[to].Start < m.End; to++ {
		old := all[to]
		if old.Start < m.Start {
			before := *old
			before.End = m.Start
			parts = append(parts, &before)
		}
	}
	parts = append(parts, m)
	if to > from {
		if old := all[to-1]; old.End > m.End {
			behind := *old
			behind.Offset += m.End - old.Start
			behind.Start = m.End
			parts = append(parts, &behind)
		}
	}
	return slices.Replace(all, from, to, parts...)
}

// frame returns the frame of an address.
func (w *world) frame(pid int, mode uint16, addr uint64, isReturn bool) Frame {
	f := Frame{Addr: addr, Kernel: mode == modeKernel, Return: isReturn}
	at := addr
	if isReturn && at > 0 {
		at--
	}
	switch mode {
	case modeKernel:
		f.Map = find(w.kernel, at)
	case modeUser:
		if p := w.processes[pid]; p != nil {
			f.Map = find(p.maps, at)
		}
	}
	return f
}

// find returns the mapping of an address; nil: there is none.
func find(all []*Mapping, addr uint64) *Mapping {
	i, _ := slices.BinarySearchFunc(all, addr, func(m *Mapping, addr uint64) int {
		if m.End <= addr {
			return -1
		}
		return 1
	})
	if i < len(all) && all[i].Start <= addr {
		return all[i]
	}
	return nil
}

// command returns the command of a thread, or that of its process; "": unknown. A thread that is
// about to end has no number: -1.
func (w *world) command(pid, tid int) string {
	if tid < 0 {
		return ""
	}
	if name, ok := w.commands[tid]; ok {
		return name
	}
	return w.commands[pid]
}

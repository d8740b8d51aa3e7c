package symbol

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"runtime"
	"strings"

	"culprit/kernel"
	"culprit/kernel/proc"
)

// An Executed is an executable range of a process's memory.
type Executed struct {
	Start, End uint64
	Bias       uint64       // an address less this is the file's own
	Table      *UnwindTable // the same one for all processes that have the file; nil: none
	Why        NoTable      // there is none
	Pointers   bool         // what Table says nothing of has frame pointers
	Kernel     bool         // the code is the kernel's, mapped into every process: the vDSO
}

// NoTable is the reason why there is no table.
type NoTable uint8

const (
	NotInFile NoTable = iota // the file has none, or can't be read
	Generated                // no file: what a just-in-time compiler made
	ByPointer                // a program of Go: all of its functions have frame pointers
	TooLarge                 // the file has more rows than are read
)

// An unwound is what was read of a file for unwinding.
type unwound struct {
	code  []segment // that is executed
	table *UnwindTable
	why   NoTable
	isGo  bool
	gaps  []span      // code that only our table describes
	sum   frameDigest // of that code
}

// Unwinding reads the unwind tables of processes. A file is read once for all processes that map
// it. It is used by one goroutine.
type Unwinding struct {
	ps      *Processes
	files   map[fileKey]*unwound
	same    map[frameDigest]*unwound // of files with one content, such as those of containers
	vdso    *unwound
	load    UnwindLoader
	buffers unwindBuffers
}

// unwindBuffers is the buffers for sections, which are reused.
type unwindBuffers struct{ frames, header *window }

func newUnwindBuffers() unwindBuffers { return unwindBuffers{newWindow(unwindPages), newWindow(2)} }

// NewUnwinding returns an Unwinding that has read nothing yet. It passes the rows of tables to
// load; nil: it keeps them.
func NewUnwinding(root kernel.Root, load UnwindLoader) *Unwinding {
	if load == nil {
		load = keepRows
	}
	return &Unwinding{ps: NewProcesses(root), files: map[fileKey]*unwound{},
		same: map[frameDigest]*unwound{}, load: load, buffers: newUnwindBuffers()}
}

// keepRows stores the rows in the table.
func keepRows(t *UnwindTable, read func(func(uint32, UnwindRule) error) error) error {
	number := map[UnwindRule]uint16{{}: 0}
	t.Rules = []UnwindRule{{}}
	return read(func(pc uint32, rule UnwindRule) error {
		n, ok := number[rule]
		if !ok {
			n = uint16(len(t.Rules)) // as many as a frameReader has
			number[rule], t.Rules = n, append(t.Rules, rule)
		}
		t.Rows = append(t.Rows, UnwindRow{pc, n})
		return nil
	})
}

// Executed returns the executable ranges of a process in the order of addresses, and reads the
// tables of new files. errors.Is fs.ErrNotExist: the process has ended; measure.ErrDenied: its maps
// may not be read.
func (u *Unwinding) Executed(pid int) ([]Executed, error) {
	u.ps.mu.Lock()
	defer u.ps.mu.Unlock()
	p := &process{pid: pid} // nothing is kept of it, so it does not matter who it was before
	if err := u.ps.readMaps(p); err != nil {
		return nil, err
	}
	var out []Executed
	for i := range p.maps {
		m := &p.maps[i]
		if !m.Exec || m.Path == "[vsyscall]" || m.Path == "[uprobes]" {
			continue
		}
		c := Executed{Start: m.Start, End: m.End}
		var of *unwound
		switch {
		case m.Path == "[vdso]":
			c.Kernel = true
			if m.End > 1<<32 {
				if u.vdso == nil {
					u.vdso = u.inMemory(memoryOfVDSO())
				}
				of = u.vdso
			}
		case m.Inode == 0 || strings.HasPrefix(m.Path, "/memfd:") ||
			strings.HasPrefix(m.Path, "/dev/"):
			c.Why = Generated
		default:
			of = u.file(p, m)
		}
		if of != nil {
			c.Table, c.Why = of.table, of.why
			if bias, ok := of.bias(m); ok {
				c.Bias, c.Pointers = bias, of.isGo
			} else {
				c.Table, c.Why = nil, NotInFile
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// Drop deletes a table. It is read again when it is needed.
func (u *Unwinding) Drop(t *UnwindTable) {
	u.ps.mu.Lock()
	defer u.ps.mu.Unlock()
	for key, of := range u.files {
		if of == nil || of.table == t {
			delete(u.files, key)
		}
	}
	for d, of := range u.same {
		if of.table == t {
			delete(u.same, d)
		}
	}
	if u.vdso != nil && u.vdso.table == t {
		u.vdso = nil
	}
}

// file returns what is known of the file of a mapping.
func (u *Unwinding) file(p *process, m *Mapping) *unwound {
	f, key, err := u.ps.open(p, m)
	if err != nil {
		return nil
	}
	defer f.Close()
	if of, ok := u.files[key]; ok {
		return of
	}
	u.forgetFiles()
	h, err := readHeader(f, key.size)
	if err != nil {
		u.files[key] = nil
		return nil
	}
	d, ok := h.frameDigest()
	of := u.same[d]
	if of == nil || !ok || !of.hasCode(h) {
		if of = u.unwound(h); ok {
			u.same[d] = of
		}
	}
	u.files[key] = of
	return of
}

// mostUnwindFiles is how many files without a loaded table are kept: builds make new files without
// end.
const mostUnwindFiles = 4096

// forgetFiles makes space for another file. Files without a table are read again when they appear
// again; those with known content get their table back.
func (u *Unwinding) forgetFiles() {
	if len(u.same) >= mostUnwindFiles {
		for d, of := range u.same {
			if of.table == nil {
				delete(u.same, d)
			}
		}
	}
	if len(u.files) < mostUnwindFiles {
		return
	}
	found := map[*unwound]bool{}
	for _, of := range u.same {
		found[of] = true
	}
	for key, of := range u.files {
		if of == nil || of.table == nil || found[of] {
			delete(u.files, key)
		}
	}
}

// hasCode reports whether a file has the code of which the table was made.
func (of *unwound) hasCode(h *header) bool {
	sum, ok := h.digest(of.gaps)
	return ok && sum == of.sum
}

// bias returns the difference between the addresses of a mapping and the file's own; !ok: the file
// has no code there.
func (of *unwound) bias(m *Mapping) (bias uint64, ok bool) {
	for _, s := range of.code {
		if m.Offset >= s.offset&^4095 && m.Offset < s.offset+s.filesz { // a mapping is whole pages
			return m.Start - m.Offset + s.offset - s.vaddr, true
		}
	}
	return 0, false
}

// inMemory reads a file from memory.
func (u *Unwinding) inMemory(b []byte) *unwound {
	h, err := readHeader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return &unwound{}
	}
	return u.unwound(h)
}

// unwound reads the executable parts of a file and passes the rows to the loader.
func (u *Unwinding) unwound(h *header) *unwound {
	of := &unwound{}
	for _, p := range h.progs {
		if p.kind == uint32(elf.PT_LOAD) && p.flags&uint32(elf.PF_X) != 0 {
			of.code = append(of.code, segment{p.off, p.vaddr, p.filesz, p.mem})
		}
	}
	of.isGo = h.isGo()
	rows, t := 0, &UnwindTable{}
	err := u.load(t, func(row func(uint32, UnwindRule) error) error {
		counted := func(pc uint32, rule UnwindRule) error {
			rows++
			return row(pc, rule)
		}
		unwind := func(row func(uint32, UnwindRule) error) error {
			return h.unwind(of.isGo,
				u.buffers, row)
		}
		if of.isGo && h.unwindable() {
			return h.withGo(counted, unwind)
		}
		if !h.unwindable() {
			return nil
		}
		gaps, err := h.withGaps(counted, unwind)
		of.gaps = gaps
		return err
	})
	of.sum, _ = h.digest(of.gaps)
	switch {
	case errors.Is(err, ErrTooLong):
		of.why = TooLarge
	case rows > 0:
		of.table = t // also what came before a mistake
	case of.isGo:
		of.why = ByPointer
	}
	return of
}

// unwind passes on the rows of a file: of .eh_frame, which is found without sections too, else of
// .debug_frame. Without rows it has neither. The .debug_frame of Go programs lacks frame pointers
// and is not used.
func (h *header) unwind(isGo bool, buffers unwindBuffers,
	row func(uint32, UnwindRule) error) error {
	at, ok := h.frameSection(isGo)
	if !ok {
		return nil
	}
	if at.size > maxUnwindBytes {
		return ErrTooLong
	}
	if at.off > h.size || at.size > h.size-at.off {
		return errUnwind
	}
	buffers.frames.over(h.r, int64(at.off), at.size, nil)
	var f *frameReader
	f = newFrameReader(buffers.frames, at.addr, at.debug,
		func(r UnwindRow) error { return row(r.PC, f.rules[r.Rule]) })
	if at.debug {
		return f.read(nil)
	}
	return f.read(h.frameHeader(buffers.header, at.addr, at.size))
}

// unwindable reports whether the file is for an architecture whose stacks are walked by tables.
func (h *header) unwindable() bool {
	return h.wide && h.machine == uint16(elf.EM_X86_64) && runtime.GOARCH == "amd64"
}

// A frameSection is where a file has what unwind reads.
type frameSection struct {
	off, size, addr uint64
	debug           bool // .debug_frame
}

// frameSection returns the section that unwind reads; !ok: there is none.
func (h *header) frameSection(isGo bool) (at frameSection, ok bool) {
	if !h.unwindable() {
		return at, false
	}
	for _, name := range [...]string{".eh_frame", ".debug_frame"} {
		debug := name == ".debug_frame"
		if debug && isGo {
			break
		}
		for i := range h.secs {
			s := &h.secs[i]
			if h.nameOf(s) != name || s.kind == uint32(elf.SHT_NOBITS) || s.size == 0 ||
				s.flags&uint64(elf.SHF_COMPRESSED) != 0 {
				continue
			}
			return frameSection{s.off, s.size, s.addr, debug}, true
		}
		if !debug {
			if off, size, addr := h.ehFrame(); size > 0 {
				return frameSection{off, size, addr, false}, true
			}
		}
	}
	return at, false
}

// frameHeader reads .eh_frame_hdr; nil: there is none, or none of this section.
func (h *header) frameHeader(w *window, frames, size uint64) *frameHeader {
	for _, p := range h.progs {
		if p.kind == ptFrameHeader && p.off <= h.size && p.filesz <= h.size-p.off {
			w.over(h.r, int64(p.off), p.filesz, nil)
			return readFrameHeader(w, p.vaddr, frames, size)
		}
	}
	return nil
}

// ptFrameHeader is PT_GNU_EH_FRAME.
const ptFrameHeader = 0x6474e550

// ehFrame finds .eh_frame by .eh_frame_hdr (Linux Standard Base). It ends at its terminator, or at
// the end of the segment.
func (h *header) ehFrame() (off, size, addr uint64) {
	for _, p := range h.progs {
		if p.kind != ptFrameHeader || p.filesz < 8 {
			continue
		}
		head, err := h.read(p.off, min(p.filesz, 16))
		if err != nil || head[0] != 1 {
			return 0, 0, 0
		}
		c := cursor{b: head, at: 4, end: len(head)}
		addr = c.pointer(head[1], p.vaddr)
		if c.bad {
			return 0, 0, 0
		}
		for _, s := range h.segments() {
			if addr >= s.vaddr && addr-s.vaddr < s.filesz {
				return s.offset + (addr - s.vaddr), min(s.filesz-(addr-s.vaddr), maxUnwindBytes),
					addr
			}
		}
	}
	return 0, 0, 0
}

// memoryOfVDSO reads the vDSO from our own memory: it is the same for all programs of one word
// size. nil: it can't be read.
func memoryOfVDSO() []byte {
	b, err := proc.ReadFile("/proc/self/maps", nil)
	if err != nil {
		return nil
	}
	maps, _ := ParseMaps(b)
	for _, m := range maps {
		if m.Path != "[vdso]" || m.End-m.Start > 1<<20 {
			continue
		}
		mem, err := os.Open("/proc/self/mem")
		if err != nil {
			return nil
		}
		defer mem.Close()
		text := make([]byte, m.End-m.Start)
		if _, err := mem.ReadAt(text, int64(m.Start)); err != nil {
			return nil
		}
		return text
	}
	return nil
}

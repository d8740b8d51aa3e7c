package symbol

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"runtime"
	"strings"
	"time"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/symbol/interp"
	"culprit/symbol/interp/languages"
	"culprit/symbol/unwind"
	"culprit/symbol/window"
)

// An Executed is an executable range of a process's memory.
type Executed struct {
	Start, End uint64
	Bias       uint64        // an address less this is the file's own
	Table      *unwind.Table // the same one for all processes that have the file; nil: none
	Why        NoTable       // there is none
	Pointers   bool          // what Table says nothing of has frame pointers
	Kernel     bool          // the code is the kernel's, mapped into every process: the vDSO
	// Delta is the offset in the file of its code less the address there. Whole: it holds for all
	// code of the file.
	Delta uint64
	Whole bool
	File  FileVersion
}

// A FileVersion identifies a version of a file, as the kernel does in most file systems. The zero
// FileVersion is of code without a file, or of a file that cannot be opened.
type FileVersion struct {
	Device, Inode uint64 // Device as in stat(2)
	Size          int64
	Modified      int64 // ns
}

// NoTable is the reason why there is no table.
type NoTable uint8

const (
	NotInFile NoTable = iota // the file has none, or can't be read
	Generated                // no file: what a just-in-time compiler made
	ByPointer                // a program of Go: all of its functions have frame pointers
	TooLarge                 // the file has more rows than are read
	NotYet                   // it could not be read now: the next call tries again
)

// An unwound is what was read of a file for unwinding.
type unwound struct {
	code  []segment // that is executed
	table *unwind.Table
	why   NoTable
	isGo  bool
	gaps  []Span // code that only our table describes
	// interpreter describes the interpreter in the file; nil: it has none
	interpreter interp.Layout
	sum         frameDigest // of that code
}

// Unwinding reads the unwind tables of processes. A file is read once for all processes that map
// it. Safe for concurrent use, except by an unwind.Loader.
type Unwinding struct {
	ps    *Processes // its lock guards the fields below; it is free while another process reads
	files map[fileKey]*unwound
	busy  map[fileKey]bool         // files that are being read
	same  map[frameDigest]*unwound // of files with one content, such as those of containers
	vdso  *unwound
	load  unwind.Loader
}

// unwindBuffers is the buffers for sections, which are reused.
type unwindBuffers struct{ frames, header *window.Window }

func newUnwindBuffers() unwindBuffers {
	return unwindBuffers{window.New(unwind.Pages), window.New(2)}
}

// NewUnwinding returns an Unwinding that has read nothing yet. It passes the rows of tables to
// load; nil: it keeps them. files reads the files of processes; nil: this process does.
func NewUnwinding(root kernel.Root, load unwind.Loader, files *Files) *Unwinding {
	if load == nil {
		load = keepRows
	}
	return &Unwinding{ps: NewProcessesOf(root, files), files: map[fileKey]*unwound{},
		busy: map[fileKey]bool{}, same: map[frameDigest]*unwound{}, load: load}
}

// UseHistory makes Executed return what a process that has ended had mapped. It is called before
// any other method.
func (u *Unwinding) UseHistory(h *History) { u.ps.UseHistory(h) }

// TakeAway returns the CPU time that another process and other threads have used for this one since
// the last call.
func (u *Unwinding) TakeAway() time.Duration { return u.ps.TakeAway() }

// keepRows stores the rows in the table.
func keepRows(t *unwind.Table, read func(func(uint32, unwind.Rule) error) error) error {
	number := map[unwind.Rule]uint16{{}: 0}
	t.Rules = []unwind.Rule{{}}
	return read(func(pc uint32, rule unwind.Rule) error {
		n, ok := number[rule]
		if !ok {
			n = uint16(len(t.Rules)) // as many as an unwind.Reader has
			number[rule], t.Rules = n, append(t.Rules, rule)
		}
		t.Rows = append(t.Rows, unwind.Row{PC: pc, Rule: n})
		return nil
	})
}

// Executed returns the executable ranges of a process in the order of addresses, and reads the
// tables of new files. A range has NotYet if the file's reader did not answer, or another call
// reads the file. errors.Is fs.ErrNotExist: the process has ended; measure.ErrDenied: its maps may
// not be read; proc.ErrHangs: reading them does not return.
func (u *Unwinding) Executed(pid int) ([]Executed, error) {
	u.ps.mu.Lock()
	defer u.ps.mu.Unlock()
	p := &process{pid: pid} // nothing is kept of it, so it does not matter who it was before
	if err := u.ps.readMaps(p); err != nil {
		if p = u.ps.recall(pid, 0); p == nil {
			return nil, err
		}
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
			of, c.File = u.file(p, m)
		}
		if of != nil {
			c.Table, c.Why = of.table, of.why
			if bias, ok := of.bias(m); ok {
				c.Bias, c.Pointers = bias, of.isGo
				c.Delta, c.Whole = bias-m.Start+m.Offset, len(of.code) == 1
			} else {
				c.Table, c.Why = nil, NotInFile
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// Drop deletes a table. It is read again when it is needed.
func (u *Unwinding) Drop(t *unwind.Table) {
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

// file returns what is known of the file of a mapping, and which version it is.
func (u *Unwinding) file(p *process, m *Mapping) (*unwound, FileVersion) {
	f, key, err := u.ps.open(p, m)
	if err != nil {
		return nil, FileVersion{}
	}
	defer f.Close()
	return u.open(f, key, p, m.Path), FileVersion{m.Device, m.Inode, key.size, key.mtime}
}

// open returns what is known of an open file.
func (u *Unwinding) open(f *os.File, key fileKey, p *process, name string) *unwound {
	if of, ok := u.files[key]; ok {
		return of
	}
	if u.busy[key] {
		return &unwound{code: everything(), why: NotYet}
	}
	u.busy[key] = true
	defer delete(u.busy, key)
	u.forgetFiles()
	payer := payerOf(key, u.ps.userOf(p))
	head, err := u.ps.read(payer, &Request{Op: OpUnwinding, File: f, Text: interpreterName(name)})
	if errors.Is(err, ErrUnavailable) {
		return &unwound{code: everything(), why: NotYet}
	}
	if err != nil {
		u.files[key] = nil
		return nil
	}
	d, ok := frameDigestOf(head.Digest)
	of := u.same[d]
	layout := languages.FromNumbers(head.Numbers) // nil: the file has no interpreter
	if of == nil || !ok || !equalLayouts(of.interpreter, layout) || !u.hasCode(of, f, payer) {
		of = u.read(f, payer, head)
		if of.why == NotYet {
			return of
		}
		if ok {
			u.same[d] = of
		}
	}
	u.files[key] = of
	return of
}

// everything is the code of a file whose headers are not known.
func everything() []segment { return []segment{{0, 0, 1 << 62, 1 << 62}} }

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
func (u *Unwinding) hasCode(of *unwound, f *os.File, payer uint32) bool {
	a, err := u.ps.read(payer, &Request{Op: OpDigest, File: f, Spans: of.gaps})
	sum, ok := frameDigestOf(a.Digest)
	return err == nil && ok && sum == of.sum
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

// inMemory reads a file of this process from memory.
func (u *Unwinding) inMemory(b []byte) *unwound {
	h, err := readHeader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return &unwound{}
	}
	of := &unwound{code: h.codeSegments()}
	of.load(u.load, 0, func(row func(uint32, unwind.Rule) error) (*Answer, error) {
		a := &Answer{}
		return a, h.rows(newUnwindBuffers(), row, a)
	})
	return of
}

// read reads the table of a file and passes its rows to the loader.
func (u *Unwinding) read(f *os.File, payer uint32, head *Answer) *unwound {
	of := &unwound{code: ownSegments(head.Code), isGo: head.Go}
	of.interpreter = languages.FromNumbers(head.Numbers) // nil: the file has no interpreter
	of.load(u.load, payer, func(row func(uint32, unwind.Rule) error) (*Answer, error) {
		return u.ps.read(payer, &Request{Op: OpRows, File: f, Row: row, Limit: rowsLimit})
	})
	return of
}

// rowsLimit is the CPU time that reading one table may take.
const rowsLimit = 2 * time.Second

// load passes the rows that read yields to the loader, and records what is known then.
func (of *unwound) load(load unwind.Loader, owner uint32,
	read func(func(uint32, unwind.Rule) error) (*Answer, error)) {
	rows, t := 0, &unwind.Table{Owner: owner, Interpreter: of.interpreter}
	var failed error
	err := load(t, func(row func(uint32, unwind.Rule) error) error {
		a, err := read(func(pc uint32, rule unwind.Rule) error {
			rows++
			return row(pc, rule)
		})
		of.gaps = a.Spans
		of.sum, _ = frameDigestOf(a.Digest)
		failed = err
		return err
	})
	switch {
	case errors.Is(failed, ErrUnavailable):
		of.why = NotYet
	case errors.Is(err, ErrTooLong), errors.Is(err, ErrLimit):
		of.why = TooLarge
	case rows > 0:
		of.table = t // also what came before a mistake
	case of.isGo:
		of.why = ByPointer
	}
}

// unwind passes on the rows of a file: of .eh_frame, which is found without sections too, else of
// .debug_frame. Without rows it has neither. The .debug_frame of Go programs lacks frame pointers
// and is not used.
func (h *header) unwind(isGo bool, buffers unwindBuffers,
	row func(uint32, unwind.Rule) error) error {
	at, ok := h.frameSection(isGo)
	if !ok {
		return nil
	}
	if at.size > unwind.MostBytes {
		return ErrTooLong
	}
	if at.off > h.size || at.size > h.size-at.off {
		return unwind.ErrMalformed
	}
	buffers.frames.Over(h.r, int64(at.off), at.size, nil)
	var f *unwind.Reader
	f = unwind.NewReader(buffers.frames, at.addr, at.debug,
		func(r unwind.Row) error { return row(r.PC, f.Rule(r)) })
	if at.debug {
		return f.Read(nil)
	}
	return f.Read(h.frameHeader(buffers.header, at.addr, at.size))
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
func (h *header) frameHeader(w *window.Window, frames, size uint64) *unwind.Header {
	for _, p := range h.progs {
		if p.kind == ptFrameHeader && p.off <= h.size && p.filesz <= h.size-p.off {
			w.Over(h.r, int64(p.off), p.filesz, nil)
			return unwind.ReadHeader(w, p.vaddr, frames, size)
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
		addr, ok := unwind.Pointer(head, 4, head[1], p.vaddr)
		if !ok {
			return 0, 0, 0
		}
		for _, s := range h.segments() {
			if addr >= s.vaddr && addr-s.vaddr < s.filesz {
				return s.offset + (addr - s.vaddr), min(s.filesz-(addr-s.vaddr), unwind.MostBytes),
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

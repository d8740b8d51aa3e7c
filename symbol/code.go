package symbol

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// A Code is an open file that a process executes: the program or a library. Addresses are those of
// the file, unless a comment says otherwise. The caller closes it.
type Code struct {
	Name string // its base name
	Path string // as the process calls it
	Main bool   // it is the program itself
	Bias uint64 // process's addresses minus the file's own
	Go   bool   // by Go's compiler since 1.17: arguments are in other registers than in C
	Wide bool   // of 64 bits

	file  *os.File
	head  *header
	obj   object
	funcs []Function
	read  bool
	err   error

	beside bool // the names come from a file beside it
}

// A Function is a function with code in a file.
type Function struct {
	Name     string
	Start    uint64
	Size     uint64 // bytes; 0: unknown
	Indirect bool   // it chooses the function at run time (STT_GNU_IFUNC)
	rank     uint8
}

// Code opens the files that a process executes, the program first, the others by address. The
// caller closes each. errors.Is fs.ErrNotExist: the process has ended; measure.ErrDenied: its maps
// may not be read.
func (ps *Processes) Code(pid int) ([]*Code, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, err := ps.readProcess(pid)
	if err != nil {
		return nil, ps.unseen(pid, err)
	}
	var out []*Code
	seen := map[fileKey]bool{}
	for i := range p.maps {
		m := &p.maps[i]
		if !m.Exec || m.Inode == 0 {
			continue
		}
		f, key, err := ps.open(p, m)
		if err != nil {
			continue
		}
		c, err := newCode(f, key.size, m)
		if err != nil || seen[key] {
			f.Close()
			continue
		}
		seen[key] = true
		c.Main = m.Path == ps.exeOf(p)
		if d, size := ps.debugOf(p, c); d != nil {
			c.own(d, size)
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b *Code) int {
		switch {
		case a.Main && !b.Main:
			return -1
		case b.Main && !a.Main:
			return 1
		}
		return 0
	})
	return out, nil
}

// unseen returns the error of maps that could not be read.
func (ps *Processes) unseen(pid int, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return kernel.Refused(fmt.Sprintf("look into process %d", pid), "", unix.CAP_SYS_PTRACE)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no process %d: %w", pid, fs.ErrNotExist)
	}
	return err
}

func newCode(f *os.File, size int64, m *Mapping) (*Code, error) {
	h, err := readHeader(f, size)
	if err != nil {
		return nil, err
	}
	c := &Code{Name: clean(path.Base(m.Path)), Path: m.Path, Wide: h.wide, file: f, head: h,
		obj: object{buildID: h.buildID(), loads: h.segments()}}
	vaddr, ok := c.obj.vaddr(m.Offset)
	if !ok {
		return nil, errNotELF
	}
	c.Bias = m.Start - vaddr
	c.Go = ownRegisters(f, h)
	return c, nil
}

// ownRegisters reports whether a file is a Go program that passes arguments in registers.
func ownRegisters(f *os.File, h *header) bool {
	if !slices.ContainsFunc(h.secs, func(s section) bool {
		return h.nameOf(&s) == ".gopclntab" ||
			h.nameOf(&s) == ".data.rel.ro.gopclntab"
	}) {
		return false
	}
	info, err := buildinfo.Read(f)
	if err != nil {
		return false
	}
	version, _ := strings.CutPrefix(info.GoVersion, "go1.")
	minor, _, _ := strings.Cut(version, ".")
	c := proc.Scan([]byte(minor))
	n := c.Uint()
	return c.Err() == nil && n >= 17 || strings.HasPrefix(info.GoVersion, "devel")
}

// debugOf opens the debug file that a distribution keeps for a file without symbols of its own
// functions.
func (ps *Processes) debugOf(p *process, c *Code) (*os.File, int64) {
	if c.head.full() {
		return nil, 0
	}
	return ps.openDebug(p, c.obj.buildID)
}

// own reads the functions from a debug file if it belongs to this file.
func (c *Code) own(d *os.File, size int64) {
	defer d.Close()
	h, err := readHeader(d, size)
	if err != nil || !h.full() || h.buildID() != c.obj.buildID {
		return
	}
	c.funcs, c.err = readFunctions(h)
	c.read, c.beside = true, true
}

// Close closes the file. The error is that of close(2).
func (c *Code) Close() error { return c.file.Close() }

// Opened returns a path by which the kernel finds the file while the Code is open, in any namespace
// and also after the file was deleted.
func (c *Code) Opened() string { return fmt.Sprintf("/proc/self/fd/%d", c.file.Fd()) }

// Stripped reports whether the file has only the names of functions that other files call.
func (c *Code) Stripped() bool { return !c.head.full() && !c.Go && !c.beside }

// Functions returns the functions with names, sorted by address; of several names for one address
// the best is last. A stripped file has only those that others may call. The error is of the file's
// format.
func (c *Code) Functions() ([]Function, error) {
	if !c.read {
		c.funcs, c.err = readFunctions(c.head)
		c.read = true
	}
	return c.funcs, c.err
}

// readFunctions reads functions from .symtab, else .dynsym, else the table of Go's runtime.
func readFunctions(h *header) ([]Function, error) {
	kind := uint32(elf.SHT_DYNSYM)
	if h.full() {
		kind = uint32(elf.SHT_SYMTAB)
	}
	var out []Function
	for i := range h.secs {
		s := &h.secs[i]
		if s.kind != kind || s.size == 0 || int(s.link) >= len(h.secs) {
			continue
		}
		text, err := h.read(h.secs[s.link].off, h.secs[s.link].size)
		if err != nil {
			return nil, err
		}
		table, err := h.read(s.off, s.size)
		if err != nil {
			return nil, err
		}
		out = appendFunctions(out, h, table, text)
		break
	}
	if !h.full() {
		o := &object{}
		if err := o.readGo(h); err != nil && len(out) == 0 {
			return nil, err
		}
		for _, s := range o.syms {
			name, _, _ := bytes.Cut(o.text[s.name:], []byte{0})
			out = append(out, Function{Name: string(name), Start: s.addr, Size: s.size,
				rank: s.rank})
		}
	}
	slices.SortStableFunc(out, func(a, b Function) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.rank, b.rank),
			cmp.Compare(len(b.Name), len(a.Name)), cmp.Compare(b.Name, a.Name))
	})
	return out, nil
}

func appendFunctions(out []Function, h *header, table, text []byte) []Function {
	le := binary.LittleEndian
	each := 16
	if h.wide {
		each = 24
	}
	for ; len(table) >= each; table = table[each:] {
		var f Function
		var info, other byte
		var shndx uint16
		name := le.Uint32(table)
		if h.wide {
			info, other, shndx = table[4], table[5], le.Uint16(table[6:])
			f.Start, f.Size = le.Uint64(table[8:]), le.Uint64(table[16:])
		} else {
			f.Start, f.Size = uint64(le.Uint32(table[4:])), uint64(le.Uint32(table[8:]))
			info, other, shndx = table[12], table[13], le.Uint16(table[14:])
		}
		typ := elf.SymType(info & 15)
		if typ != elf.STT_FUNC && typ != elf.STT_GNU_IFUNC || shndx == uint16(elf.SHN_UNDEF) ||
			f.Start == 0 || f.Start+f.Size < f.Start || uint64(name) >= uint64(len(text)) {
			continue
		}
		b, _, _ := bytes.Cut(text[name:], []byte{0})
		if at := bytes.IndexByte(b, '@'); at > 0 { // which version of a library's function it is
			b = b[:at]
		}
		if len(b) == 0 {
			continue
		}
		f.Name, f.Indirect = string(b), typ == elf.STT_GNU_IFUNC
		f.rank = symbolRank(typ, elf.SymBind(info>>4), elf.SymVis(other&3), b)
		out = append(out, f)
	}
	return out
}

// Offset returns the offset in the file of an address; !ok: it is not in the file, or not loaded
// from it.
func (c *Code) Offset(addr uint64) (offset uint64, ok bool) {
	for _, s := range c.obj.loads {
		if addr >= s.vaddr && addr-s.vaddr < s.filesz {
			return addr - s.vaddr + s.offset, true
		}
	}
	return 0, false
}

// Counter returns the offset in the file of a counter that the process may write. It may be in
// .bss, as long as it is in the last page that is mapped from the file. !ok: the kernel can't find
// it by the file.
func (c *Code) Counter(addr uint64) (offset uint64, ok bool) {
	for _, s := range c.obj.loads {
		if end := (s.offset + s.filesz + 4095) &^ 4095; addr >= s.vaddr && addr-s.vaddr < s.memsz &&
			addr-s.vaddr+s.offset+2 <= end {
			return addr - s.vaddr + s.offset, true
		}
	}
	return 0, false
}

// Executable reports whether an address is loaded as executable.
func (c *Code) Executable(addr uint64) bool {
	for _, p := range c.head.progs {
		if p.kind == uint32(elf.PT_LOAD) && p.flags&uint32(elf.PF_X) != 0 && addr >= p.vaddr &&
			addr-p.vaddr < p.filesz {
			return true
		}
	}
	return false
}

// maxCode is the longest function whose instructions are decoded.
const maxCode = 1 << 20

// Instructions returns the offsets of a function's instructions from its start. With an error,
// measure.ErrUnsupported, they end at an unknown instruction.
func (c *Code) Instructions(f Function) (starts []uint64, err error) {
	if !c.Wide {
		return nil, fmt.Errorf("%s is a program of 32 bits: %w", c.Name, measure.ErrUnsupported)
	}
	off, ok := c.Offset(f.Start)
	if !ok || f.Size == 0 || f.Size > maxCode {
		return nil, fmt.Errorf("the length of %s is not known: %w", f.Name, measure.ErrUnsupported)
	}
	text, err := c.head.read(off, f.Size)
	if err != nil {
		return nil, fmt.Errorf("read the instructions of %s: %w", f.Name, err)
	}
	return instructions(text)
}

// Returns returns the offsets of the instructions that return from a function. The error is that of
// Instructions.
func (c *Code) Returns(f Function) ([]uint64, error) {
	starts, err := c.Instructions(f)
	if err != nil {
		return nil, err
	}
	off, _ := c.Offset(f.Start)
	text, err := c.head.read(off, f.Size)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, at := range starts {
		if returns(text[at:]) {
			out = append(out, at)
		}
	}
	return out, nil
}

// ErrUnsafe is the error of an instruction on which the kernel must not put a probe.
var ErrUnsafe = errors.New("the kernel would take its instruction for another one")

// ErrNever is the error of an instruction after which no process goes on, so that a probe never
// fires.
var ErrNever = errors.New("no process goes on after its instruction")

// Probeable returns why the instruction at an offset in the file can't have a probe, as far as that
// is known without the kernel: ErrUnsafe, ErrNever or measure.ErrUnsupported; nil otherwise.
func (c *Code) Probeable(offset uint64) error {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	text, err := c.head.read(offset, min(16, c.head.size-min(offset, c.head.size)))
	if err != nil {
		return fmt.Errorf("read the instruction: %w", err)
	}
	return probeableAMD64(text)
}

package symbol

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"time"

	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// A Code is an open file that a process executes: the program or a library. A Reader parses it.
// Addresses are those of the file, unless a comment says otherwise. The caller closes it. For one
// goroutine.
type Code struct {
	Name  string // its base name
	Path  string // as the process calls it
	Main  bool   // it is the program itself
	Bias  uint64 // process's addresses minus the file's own
	Go    bool   // by Go's compiler since 1.17: arguments are in other registers than in C
	Class Class

	of          *Processes
	payer       uint32
	key         fileKey
	file, debug *os.File // debug is what a distribution keeps beside it; nil: nothing
	obj         object   // without symbols
	executed    []segment
	functions   codeFunctions
}

// A Class is the kind of machine code in a file.
type Class uint8

// The classes of code.
const (
	Foreign Class = iota // of another architecture, or of x32
	Native               // 64 bits, of this architecture
	I386                 // 32 bits, of x86, where Native is x86-64
)

// codeFunctions are the functions of a Code.
type codeFunctions struct {
	list   []Function
	read   bool
	err    error
	beside bool // they come from a file beside it
}

// A Function is a function with code in a file.
type Function struct {
	Name     string // without control characters
	Readable string // as in its source, see Readable
	// Signature is the name as in its source with parameters, of C++; "": it is not of C++, or
	// longer than mostSignature.
	Signature string
	Start     uint64
	Size      uint64 // bytes; 0: unknown
	Indirect  bool   // it chooses the function at run time (STT_GNU_IFUNC)
}

const (
	// codeLimit is the CPU time of a request for a Code.
	codeLimit = 5 * time.Second
	// mostCode is how many bytes the functions of all Code of a Processes take.
	mostCode = 256 << 20
	// functionSize estimates the bytes that a Function takes besides its texts.
	functionSize = 64
)

// Code opens the files that a process executes, the program first, the others by address. The
// caller closes each. errors.Is fs.ErrNotExist: the process has ended; measure.ErrDenied: its maps
// may not be read; ErrUnavailable: the Reader failed.
func (ps *Processes) Code(pid int) ([]*Code, error) {
	all, err := ps.codeFiles(pid, func(*Mapping) bool { return true })
	if err != nil {
		return nil, err
	}
	out, err := ps.newCodes(all)
	slices.SortStableFunc(out, func(a, b *Code) int { return b2i(b.Main) - b2i(a.Main) })
	return out, err
}

// newCodes reads the heads of files, and leaves out those that are no programs. It fails when the
// Reader failed: ErrUnavailable.
func (ps *Processes) newCodes(all []codeFile) ([]*Code, error) {
	var out []*Code
	for i, f := range all {
		c, err := ps.newCode(f)
		if errors.Is(err, ErrUnavailable) {
			for _, rest := range all[i+1:] {
				rest.file.Close() //nolint:errcheck // nothing was read
			}
			for _, c := range out {
				c.Close() //nolint:errcheck // it was read from
			}
			return nil, err
		}
		if err == nil {
			out = append(out, c)
		}
	}
	return out, nil
}

// A codeFile is an open file and where a process executes it.
type codeFile struct {
	file    *os.File
	key     fileKey
	mapping *Mapping // nil: no process executes it
	process *process // nil: none
	path    string
	main    bool
}

// codeFiles opens the files that a process executes and that are wanted, each once.
func (ps *Processes) codeFiles(
	pid int, wanted func(*Mapping) bool,
) (out []codeFile, err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, err := ps.readProcess(pid)
	if err != nil {
		return nil, ps.unseen(pid, err)
	}
	seen := map[fileKey]bool{}
	for i := range p.maps {
		m := &p.maps[i]
		if !m.Exec || m.Inode == 0 || !wanted(m) {
			continue
		}
		f, key, err := ps.open(p, m)
		if err != nil {
			continue
		}
		if seen[key] {
			f.Close() //nolint:errcheck // nothing was read
			continue
		}
		seen[key] = true
		out = append(out, codeFile{f, key, m, p, m.Path, m.Path == ps.exeOf(p)})
	}
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

// OpenCode opens a program or library by its path, for probes in all processes that execute it.
// Bias is 0: addresses are the file's own. The caller closes it. errors.Is fs.ErrNotExist: there is
// no such file.
func (ps *Processes) OpenCode(name string) (*Code, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO does not block
	if err != nil {
		return nil, err
	}
	key, err := statKey(int(f.Fd()))
	if err != nil {
		f.Close() //nolint:errcheck // nothing was read
		if errors.Is(err, fs.ErrInvalid) {
			err = fmt.Errorf("%s is not a regular file", name)
		}
		return nil, err
	}
	c, err := ps.newCode(codeFile{file: f, key: key, path: name, main: true})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return c, nil
}

// OpenCodeOf is OpenCode of a file by the path by which a process calls it: below the root and in
// the mounts of the process. The caller closes it. It fails like OpenCode, and when the process may
// not be read.
func (ps *Processes) OpenCodeOf(pid int, name string) (*Code, error) {
	root := ps.in(pid, "root")
	f, key, err := ps.openGuarded(pid, func() (*os.File, fileKey, error) {
		return openBelow(root, name)
	})
	switch {
	case errors.Is(err, fs.ErrInvalid):
		return nil, fmt.Errorf("%s is not a regular file", name)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	c, err := ps.newCode(codeFile{file: f, key: key, path: name})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return c, nil
}

// newCode reads the head of a file, which it closes with an error.
func (ps *Processes) newCode(f codeFile) (*Code, error) {
	user := f.key.owner
	if f.process != nil {
		user = f.process.user
	}
	c := &Code{Name: clean(path.Base(f.path)), Path: f.path, Main: f.main, of: ps, key: f.key,
		payer: payerOf(f.key, user), file: f.file}
	a, err := c.ask(&Request{Op: OpCode})
	if err == nil {
		c.Go, c.executed = a.Go, ownSegments(a.Code)
		if len(a.Numbers) == 1 {
			c.Class = Class(a.Numbers[0])
		}
		c.obj = object{buildID: a.BuildID, link: a.Link, loads: ownSegments(a.Loads),
			full: a.Full}
		if m := f.mapping; m != nil {
			vaddr, ok := c.obj.vaddr(m.Offset)
			if c.Bias = m.Start - vaddr; !ok {
				err = errNotELF
			}
		}
	}
	if err != nil {
		return nil, cmp.Or(err, c.Close())
	}
	if !a.Full && f.process != nil {
		c.debug, _ = ps.openDebug(f.process, &c.obj, f.path)
	}
	return c, nil
}

// ask has a request for the file answered. The Answer is not nil.
func (c *Code) ask(q *Request) (*Answer, error) {
	q.File, q.Limit = c.file, codeLimit
	return c.of.files.readNow(c.payer, q)
}

// Close closes the file and drops its functions. The error is that of close(2).
func (c *Code) Close() error {
	c.of.returnCode(c.functions.list)
	c.functions = codeFunctions{}
	if c.debug != nil {
		c.debug.Close() //nolint:errcheck // it was read from
	}
	return c.file.Close()
}

// Opened returns a path by which the kernel finds the file while the Code is open, in any namespace
// and also after the file was deleted.
func (c *Code) Opened() string { return fmt.Sprintf("/proc/self/fd/%d", c.file.Fd()) }

// Stripped reports whether the file has only the names of functions that other files call. It is
// known after Functions was called.
func (c *Code) Stripped() bool { return !c.obj.full && !c.Go && !c.functions.beside }

// Functions returns the functions with names, sorted by address; of several names for one address
// the best is last. A stripped file has only those that others may call. The error is of the file's
// format, ErrTooLong, ErrLimit or ErrUnavailable.
func (c *Code) Functions() ([]Function, error) {
	if c.functions.read {
		return c.functions.list, c.functions.err
	}
	var list []Function
	a, err := c.ask(&Request{Op: OpFunctions, Debug: c.debug, Function: func(f Function) error {
		if !c.of.takeCode(&f) {
			return ErrTooLong
		}
		list = append(list, f)
		return nil
	}})
	if err != nil {
		c.of.returnCode(list)
		if errors.Is(err, ErrUnavailable) {
			return nil, err
		}
		list = nil
	}
	c.functions = codeFunctions{list: list, read: true, err: err, beside: a.Found}
	return list, err
}

// takeCode takes memory for a function; false: the Code of the Processes has too many.
func (ps *Processes) takeCode(f *Function) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	size := f.size()
	if ps.code+size > mostCode {
		return false
	}
	ps.code += size
	return true
}

// returnCode returns the memory of functions.
func (ps *Processes) returnCode(list []Function) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for i := range list {
		ps.code -= list[i].size()
	}
}

func (f *Function) size() int {
	return functionSize + len(f.Name) + len(f.Readable) + len(f.Signature)
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
	return slices.ContainsFunc(c.executed, func(s segment) bool {
		return addr >= s.vaddr && addr-s.vaddr < s.filesz
	})
}

// Instructions returns the offsets of a function's instructions from its start. With an error,
// measure.ErrUnsupported, they end at an unknown instruction.
func (c *Code) Instructions(f Function) (starts []uint64, err error) {
	return c.instructions(OpInstructions, f)
}

// Returns returns the offsets of the instructions that return from a function. The error is that of
// Instructions.
func (c *Code) Returns(f Function) ([]uint64, error) {
	out, err := c.instructions(OpReturns, f)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Code) instructions(op Op, f Function) ([]uint64, error) {
	if c.Class == Foreign {
		return nil, fmt.Errorf("%s is of another architecture: %w", c.Name, measure.ErrUnsupported)
	}
	off, ok := c.Offset(f.Start)
	if !ok || f.Size == 0 || f.Size > maxCode || off+f.Size < off {
		return nil, fmt.Errorf("the length of %s is not known: %w", f.Name, measure.ErrUnsupported)
	}
	a, err := c.ask(&Request{Op: op, Addrs: []uint64{off, off + f.Size}})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the instructions of %s: %w", f.Name, err)
	case a.Cut:
		err = unknownInstruction(a.To)
	}
	return a.Numbers, err
}

// ErrUnsafe is the error of an instruction on which the kernel must not put a probe.
var ErrUnsafe = errors.New("the kernel would take its instruction for another one")

// ErrNever is the error of an instruction after which no process goes on, so that a probe never
// fires.
var ErrNever = errors.New("no process goes on after its instruction")

var (
	errPrefix = fmt.Errorf("the kernel doesn't put a breakpoint on an instruction with such a "+
		"prefix: %w", measure.ErrUnsupported)
	errUnread = errors.New("its instruction cannot be read")
)

// Probeable returns why the instructions at offsets in the file can't have a probe, as far as that
// is known without the kernel: ErrUnsafe, ErrNever, measure.ErrUnsupported or an error of reading,
// which is the same for all; nil otherwise.
func (c *Code) Probeable(offsets []uint64) []error {
	out := make([]error, len(offsets))
	if runtime.GOARCH != "amd64" {
		return out
	}
	why := map[uint64]error{}
	all := slices.Clone(offsets)
	slices.Sort(all)
	all = slices.Compact(all)
	for part := range slices.Chunk(all, MostAddrs) {
		a, err := c.ask(&Request{Op: OpProbeable, Addrs: part})
		for i, offset := range part {
			switch {
			case err != nil:
				why[offset] = fmt.Errorf("read the instruction: %w", err)
			case i < len(a.Numbers):
				why[offset] = Probeability(a.Numbers[i]).err()
			}
		}
	}
	for i, offset := range offsets {
		out[i] = why[offset]
	}
	return out
}

func (p Probeability) err() error {
	switch p {
	case CanProbe:
		return nil
	case ProbeUnsafe:
		return ErrUnsafe
	case ProbeNever:
		return ErrNever
	case ProbeRefused:
		return errPrefix
	}
	return errUnread
}

// Notes returns the static probes of a file in the order of its notes. The error is of the file's
// format, or ErrUnavailable.
func (c *Code) Notes() ([]Note, error) {
	a, err := c.ask(&Request{Op: OpNotes})
	return a.Notes, err
}

// Variable returns the address of a variable of the file. The error is that it has none of the
// name, or of reading.
func (c *Code) Variable(name string) (uint64, error) {
	a, err := c.ask(&Request{Op: OpVariable, Text: []byte(name)})
	switch {
	case err != nil:
		return 0, err
	case len(a.Numbers) == 0:
		return 0, fmt.Errorf("%s has no variable %s", c.Name, name)
	}
	return a.Numbers[0], nil
}

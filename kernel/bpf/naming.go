package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// A Namer asks the running kernel for single symbols, which takes some microseconds each. The whole
// table in /proc/kallsyms takes about 40 ms. It is used by one goroutine at a time.
type Namer struct {
	value *ebpf.Map // array of one element, drawn at namesAtOnce
	fmt   *ebpf.Map
	names *ebpf.Program // of addresses
	find  *ebpf.Program // the address of a name
}

// The map's value has the request and the answer:
//
//	| u64 address, also the result of find | ... | text of namerText bytes | ... |
//
// with namesAtOnce of each.
const (
	namesAtOnce = 32
	namerText   = 192 // longer names are not returned
	namerSize   = namesAtOnce * (8 + namerText)
)

// NewNamer loads the programs. The caller closes the Namer, which holds four file descriptors.
// Requires Linux 5.16, CAP_BPF and CAP_PERFMON. errors.Is measure.ErrUnsupported or
// measure.ErrDenied.
func NewNamer() (n *Namer, err error) {
	n = &Namer{}
	made := n // returns of an error set n to nil before they come here
	defer func() {
		if err != nil {
			made.Close()
			n, err = nil, fmt.Errorf("ask the kernel for symbols: %w", Classify(kernel.Root{}, err))
		}
	}()
	if n.value, err = NewMap(&ebpf.MapSpec{Name: "culprit_names", Type: ebpf.Array, KeySize: 4,
		ValueSize: namerSize, MaxEntries: 1}); err != nil {
		return nil, err
	}
	// The kernel accepts a format only in memory that can no longer change.
	if n.fmt, err = NewMap(&ebpf.MapSpec{Name: "culprit_fmt", Type: ebpf.Array, KeySize: 4,
		ValueSize: 8, MaxEntries: 1, Flags: unix.BPF_F_RDONLY_PROG}); err != nil {
		return nil, err
	}
	if err = n.fmt.Put(uint32(0), []byte("%pS\x00\x00\x00\x00\x00")); err != nil {
		return nil, err
	}
	if err = n.fmt.Freeze(); err != nil {
		return nil, err
	}
	if n.names, err = n.load(asm.Instructions{
		asm.LoadMapValue(asm.R6, n.value.FD(), 0),
		asm.LoadMapValue(asm.R7, n.value.FD(), 8*namesAtOnce),
		asm.Mov.Imm(asm.R8, 0),
		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("next"),
		asm.Mov.Imm(asm.R2, namerText),
		asm.LoadMapValue(asm.R3, n.fmt.FD(), 0),
		asm.Mov.Reg(asm.R4, asm.R6),
		asm.Mov.Imm(asm.R5, 8),
		asm.FnSnprintf.Call(),
		asm.Add.Imm(asm.R6, 8),
		asm.Add.Imm(asm.R7, namerText),
		asm.Add.Imm(asm.R8, 1),
		asm.JLT.Imm(asm.R8, namesAtOnce, "next"),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}); err != nil {
		return nil, err
	}
	n.find, err = n.load(asm.Instructions{
		asm.LoadMapValue(asm.R1, n.value.FD(), 8*namesAtOnce),
		asm.Mov.Imm(asm.R2, namerText),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Reg(asm.R4, asm.R10),
		asm.Add.Imm(asm.R4, -8),
		asm.FnKallsymsLookupName.Call(),
		asm.Mov.Imm(asm.R2, 0),
		asm.JNE.Imm(asm.R0, 0, "none"),
		asm.LoadMem(asm.R2, asm.R10, -8, asm.DWord),
		asm.LoadMapValue(asm.R1, n.value.FD(), 0).WithSymbol("none"),
		asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	})
	return n, err
}

func (n *Namer) load(ins asm.Instructions) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{Name: "culprit_names", Type: ebpf.Syscall,
		Flags: unix.BPF_F_SLEEPABLE, Instructions: ins, License: "GPL"})
}

// Close unloads the programs. A second Close, or one of nil, does nothing.
func (n *Namer) Close() {
	if n == nil {
		return
	}
	n.value.Close() //nolint:errcheck // it is of no more use
	n.fmt.Close()   //nolint:errcheck // as above
	n.names.Close() //nolint:errcheck // as above
	n.find.Close()  //nolint:errcheck // as above
}

// A Named is the symbol of the kernel at an address.
type Named struct {
	Name    string // "": there is none, or it is too long
	Module  string // "" of the kernel itself, and of BPF programs
	Offset  uint64
	Size    uint64 // from its start to that of the next
	Nothing bool   // the kernel says that no symbol is there
}

// Names returns the symbols at addresses, one for each. The error is that of running the program.
func (n *Namer) Names(addrs []uint64) ([]Named, error) {
	out := make([]Named, 0, len(addrs))
	value := make([]byte, namerSize)
	for len(addrs) > 0 {
		now := addrs[:min(namesAtOnce, len(addrs))]
		addrs = addrs[len(now):]
		clear(value)
		for i, a := range now {
			binary.NativeEndian.PutUint64(value[8*i:], a)
		}
		if err := n.ask(n.names, &value); err != nil {
			return nil, err
		}
		for i := range now {
			text := value[8*namesAtOnce+i*namerText:][:namerText]
			out = append(out, parseNamed(text))
		}
	}
	return out, nil
}

// Address returns the address of a symbol of the kernel or its modules; 0 when there is none.
// errors.Is measure.ErrUnsupported: the name is too long.
func (n *Namer) Address(name string) (uint64, error) {
	if len(name) >= namerText {
		return 0, fmt.Errorf("symbol of %d letters: %w", len(name), measure.ErrUnsupported)
	}
	value := make([]byte, namerSize)
	copy(value[8*namesAtOnce:], name)
	if err := n.ask(n.find, &value); err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint64(value), nil
}

func (n *Namer) ask(prog *ebpf.Program, value *[]byte) error {
	if err := n.value.Put(uint32(0), *value); err != nil {
		return fmt.Errorf("ask the kernel for symbols: %w", err)
	}
	if _, err := prog.Run(&ebpf.RunOptions{}); err != nil {
		return fmt.Errorf("ask the kernel for symbols: %w", err)
	}
	if err := n.value.Lookup(uint32(0), value); err != nil {
		return fmt.Errorf("ask the kernel for symbols: %w", err)
	}
	return nil
}

// parseNamed parses the text that the kernel prints for an address (lib/vsprintf.c, %pS), up to a
// NUL. Without a symbol it is the address in hexadecimal.
//
//	ext4_read+0x1f/0x60 [ext4]
func parseNamed(text []byte) Named {
	end := bytes.IndexByte(text, 0)
	if end < 0 || end == len(text)-1 {
		return Named{} // it may go on
	}
	text, module, _ := bytes.Cut(text[:end], []byte(" ["))
	plus := bytes.LastIndexByte(text, '+')
	if plus <= 0 {
		return Named{Nothing: bytes.HasPrefix(text, []byte("0x"))}
	}
	offset, size, ok := bytes.Cut(text[plus+1:], []byte("/"))
	at, length := proc.Scan(bytes.TrimPrefix(offset, []byte("0x"))),
		proc.Scan(bytes.TrimPrefix(size, []byte("0x")))
	n := Named{Name: string(text[:plus]), Module: string(bytes.TrimSuffix(module, []byte("]"))),
		Offset: at.Hex(), Size: length.Hex()}
	if !ok || at.Err() != nil || length.Err() != nil {
		return Named{}
	}
	return n
}

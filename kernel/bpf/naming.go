package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"culprit/kernel"
	"culprit/kernel/bpf/program"
	"culprit/kernel/proc"
	"culprit/measure"

	"github.com/cilium/ebpf"
)

// A Namer asks the running kernel for single symbols, which takes some microseconds each. The whole
// table in /proc/kallsyms takes about 40 ms. It is used by one goroutine at a time.
type Namer struct{ program.SymbolsObjects }

// Sizes in struct symbols of program/symbols.c, the value of the programs' map.
const (
	namesAtOnce = 32
	namerText   = 192 // longer names are not returned
	namerSize   = namesAtOnce * (8 + namerText)
)

// NewNamer loads the programs. The caller closes the Namer, which holds four file descriptors.
// Requires Linux 5.16, CAP_BPF and CAP_PERFMON. errors.Is measure.ErrUnsupported or
// measure.ErrDenied.
func NewNamer() (*Namer, error) {
	n := &Namer{}
	spec, err := program.LoadSymbols()
	if err == nil {
		err = load(spec, &n.SymbolsObjects, nil, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for symbols: %w", Classify(kernel.Root{}, err))
	}
	return n, nil
}

// Close unloads the programs. A second Close, or one of nil, does nothing.
func (n *Namer) Close() {
	if n == nil {
		return
	}
	n.SymbolsObjects.Close() //nolint:errcheck // it is of no more use
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
		if err := n.ask(n.CulpritNames, &value); err != nil {
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
	if err := n.ask(n.CulpritFind, &value); err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint64(value), nil
}

func (n *Namer) ask(prog *ebpf.Program, value *[]byte) error {
	if err := n.CulpritSymbols.Put(uint32(0), *value); err != nil {
		return fmt.Errorf("ask the kernel for symbols: %w", err)
	}
	if _, err := prog.Run(&ebpf.RunOptions{}); err != nil {
		return fmt.Errorf("ask the kernel for symbols: %w", err)
	}
	if err := n.CulpritSymbols.Lookup(uint32(0), value); err != nil {
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

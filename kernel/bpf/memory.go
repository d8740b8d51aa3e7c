package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"culprit/kernel"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// A Memory reads the kernel's memory by a BPF program that copies a part of it. It is used by one
// goroutine at a time.
type Memory struct {
	value *ebpf.Map     // array of one element, drawn at memoryHead
	read  *ebpf.Program // also returns the calling task
	all   []byte        // the map's value
}

// The map's value has the request and the answer:
//
//	| u64 address | u32 bytes | s32 error, <= 0 | u64 calling task | ... memoryPiece bytes |
const (
	memoryHead  = 24
	memoryPiece = 64 << 10 // a page more or less costs 100 ns, a run some microseconds
	memorySize  = memoryHead + memoryPiece
)

// ErrNoMemory is the error of an address without readable memory.
var ErrNoMemory = errors.New("nothing that can be read")

// NewMemory loads the program. The caller closes the Memory, which holds two file descriptors.
// Requires Linux 5.14, CAP_BPF and CAP_PERFMON. errors.Is measure.ErrUnsupported or
// measure.ErrDenied.
func NewMemory() (m *Memory, err error) {
	m = &Memory{all: make([]byte, memorySize)}
	made := m // returns of an error set m to nil before they come here
	defer func() {
		if err != nil {
			made.Close()
			m, err = nil, fmt.Errorf("read the kernel's memory: %w", Classify(kernel.Root{}, err))
		}
	}()
	if m.value, err = NewMap(&ebpf.MapSpec{Name: "culprit_memory", Type: ebpf.Array, KeySize: 4,
		ValueSize: memorySize, MaxEntries: 1}); err != nil {
		return nil, err
	}
	m.read, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "culprit_memory", Type: ebpf.Syscall,
		Flags: unix.BPF_F_SLEEPABLE, License: "GPL", Instructions: asm.Instructions{
			asm.LoadMapValue(asm.R6, m.value.FD(), 0),
			asm.FnGetCurrentTask.Call(),
			asm.StoreMem(asm.R6, 16, asm.R0, asm.DWord),
			asm.LoadMapValue(asm.R1, m.value.FD(), memoryHead),
			asm.LoadMem(asm.R2, asm.R6, 8, asm.Word),
			asm.JGT.Imm(asm.R2, memoryPiece, "end"),
			asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord),
			asm.FnProbeReadKernel.Call(),
			asm.StoreMem(asm.R6, 12, asm.R0, asm.Word),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
			asm.Return(),
		}})
	return m, err
}

// Close unloads the program. A second Close, or one of nil, does nothing.
func (m *Memory) Close() {
	if m == nil {
		return
	}
	m.value.Close() //nolint:errcheck // it is of no more use
	m.read.Close()  //nolint:errcheck // as above
}

// Read fills b with the memory at addr. errors.Is ErrNoMemory: a byte of it can't be read; b may
// then be filled in part.
func (m *Memory) Read(addr uint64, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), memoryPiece)
		if _, err := m.ask(addr, n); err != nil {
			return err
		}
		copy(b[:n], m.all[memoryHead:])
		addr, b = addr+uint64(n), b[n:]
	}
	return nil
}

// Word reads a number of eight bytes. The error is that of Read.
func (m *Memory) Word(addr uint64) (uint64, error) {
	var b [8]byte
	err := m.Read(addr, b[:])
	return binary.NativeEndian.Uint64(b[:]), err
}

// Task returns the address of the calling thread's task_struct. The error is that of running the
// program.
func (m *Memory) Task() (uint64, error) { return m.ask(0, 0) }

func (m *Memory) ask(addr uint64, n int) (task uint64, err error) {
	head := m.all[:memoryHead]
	clear(head)
	binary.NativeEndian.PutUint64(head, addr)
	binary.NativeEndian.PutUint32(head[8:], uint32(n))
	if err := m.value.Put(uint32(0), m.all); err != nil {
		return 0, fmt.Errorf("read the kernel's memory: %w", err)
	}
	if _, err := m.read.Run(&ebpf.RunOptions{}); err != nil {
		return 0, fmt.Errorf("read the kernel's memory: %w", err)
	}
	if err := m.value.Lookup(uint32(0), &m.all); err != nil {
		return 0, fmt.Errorf("read the kernel's memory: %w", err)
	}
	if n > 0 && binary.NativeEndian.Uint32(m.all[12:]) != 0 {
		return 0, fmt.Errorf("read the kernel's memory at %#x: %w", addr, ErrNoMemory)
	}
	return binary.NativeEndian.Uint64(m.all[16:]), nil
}

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"culprit/kernel"
	"culprit/kernel/bpf/program"

	"github.com/cilium/ebpf"
)

// A Memory reads the kernel's memory by a BPF program that copies a part of it. It is used by one
// goroutine at a time.
type Memory struct {
	program.MemoryObjects
	all []byte // the value of the program's map: struct memory of program/memory.c
}

// Parts of struct memory.
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
func NewMemory() (*Memory, error) {
	m := &Memory{all: make([]byte, memorySize)}
	spec, err := program.LoadMemory()
	if err == nil {
		err = load(spec, &m.MemoryObjects, nil, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("read the kernel's memory: %w", Classify(kernel.Root{}, err))
	}
	return m, nil
}

// Close unloads the program. A second Close, or one of nil, does nothing.
func (m *Memory) Close() {
	if m == nil {
		return
	}
	m.MemoryObjects.Close() //nolint:errcheck // it is of no more use
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
	if err := m.CulpritMemory.Put(uint32(0), m.all); err != nil {
		return 0, fmt.Errorf("read the kernel's memory: %w", err)
	}
	if _, err := m.CulpritRead.Run(&ebpf.RunOptions{}); err != nil {
		return 0, fmt.Errorf("read the kernel's memory: %w", err)
	}
	if err := m.CulpritMemory.Lookup(uint32(0), &m.all); err != nil {
		return 0, fmt.Errorf("read the kernel's memory: %w", err)
	}
	if n > 0 && binary.NativeEndian.Uint32(m.all[12:]) != 0 {
		return 0, fmt.Errorf("read the kernel's memory at %#x: %w", addr, ErrNoMemory)
	}
	return binary.NativeEndian.Uint64(m.all[16:]), nil
}

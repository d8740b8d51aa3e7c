package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocatingOn returns a story: a program on CPU 0 takes and releases memory of a NUMA node, 100
// MB/s.
func allocatingOn(node int) func() (func(), error) {
	return func() (func(), error) {
		dir := fmt.Sprintf("/sys/devices/system/node/node%d", node)
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("the machine has no such NUMA node: %w", err)
		}
		return child("allocate", strconv.Itoa(node))
	}
}

// allocating takes 10 MB of a node, writes to each page, and releases them, ten times a second.
func allocating(args []string) error {
	node, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the CPU is that of a thread
	var cpu unix.CPUSet
	cpu.Set(0)
	if err := unix.SchedSetaffinity(0, &cpu); err != nil {
		return fmt.Errorf("stay on CPU 0: %w", err)
	}
	fmt.Println("ready")
	for {
		start := time.Now()
		if err := takeFrom(node, 10<<20); err != nil {
			return err
		}
		time.Sleep(time.Until(start.Add(100 * time.Millisecond)))
	}
}

// takeFrom maps memory of a node, writes to it and unmaps it. Small pages only: the kernel counts
// an allocation once, whatever its size.
func takeFrom(node, size int) error {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("map memory: %w", err)
	}
	defer unix.Munmap(b)
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil {
		return fmt.Errorf("ask for small pages: %w", err)
	}
	if err := bind(b, node); err != nil {
		return fmt.Errorf("bind memory to node %d: %w", node, err)
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return nil
}

// bind has the kernel take memory from one node only (mbind, MPOL_BIND of linux/mempolicy.h).
func bind(b []byte, node int) error {
	const policyBind = 2
	nodes := uint64(1) << node
	_, _, e := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		policyBind, uintptr(unsafe.Pointer(&nodes)), 64, 0)
	if e != 0 {
		return e
	}
	return nil
}

package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const hugeDir = "/sys/kernel/mm/transparent_hugepage/"

// fragmented takes most of the memory in pages that are apart, so that no huge page is free, and
// has a program ask for huge pages. Otherwise the memory is whole.
func fragmented(really bool) func() (func(), error) {
	return func() (undo func(), err error) {
		os.WriteFile("/proc/sys/kernel/task_delayacct", []byte("1"), 0) // since Linux 5.14
		for file, value := range map[string]string{"enabled": "always", "defrag": "always"} {
			if err := os.WriteFile(hugeDir+file, []byte(value), 0); err != nil {
				return nil, err
			}
		}
		undo = func() { os.WriteFile(hugeDir+"defrag", []byte("madvise"), 0) }
		if really {
			free, err := fragment()
			if err != nil {
				return undo, err
			}
			undo = func() { free(); os.WriteFile(hugeDir+"defrag", []byte("madvise"), 0) }
		}
		stop, err := child("huge")
		if err != nil {
			return undo, err
		}
		before := undo
		return func() { stop(); before() }, nil
	}
}

// fragment takes 80 % of the free memory, and returns every second page of it.
func fragment() (free func(), err error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, err
	}
	size := int(info.Freeram) / 10 * 8 &^ (2<<20 - 1)
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil {
		return nil, err
	}
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	for i := 0; i < size; i += 8192 {
		if err := unix.Madvise(b[i:i+4096], unix.MADV_DONTNEED); err != nil {
			return nil, err
		}
	}
	return func() { unix.Munmap(b) }, nil
}

// allocating takes a huge page 40 times a second, and returns eight of them at a time.
func allocating([]string) error {
	fmt.Println("ready")
	const huge = 2 << 20
	for {
		b, err := unix.Mmap(-1, 0, 9*huge, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return err
		}
		if err := unix.Madvise(b, unix.MADV_HUGEPAGE); err != nil {
			return err
		}
		for i := 0; i < len(b); i += huge {
			b[i] = 1
			time.Sleep(25 * time.Millisecond)
		}
		if err := unix.Munmap(b); err != nil {
			return err
		}
	}
}

package cases

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// swapStories use a swap file of the run. Only processes in a control group at its limit swap: the
// machine has memory.
func swapStories() []Story {
	return []Story{
		{
			Name: "swapping", Twin: "swap-unused", Needs: needSwap,
			Help:  "a process in a cgroup of 48 MiB uses 128 MiB over and over: it swaps",
			build: swapScene(48<<20, 0),
		},
		{
			Name: "swap-unused", Needs: needSwap,
			Help:  "the same in a cgroup of 1 GiB: nothing is swapped",
			build: swapScene(1<<30, 500e6),
		},
		{
			Name: "swap-in-idle", Twin: "swap-still", Needs: needSwap,
			Help: "a process was swapped out while its cgroup was small, and now touches its " +
				"memory again, 10 MB/s, though memory is free",
			build: swappedScene(10e6),
		},
		{
			Name: "swap-still", Needs: needSwap,
			Help:  "the same, and it does not touch what is swapped out",
			build: swappedScene(1),
		},
	}
}

// needSwap returns which kernel feature is missing for a group that swaps; "" for none. The
// lab sets no swap limit: groups of cgroup version 2 have none by default.
func needSwap() string {
	if !HasController("memory") {
		return "kernel feature cgroup-memory"
	}
	if _, err := os.Stat("/proc/swaps"); err != nil {
		return "kernel feature swap"
	}
	return ""
}

// SwapFile makes a file of the run's folder part of the machine's swap, behind what it has. It ends
// with the run.
func (l *Lab) SwapFile(megabytes int) {
	if l.err != nil {
		return
	}
	name := filepath.Join(l.dir, "swap")
	const page = 4096
	head := make([]byte, page)
	binary.NativeEndian.PutUint32(head[1024:], 1)                            // version
	binary.NativeEndian.PutUint32(head[1028:], uint32(megabytes<<20/page)-1) // last page
	copy(head[page-10:], "SWAPSPACE2")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		l.fail(err)
		return
	}
	zeros := make([]byte, 1<<20) // a swap file has no holes
	for range megabytes {
		if _, err := f.Write(zeros); err != nil {
			l.fail(fmt.Errorf("make a swap file: %w", err))
			break
		}
	}
	_, err = f.WriteAt(head, 0)
	l.fail(err)
	l.fail(f.Sync())
	l.fail(f.Close())
	if l.err != nil {
		return
	}
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		l.fail(err)
		return
	}
	if _, _, e := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(path)), 0, 0); e != 0 {
		l.fail(fmt.Errorf("swapon %s: %w", name, e))
	}
}

// unswap removes the swap files of a run. Its processes have ended, so that no page is in them.
func unswap(dir string) error {
	b, _ := os.ReadFile("/proc/swaps")
	for _, line := range strings.Split(string(b), "\n") {
		name, _, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(name, dir+"/") {
			continue
		}
		path, err := unix.BytePtrFromString(name)
		if err != nil {
			return err
		}
		if _, _, e := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(path)), 0, 0); e != 0 {
			return fmt.Errorf("swapoff %s: %w", name, e)
		}
	}
	return nil
}

func swapScene(limit int64, rate float64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		// Without the traffic of others. Control groups are not visible there: otherwise
		// memory-pressure names the group and explains the swapping.
		sc.Where = l.Host("server")
		l.SwapFile(256)
		g := l.Cgroup("memory", "app")
		g.LimitMemory(limit)
		d := sc.load(Program{Name: "matrix", Act: "grow", Into: []*Cgroup{g}, Patient: true,
			Args: []string{"-most", fmt.Sprint(128 << 20), "-rate", fmt.Sprint(rate)}})
		sc.try("vmstat 1 3")
		sc.try("grep VmSwap /proc/%d/status", d.PID)
		swapped := Range{What: "pages swapped in", Low: 500, High: 1e7, Unit: "1/s",
			Read: keyed("/proc/vmstat", "pswpin")}
		if rate > 0 {
			swapped.Low, swapped.High = 0, 20
			sc.Truth = Truth{Never: []string{"swapping", "swap-in-idle", "memory-pressure"},
				Expect: []Range{swapped}}
			return
		}
		sc.Truth = Truth{Rule: "swapping", Kind: []string{"process"}, Names: []string{d.Name},
			PID: d.PID, Also: []string{"memory-pressure", "disk-saturated"},
			Expect: []Range{swapped}}
	}
}

// swappedScene has a process of 384 MiB, most of which is swapped out, in a control group whose
// limit was raised since.
func swappedScene(rate float64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		sc.Where = l.Host("server") // without the traffic of others
		l.SwapFile(512)
		g := l.Cgroup("memory", "app")
		g.LimitMemory(32 << 20)
		d := sc.load(Program{Name: "editor", Act: "grow", Into: []*Cgroup{g}, Patient: true,
			Args: []string{"-most", fmt.Sprint(384 << 20), "-rate", fmt.Sprint(rate)}})
		g.LimitMemory(1 << 30)
		sc.try("vmstat 1 3")
		sc.try("grep VmSwap /proc/%d/status", d.PID)
		swapped := Range{What: "pages swapped in", Low: 300, High: 5000, Unit: "1/s",
			Read: keyed("/proc/vmstat", "pswpin")}
		held := Range{What: "swapped out", Low: 100, High: 400, Unit: "MB", Level: true,
			Read: func() (float64, time.Time) {
				kb, at := keyed(fmt.Sprintf("/proc/%d/status", d.PID), "VmSwap:")()
				return kb / 1e3, at
			}}
		if rate < 1e6 {
			swapped.Low, swapped.High = 0, 50
			sc.Truth = Truth{Never: []string{"swapping", "swap-in-idle", "memory-pressure"},
				Expect: []Range{swapped, held}}
			return
		}
		sc.Truth = Truth{Rule: "swap-in-idle", Kind: []string{"process", "memory"},
			Names: []string{d.Name, "swap"}, Lowest: "low", Expect: []Range{swapped, held}}
	}
}

package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A load is work of many kinds in this process, little of each: an emulated machine has few CPUs.
type load struct {
	over atomic.Bool
	all  sync.WaitGroup
}

// workFor is how long a part of the load works at a time, and restFor how long it rests in between.
const (
	workFor = 2 * time.Millisecond
	restFor = 40 * time.Millisecond
)

// startLoad starts the load. It writes to dir, and to the file or disk of this path unless that is
// "".
func startLoad(dir, disk string) (*load, error) {
	l := &load{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.each(func() { echo(listener) })
	if err := l.talk(listener.Addr().String()); err != nil {
		return nil, err
	}
	shared, err := os.Create(filepath.Join(dir, "shared"))
	if err != nil {
		return nil, err
	}
	for range 2 { // one waits for the inode's lock while the other writes
		l.each(func() { shared.WriteAt(block[:], 0) }) //nolint:errcheck // it is done to be seen
	}
	var word uint32
	l.each(func() { lockWord(&word) })
	l.each(func() { lockWord(&word) })
	l.each(func() { spin(workFor) })
	l.each(func() {
		os.Stat(dir)                    //nolint:errcheck // it is done to be seen
		exec.Command("/bin/true").Run() //nolint:errcheck // as above
	})
	if disk != "" {
		l.each(func() { writeThrough(disk) })
	}
	return l, nil
}

// block is what is written at once: enough that a thread is put aside while it writes.
var block [4 << 20]byte

// each runs f again and again on a thread of its own.
func (l *load) each(f func()) {
	l.all.Go(func() {
		runtime.LockOSThread()
		for !l.over.Load() {
			f()
			time.Sleep(restFor)
		}
	})
}

// stop ends the load. A thread that waits for a connection ends with the process.
func (l *load) stop() { l.over.Store(true) }

// spin is what profiles have to find.
//
//go:noinline
func spin(d time.Duration) (sum uint64) {
	for began := time.Now(); time.Since(began) < d; {
		for i := range uint64(1000) {
			sum += i * i
		}
	}
	return sum
}

// echo takes one connection, and reads what comes until it ends.
func echo(listener net.Listener) {
	c, err := listener.Accept()
	if err != nil {
		return
	}
	go func() {
		defer c.Close()
		io.Copy(io.Discard, c) //nolint:errcheck // it is done to be seen
	}()
}

// talk sends over one connection that stays, and over one that is made anew each time.
func (l *load) talk(addr string) error {
	stays, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	l.each(func() {
		stays.Write(block[:32<<10]) //nolint:errcheck // it is done to be seen
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Write(block[:1000]) //nolint:errcheck // as above
			c.Close()
		}
	})
	return nil
}

// lockWord takes a lock as futex(2) describes it, holds it for a moment and releases it: 0 is free,
// 1 held, 2 contended.
func lockWord(word *uint32) {
	for !atomic.CompareAndSwapUint32(word, 0, 1) {
		atomic.CompareAndSwapUint32(word, 1, 2)
		timeout := unix.Timespec{Nsec: int64(time.Second)}
		unix.Syscall6(
			unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 0, 2, uintptr(unsafe.Pointer(&timeout)),
			0, 0,
		) // FUTEX_WAIT
	}
	time.Sleep(restFor)
	atomic.StoreUint32(word, 0)
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 1, 1, 0, 0, 0) // FUTEX_WAKE
}

// writeThrough writes to a file so that the disk has it.
func writeThrough(path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_DSYNC, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	f.WriteAt(block[:64<<10], 0) //nolint:errcheck // it is done to be seen
}

package procfs

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Each line is of a thread as the kernel shows it, or with one argument of it changed.
func TestLockWait(t *testing.T) {
	for _, tt := range []struct {
		name, args string
		want       Futex
		wait       bool
	}{
		{"mutex of glibc", "0x564b 0x80 0x2", Futex{Addr: 0x564b}, true},
		{"mutex shared by processes", "0x564b 0x0 0x2", Futex{Addr: 0x564b}, true},
		{"mutex of Rust", "0x564c 0x89 0x2", Futex{Addr: 0x564c}, true},
		{"condition of glibc", "0x5585 0x189 0x0", Futex{}, false},
		{"condition with another word", "0x5585 0x189 0x4", Futex{}, false},
		{"end of a thread", "0x5585 0x109 0x3da4", Futex{}, false},
		{"mutex of musl with its owner", "0x700 0x80 0x800004d2",
			Futex{Addr: 0x700, Owner: 1234, Sure: true}, true},
		{"simplest mutex of musl", "0x700 0x80 0x80000010", Futex{Addr: 0x700, Sure: true}, true},
		{"parked thread of Rust", "0x700 0x89 0xffffffff", Futex{}, false},
		{"more than the last thread", "0x700 0x80 0x80400001", Futex{}, false},
		{"the last thread", "0x700 0x80 0x80400000",
			Futex{Addr: 0x700, Owner: 1 << 22, Sure: true}, true},
		{"a word with only the bit", "0x700 0x80 0x80000000", Futex{}, false},
		{"PI lock", "0x800 0x86 0x0", Futex{Addr: 0x800, Sure: true}, true},
		{"PI lock with another clock", "0x800 0x8d 0x0", Futex{Addr: 0x800, Sure: true}, true},
		{"wakes others", "0x800 0x81 0x2", Futex{}, false},
		{"a signed word", "0x700 0x80 0xffffffff800004d2",
			Futex{Addr: 0x700, Owner: 1234, Sure: true}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call, ok := ParseSyscall(
				fmt.Appendf(nil, "%d %s 0x0 0x0 0x0 0x1 0x2\n", unix.SYS_FUTEX, tt.args))
			if !ok {
				t.Fatal("the line is malformed")
			}
			if got, wait := call.LockWait(); got != tt.want || wait != tt.wait {
				t.Errorf("%+v, %v, want %+v, %v", got, wait, tt.want, tt.wait)
			}
			call.Number++
			if _, wait := call.LockWait(); wait {
				t.Error("another call waits for a lock")
			}
		})
	}
}

func TestLockOwner(t *testing.T) {
	for _, tt := range []struct {
		name string
		lock []byte
		want int32
	}{
		{"glibc", []byte{2, 0, 0, 0, 1, 0, 0, 0, 0x7b, 0x3c, 0, 0, 9, 9}, 0x3c7b},
		{"glibc, nobody else waits", []byte{1, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0x3c, 0, 0}, 0x3c7b},
		{"glibc, free", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0x3c, 0, 0}, 0},
		{"PI", []byte{0x7c, 0x3c, 0, 0x80}, 0x3c7c},
		{"musl", []byte{0x10, 0, 0, 0x80, 0, 0, 0, 0, 0x7b, 0x3c, 0, 0}, 0},
		{"something else behind it", []byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80}, 0},
		{"more than the last thread", []byte{1, 0, 0x40, 0x80}, 0},
		{"cut", []byte{2, 0, 0, 0, 0}, 0},
		{"nothing", nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := LockOwner(tt.lock); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

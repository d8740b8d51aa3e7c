package procfs

import (
	"strings"
	"testing"

	"culprit/heapbound"
)

func TestParseSyscall(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       Syscall
		ok         bool
	}{
		{"a call", "257 0xffffff9c 0x7ffec710cabb 0x241 0x1b6 0x0 0x0 0x7ffe 0x7f17\n",
			Syscall{257, [3]uint64{0xffffff9c, 0x7ffec710cabb, 0x241}}, true},
		{"it runs", "running\n", Syscall{}, false},
		{"a page fault", "-1 0x7ffec710c1a0 0x7f1774e0e011\n", Syscall{}, false},
		{"nothing", "", Syscall{}, false},
		{"too few", "1 0x3 0x4\n", Syscall{}, false},
		{"not hexadecimal", "1 0x3 0x4 5\n", Syscall{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if s, ok := ParseSyscall([]byte(tt.text)); ok != tt.ok || ok && s != tt.want {
				t.Errorf("%+v %v, want %+v %v", s, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestStackFunction(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a frozen file system", "[<0>] percpu_rwsem_wait+0x15f/0x1d0\n" +
			"[<0>] mnt_want_write+0x96/0xc0\n[<0>] path_openat+0x4cf/0x12d0\n", "mnt_want_write"},
		{"addresses, and suffixes of the compiler", "[<ffffffff8123>] io_schedule+0x1/0x2\n" +
			"[<ffffffff8124>] nfs_wait_bit.isra.3+0x1/0x2\n", "nfs_wait_bit"},
		{"of a module", "[<0>] rwsem_down_read_slowpath+0x1/0x2\n" +
			"[<0>] xfs_ilock+0x1/0x2 [xfs]\n", "xfs_ilock"},
		{"primitives only", "[<0>] schedule+0x1/0x2\n", ""},
		{"nothing", "", ""},
		{"no stack", "permission denied\n[<0>] \n[<0>] +0x1\n[<0>] a;b\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(StackFunction([]byte(tt.text))); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzBlocked(f *testing.F) {
	f.Add([]byte("257 0xffffff9c 0x7ffec710cabb 0x241 0x1b6 0x0 0x0 0x7ffe 0x7f17\n"))
	f.Add([]byte("[<0>] percpu_rwsem_wait+0x15f/0x1d0\n[<0>] mnt_want_write+0x96/0xc0\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if s, ok := ParseSyscall(b); ok {
			if a, ok := s.FileArgs(); ok && (a.FD < 0 && a.Path < 0 || max(a.FD, a.Path) > 2) {
				t.Errorf("arguments %+v", a)
			}
		}
		name := string(StackFunction(b))
		if strings.ContainsAny(name, " .+\n\x1b\x00") || len(name) > 128 {
			t.Errorf("function %q", name)
		}
	})
}

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// A fakeLimit is a kernel's limit of locked memory.
type fakeLimit struct {
	soft, hard uint64
	mayRaise   bool // CAP_SYS_RESOURCE
	counts     bool
	raised     int
	pauses     int
}

func (f *fakeLimit) memlock() memlock {
	return memlock{
		limit: func() (soft, hard uint64, err error) { return f.soft, f.hard, nil },
		raise: func(soft, hard uint64) error {
			if hard > f.hard && !f.mayRaise {
				return unix.EPERM
			}
			f.soft, f.hard = soft, hard
			f.raised++
			return nil
		},
		counts: func() bool { return f.counts },
		pause:  func() { f.pauses++ },
	}
}

const unlimited = unix.RLIM_INFINITY

// What is charged against the limit fails until the limit is high enough.
func TestLocking(t *testing.T) {
	const allRights, noRights = "000001ffffffffff", "0000000000000000"
	for _, tt := range []struct {
		name       string
		limit      fakeLimit
		rights     string
		needs      uint64 // bytes; 0: the map is refused whatever the limit is
		refused    error  // what the kernel says where the limit is too low
		want       uint64 // the limit named in the error; 0: none
		fails      bool
		raised     int
		afterwards uint64
	}{
		{name: "fits", limit: fakeLimit{soft: 64, hard: 64, counts: true}, rights: allRights,
			needs: 64, afterwards: 64},
		{name: "raised without bound", limit: fakeLimit{soft: 64, hard: 64, counts: true,
			mayRaise: true}, rights: allRights, needs: 65, raised: 1, afterwards: unlimited},
		{name: "raised to the hard limit", limit: fakeLimit{soft: 64, hard: 128, counts: true},
			rights: allRights, needs: 128, raised: 1, afterwards: 128},
		{name: "hard limit too low", limit: fakeLimit{soft: 64, hard: 128, counts: true},
			rights: allRights, needs: 129, raised: 1, want: 128, fails: true, afterwards: 128},
		{name: "may not be raised", limit: fakeLimit{soft: 64, hard: 64, counts: true},
			rights: allRights, needs: 65, want: 64, fails: true, afterwards: 64},
		{name: "the right is missing", limit: fakeLimit{soft: 64, hard: 64, counts: true},
			rights: noRights, fails: true, afterwards: 64},
		{name: "forbidden without a limit", limit: fakeLimit{soft: unlimited, hard: unlimited,
			counts: true}, rights: allRights, fails: true, afterwards: unlimited},
		{name: "forbidden, raised in vain", limit: fakeLimit{soft: 64, hard: 64, counts: true,
			mayRaise: true}, rights: allRights, fails: true, raised: 1, afterwards: unlimited},
		{name: "does not count", limit: fakeLimit{soft: 64, hard: 64, mayRaise: true},
			rights: allRights, fails: true, afterwards: 64},
		{name: "another error", limit: fakeLimit{soft: 64, hard: 64, counts: true, mayRaise: true},
			rights: allRights, needs: 65, refused: unix.EINVAL, fails: true, afterwards: 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := captured(t, map[string]string{"proc/thread-self/status": "CapEff:\t" + tt.rights +
				"\nSeccomp:\t0\n"})
			if tt.refused == nil {
				tt.refused = unix.EPERM
			}
			err := locking(r, func() error {
				if tt.needs == 0 || tt.limit.soft < tt.needs {
					return fmt.Errorf("map create: %w (MEMLOCK may be too low, consider "+
						"rlimit.RemoveMemlock)", tt.refused)
				}
				return nil
			}, tt.limit.memlock())
			if (err != nil) != tt.fails {
				t.Fatalf("error %v, want one: %v", err, tt.fails)
			}
			limit, ok := errors.AsType[*MemoryLimit](err)
			if ok != (tt.want > 0) || ok && limit.Limit != tt.want {
				t.Errorf("error %v, want the limit %d named", err, tt.want)
			}
			if tt.limit.raised != tt.raised || tt.limit.soft != tt.afterwards {
				t.Errorf("raised %d times to %d, want %d times to %d", tt.limit.raised,
					tt.limit.soft, tt.raised, tt.afterwards)
			}
		})
	}
}

// The charge of a map that was closed is given back only some time later.
func TestLockingWaits(t *testing.T) {
	limit := fakeLimit{soft: 64, hard: 64, counts: true}
	r := captured(t, map[string]string{"proc/thread-self/status": "CapEff:\t000001ffffffffff\nSeccomp:\t0\n"})
	err := locking(r, func() error {
		if limit.pauses < 3 {
			return unix.EPERM
		}
		return nil
	}, limit.memlock())
	if err != nil {
		t.Fatal(err)
	}
}

func TestMemoryLimitError(t *testing.T) {
	err := error(&MemoryLimit{Limit: 65536, Wants: 5 << 20})
	for _, want := range []string{"64 KiB", "5120 KiB", "5.11", "ulimit -l",
		"LimitMEMLOCK=infinity", "CAP_SYS_RESOURCE", "memlock=-1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if !errors.Is(err, measure.ErrDenied) || errors.Is(err, fs.ErrExist) {
		t.Error("it is not what is denied")
	}
}

func TestCountsLocked(t *testing.T) {
	const charged = "0000000000000000 T __bpf_prog_charge\n0000000000000000 T other\n"
	for _, tt := range []struct {
		name, release, symbols string
		want                   bool
	}{
		{"before 5.11", "5.10.0-46-cloud-amd64\n", charged, true},
		{"before 5.11, charged to the cgroup by a backport", "4.18.0-553.el8_10.x86_64\n",
			"0000000000000000 T other\n0000000000000000 t __bpf_prog_charge_not\n", false},
		{"5.11", "5.11.0\n", charged, false},
		{"6.1", "6.1.0-56-amd64\n", charged, false},
		{"release that can't be read", "", charged, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := captured(t, map[string]string{"proc/sys/kernel/osrelease": tt.release,
				"proc/kallsyms": tt.symbols})
			if got := countsLocked(r); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
	t.Run("no list of symbols", func(t *testing.T) {
		if r := captured(t, map[string]string{"proc/sys/kernel/osrelease": "5.4.0\n"}); !countsLocked(r) {
			t.Error("upstream's 5.4 counts")
		}
	})
}

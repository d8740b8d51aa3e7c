package disk

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// TestFilesystemAccess checks which file systems count as read-only after an error.
func TestFilesystemAccess(t *testing.T) {
	for _, tt := range []struct{ name, lines, want string }{
		{"usual", "1 0 8:1 / /a rw,relatime - ext4 /dev/a rw", "rw"},
		{"mounted read-only", "1 0 8:1 / /a ro,relatime - ext4 /dev/a ro", "ro"},
		{"this mount is read-only", "1 0 8:1 / /a ro - ext4 /dev/a rw", "ro"},
		{"after an error", "1 0 8:1 / /a rw shared:7 - ext4 /dev/a ro,errors=remount-ro",
			"failed"},
		{"since Linux 6.15", "1 0 8:1 / /a rw - ext4 /dev/a rw,errors=remount-ro,emergency_ro",
			"failed"},
		{"shut down", "1 0 8:1 / /a rw - ext4 /dev/a rw,shutdown", "failed"},
		{"another mount can be written", "1 0 8:1 / /a ro - btrfs /dev/a ro\n" +
			"2 0 8:1 /x /longer rw - btrfs /dev/a ro", "failed"},
		{"an image", "1 0 7:1 / /a rw - squashfs /dev/loop1 ro", "ro"},
		{"an option like it", "1 0 8:1 / /a rw - ext4 /dev/a rw,errors=remount-ro,ro_x", "rw"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chosen, _ := chooseMounts(procfs.ParseMounts([]byte(tt.lines)))
			if len(chosen) != 1 || chosen[0].access != tt.want {
				t.Errorf("%+v, want one that is %s", chosen, tt.want)
			}
		})
	}
}

// TestFilesystemAccessIsReadAgain: the kernel does not announce that a file system has become
// read-only, so the options are read again.
func TestFilesystemAccessIsReadAgain(t *testing.T) {
	line := "1 0 8:1 / /nowhere rw - ext4 /dev/a "
	m := collecttest.NewMachine(
		t, Filesystems{}, map[string]string{"proc/self/mountinfo": line + "rw\n"},
	)
	if rows := m.Read(true); rows["filesystem.access|/nowhere|/dev/a|ext4|rw"] != 1 {
		t.Fatal(rows)
	}
	m.Put(map[string]string{"proc/self/mountinfo": line + "ro\n"})
	for range accessReadings {
		if m.Read(false)["filesystem.access|/nowhere|/dev/a|ext4|failed"] == 1 {
			return
		}
	}
	t.Errorf("still writable after %d readings", accessReadings)
}

// TestFilesystemsOfProcessOne: a process with a mount namespace of its own, as a systemd unit with
// ProtectSystem has, measures the file systems of process 1, unless it may not look into it.
func TestFilesystemsOfProcessOne(t *testing.T) {
	for _, tt := range []struct {
		name, own, first string // links of the namespaces
		root             bool   // the root directory of process 1 can be read
		want             string // the mount that is there
	}{
		{"another namespace", "mnt:[1]", "mnt:[2]", true, "/first"},
		{"the same one", "mnt:[2]", "mnt:[2]", true, "/own"},
		{"process 1 may not be read", "mnt:[1]", "", true, "/own"},
		{"its files may not be read", "mnt:[1]", "mnt:[2]", false, "/own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := collecttest.EmptyMachine(t)
			m.Put(map[string]string{
				"proc/self/mountinfo": "1 0 8:1 / /own rw - ext4 /dev/a rw\n",
				"proc/1/mountinfo":    "1 0 8:2 / /first rw - ext4 /dev/b rw\n",
			})
			for pid, link := range map[string]string{"self": tt.own, "1": tt.first} {
				ns := filepath.Join(m.Dir, "proc", pid, "ns")
				if err := os.MkdirAll(ns, 0o755); err != nil {
					t.Fatal(err)
				}
				if link != "" {
					if err := os.Symlink(link, filepath.Join(ns, "mnt")); err != nil {
						t.Fatal(err)
					}
				}
			}
			if tt.root {
				err := os.MkdirAll(filepath.Join(m.Dir, "proc/1/root/first"), 0o755)
				if err != nil {
					t.Fatal(err)
				}
			}
			m.Open(Filesystems{})
			rows := m.Read(true)
			device := map[string]string{"/own": "/dev/a", "/first": "/dev/b"}[tt.want]
			if rows["filesystem.access|"+tt.want+"|"+device+"|ext4|rw"] != 1 {
				t.Errorf("%v", rows)
			}
			// There is no /own here, so its size is not known.
			_, sized := rows["filesystem.size|"+tt.want+"|"+device+"|ext4|total"]
			if sized != (tt.want == "/first") {
				t.Errorf("sizes: %v", rows)
			}
		})
	}
}

// TestFilesystemUse checks that used and available are between 0 and the total, or unknown with a
// note, whatever statfs returns.
func TestFilesystemUse(t *testing.T) {
	below := uint64(math.MaxUint64) - 127 // -128
	for _, tt := range []struct {
		name                   string
		total, free, available uint64
		used, left             float64 // in blocks
	}{
		{"usual", 1000, 300, 250, 700, 250},
		{"full", 1000, 0, 0, 1000, 0},
		{"empty", 1000, 1000, 950, 0, 950},
		{"torn by one", 1000, 1001, 1000, 0, 1000},
		{"more free than there is", 1000, 5000, 900, measure.NaN, 900},
		{"root used what is kept", 1000, 10, below, 990, measure.NaN},
		{"both below zero", 1000, below, below, measure.NaN, measure.NaN},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &filesystemReading{
				poll:  -1,
				words: []string{"total", "used", "available"},
				sizes: true,
				mounts: []filesystem{
					{Mount: procfs.Mount{Path: "/a", Source: "a", Type: "ext4"}, epoch: -1},
				},
			}
			r.root = kernel.Root{Proc: t.TempDir()}
			r.statfs = func(_ string, st *unix.Statfs_t) error {
				*st = unix.Statfs_t{
					Bsize:  4096,
					Frsize: 4096,
					Blocks: tt.total,
					Bfree:  tt.free,
					Bavail: tt.available,
					Files:  tt.total,
					Ffree:  tt.free,
				}
				return nil
			}
			out := collect.NewOut(Filesystems{}.Stats(), collect.NewDictionary(), false)
			out.Start(true, time.Now())
			out.Start(false, time.Now())
			r.put(out)
			notes := strings.Join(out.Table("filesystem.size").Batch().Notes, " ")
			rows := collecttest.RowsOf(t, out)
			for kind, want := range map[string]float64{
				"total":     float64(tt.total),
				"used":      tt.used,
				"available": tt.left,
			} {
				if got := rows["filesystem.size|/a|a|ext4|"+kind]; !collecttest.Near(
					got, want*4096,
				) {
					t.Errorf("%s = %v, want %v", kind, got, want*4096)
				}
			}
			for _, kind := range []string{"used", "available"} {
				if got := rows["filesystem.inodes|/a|a|ext4|"+kind]; got < 0 || got > 1010 {
					t.Errorf("inodes %s = %v", kind, got)
				}
			}
			if unknown := tt.used != tt.used || tt.left != tt.left; unknown != strings.Contains(
				notes, "unknown",
			) {
				t.Errorf("notes %q", notes)
			}
		})
	}
}

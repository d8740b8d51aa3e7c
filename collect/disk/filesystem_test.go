package disk

import (
	"math"
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

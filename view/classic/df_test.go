package classic

import (
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// fileSystems are: one whose root has a reserve; one without a number of inodes; one that is full
// by its nature; one without a size; one whose mode changed within the interval.
func fileSystems(t *testing.T) *view.Frame {
	level := func(query string, lines ...string) *measure.Answer {
		return viewtest.Answer(t, query, measure.Level, false, lines...)
	}
	return viewtest.Frame(
		level("filesystem.size by mount,device,type,kind",
			"/ /dev/sda1 ext4 total 1000", "/ /dev/sda1 ext4 used 900",
			"/ /dev/sda1 ext4 available 0",
			"/b /dev/sdb btrfs total 2048", "/b /dev/sdb btrfs used 1536",
			"/b /dev/sdb btrfs available -",
			"/snap/a /dev/loop0 squashfs total 7", "/snap/a /dev/loop0 squashfs used 7",
			"/snap/a /dev/loop0 squashfs available 0",
			"/x /dev/sdc xfs total 400", "/x /dev/sdc xfs used 100",
			"/x /dev/sdc xfs available 300"),
		level("filesystem.inodes by mount,device,type,kind",
			"/ /dev/sda1 ext4 total 64", "/ /dev/sda1 ext4 used 64",
			"/ /dev/sda1 ext4 available 0"),
		level("filesystem.access by mount,device,type,access",
			"/ /dev/sda1 ext4 rw 1", "/b /dev/sdb btrfs ro 1", "/x /dev/sdc xfs rw 1",
			"/x /dev/sdc xfs failed 1", "/none none weird rw 1"),
	)
}

// The reserve of root counts as neither used nor available, so ext4 is full with 90 % used.
func TestFileSystems(t *testing.T) {
	const columns = "%Use %IUse Access mount"
	for _, tt := range []struct {
		name    string
		options view.Options
		want    string
	}{
		{"those that have a size", view.Options{},
			"1 1 rw /\n- - ro /b\n0.25 - failed /x"},
		{"all", view.Options{"all": {""}},
			"1 1 rw /\n- - ro /b\n- - rw /none\n1 - - /snap/a\n0.25 - failed /x"},
		{"named ones", view.Options{"mount": {"/s*/*", "/none"}},
			"- - rw /none\n1 - - /snap/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := cells(t, DF().Table(tt.options, fileSystems(t)), columns)
			if got = strings.ReplaceAll(got, "NaN", "-"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// A file system that an error made read-only says so at its row.
func TestFailedFileSystemsHaveARemark(t *testing.T) {
	for _, r := range DF().Table(view.Options{}, fileSystems(t)).Rows {
		if failed := r.Cells[11].Text == "/x"; failed != (r.Remark != "") {
			t.Errorf("%s: remark %q", r.Cells[11].Text, r.Remark)
		}
	}
}

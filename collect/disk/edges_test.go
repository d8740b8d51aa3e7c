package disk

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/collect/procfs"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// TestDiskColumns reads lines of every number of columns. Kernels have 11, 15 (discards) or 17
// (flushes); a line with fewer than 11 is not read, and the others have what they have.
func TestDiskColumns(t *testing.T) {
	before, after := "8 0 sda", "8 0 sda"
	rows := []string{ // that come with each column
		"operations|sda|read", "merges|sda|read", "bytes|sda|read", "wait|sda|read",
		"operations|sda|write", "merges|sda|write", "bytes|sda|write", "wait|sda|write",
		"inflight|sda", "busy|sda", "queue|sda",
		"operations|sda|discard", "merges|sda|discard", "bytes|sda|discard", "wait|sda|discard",
		"operations|sda|flush", "wait|sda|flush",
	}
	for n := range rows {
		before += fmt.Sprint(" ", 10*n)
		after += fmt.Sprint(" ", 11*n+1)
		m := collecttest.NewMachine(t, Disks{}, map[string]string{"proc/diskstats": before + "\n"})
		m.Read(true)
		m.Put(map[string]string{"proc/diskstats": after + "\n"})
		want := map[string]float64{"disk.info|sda|disk|||": 1}
		for i, row := range rows[:n+1] {
			if n+1 < diskHasQueue {
				break
			}
			scale := 1.0
			switch row[:4] {
			case "byte":
				scale = 512
			case "wait", "busy", "queu":
				scale = 1e6
			}
			want["disk."+row] = float64(i+1) * scale
			if row == "inflight|sda" {
				want["disk."+row] = float64(11*i + 1)
			}
		}
		t.Run(fmt.Sprintf("%d columns", n+1), func(t *testing.T) {
			collecttest.Expect(t, m.Read(false), "", want)
			lacks := strings.Contains(m.Notes(), "/proc/diskstats has no column of it")
			if lacks != (n+1 < diskHasQueue) {
				t.Errorf("notes %q", m.Notes())
			}
		})
	}
}

func TestDiskLines(t *testing.T) {
	const numbers = " 1 2 3 4 5 6 7 8 9 10 11"
	for line, want := range map[string]bool{
		"8 0 sda" + numbers:                   true,
		"8 0 sda":                             true,
		"4294967295 4294967295 sda" + numbers: true,
		"4294967296 0 sda" + numbers:          false,
		"0 4294967296 sda" + numbers:          false,
		"8 0":                                 false,
		"8 x sda" + numbers:                   false,
		"8 0 sda 1 2 3 4 5 6 7 8 9 10 x":      false,
		"":                                    false,
	} {
		d, ok := parseDiskLine([]byte(line))
		if ok != want {
			t.Errorf("%q is a line of a disk: %v, want %v", line, ok, want)
		}
		if ok && string(d.name) != "sda" {
			t.Errorf("%q has the name %q", line, d.name)
		}
	}
	d, _ := parseDiskLine([]byte("8 0 sda 1 2 3 4294967303 5 6 7 8589934592 9 10 11"))
	if d.times[0] != 7 || d.times[1] != 0 {
		t.Errorf("times beyond 32 bits are %v", d.times)
	}
	none := collecttest.NewMachine(t, Disks{}, map[string]string{"proc/diskstats": "\n"})
	for range 12 {
		if rows := none.Read(false); len(rows) != 0 {
			t.Errorf("without disks there are rows %v", rows)
		}
	}
	for inflight, want := range map[uint64]float64{1<<31 - 1: 1<<31 - 1, 1 << 31: 0, 7: 7} {
		line := fmt.Sprintf("8 0 sda 1 2 3 4 5 6 7 8 %d 10 11\n", inflight)
		m := collecttest.NewMachine(t, Disks{}, map[string]string{"proc/diskstats": line})
		if got := m.Read(true)["disk.inflight|sda"]; got != want {
			t.Errorf("%d in flight are shown as %v, want %v", inflight, got, want)
		}
	}
}

// TestDiskInfoIsReadAgain changes the scheduler of two disks. Each tenth reading sees one change. A
// counter of errors that cannot be read is unknown, with a note.
func TestDiskInfoIsReadAgain(t *testing.T) {
	files := map[string]string{"proc/diskstats": ""}
	for n, name := range []string{"sda", "sdb"} {
		files["proc/diskstats"] += fmt.Sprintf("8 %d %s 1 2 3 4 5 6 7 8 9 10 11\n", 16*n, name)
		files["sys/class/block/"+name+"/queue/scheduler"] = "[none] kyber\n"
		files["sys/class/block/"+name+"/device/ioerr_cnt"] = "0x1f\n"
	}
	m := collecttest.NewMachine(t, Disks{}, files)
	schedulers := func(rows map[string]float64) (all string) {
		for _, name := range []string{"sda", "sdb"} {
			for _, scheduler := range []string{"none", "kyber"} {
				if rows["disk.info|"+name+"|disk|||"+scheduler] == 1 {
					all += scheduler + " "
				}
			}
		}
		return all
	}
	if got := schedulers(m.Read(true)); got != "none none " {
		t.Errorf("at first the schedulers are %s", got)
	}
	m.Put(map[string]string{
		"sys/class/block/sda/queue/scheduler":  "none [kyber]\n",
		"sys/class/block/sdb/queue/scheduler":  "none [kyber]\n",
		"sys/class/block/sda/device/ioerr_cnt": "0x22\n",
		"sys/class/block/sdb/device/ioerr_cnt": "many\n",
	})
	for reading := 2; reading <= 20; reading++ {
		rows := m.Read(false)
		want := "none none "
		switch {
		case reading == 20:
			want = "kyber kyber "
		case reading >= 10:
			want = "kyber none "
		}
		if got := schedulers(rows); got != want {
			t.Errorf("reading %d: the schedulers are %s, want %s", reading, got, want)
		}
		grown := 0.0
		if reading == 2 {
			grown = 3
		}
		collecttest.Expect(t, rows, "disk.errors", map[string]float64{
			"disk.errors|sda": grown, "disk.errors|sdb": measure.NaN,
		})
		if notes := m.Notes(); !strings.Contains(notes, "the errors of sdb could not be read") ||
			strings.Contains(notes, "of sda") || strings.Contains(notes, "no disk here") {
			t.Errorf("notes %q", notes)
		}
	}
	if guessed := "guessed from its name"; strings.Contains(m.Notes(), guessed) {
		t.Errorf("notes %q", m.Notes())
	}
}

// TestDiskWithoutSysfs checks the notes of devices that are known by name only.
func TestDiskWithoutSysfs(t *testing.T) {
	m := collecttest.NewMachine(
		t, Disks{}, map[string]string{"proc/diskstats": "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n"},
	)
	m.Read(true)
	for _, want := range []string{"guessed from its name", "no disk here counts its errors"} {
		if !strings.Contains(m.Notes(), want) {
			t.Errorf("%q is not in the notes %q", want, m.Notes())
		}
	}
}

// TestReadingsCloseTheirFiles opens and closes the collectors and counts open files.
func TestReadingsCloseTheirFiles(t *testing.T) {
	m := collecttest.EmptyMachine(t)
	m.Put(map[string]string{
		"proc/diskstats":                       "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n",
		"sys/class/block/sda/device/ioerr_cnt": "0x1f\n",
		"proc/self/mountinfo":                  mountsFile,
	})
	open := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := open()
	for range 20 {
		if err := m.TryOpen(Disks{}); err != nil {
			t.Fatal(err)
		}
		m.Read(true)
		m.Reading.Close()
		if err := m.TryOpen(Filesystems{}); err != nil {
			t.Fatal(err)
		}
		m.Reading.Close()
		m.Reading.Close() // closes no descriptor that something else has now
	}
	if after := open(); after > before+10 {
		t.Errorf("%d files are open, were %d", after, before)
	}
}

// TestSkippedMounts checks the note on remote file systems: five are named.
func TestSkippedMounts(t *testing.T) {
	for count, want := range map[int]string{
		0: "", 5: "may hang: /0 /1 /2 /3 /4", 6: "may hang: /0 /1 /2 /3 /4 ...",
	} {
		text := "1 0 8:1 / /a rw - ext4 /dev/a rw\n"
		for n := range count {
			text += fmt.Sprintf("%d 0 0:%d / /%d rw - nfs server:/x rw\n", 10+n, 10+n, n)
		}
		m := collecttest.NewMachine(
			t, Filesystems{}, map[string]string{"proc/self/mountinfo": text},
		)
		m.Reading.(*filesystemReading).statfs = func(string, *unix.Statfs_t) error { return nil }
		m.Read(true)
		for _, table := range m.Out.Tables() {
			notes := table.Batch().Notes
			switch {
			case want == "" && len(notes) == 0:
			case want != "" && len(notes) == 1 && strings.HasSuffix(notes[0], want):
			default:
				t.Errorf("%d skipped: notes %q of %s", count, notes, table.Batch().Stat)
			}
		}
	}
}

// TestStatfsFails checks a file system that is unmounted, one that fails, and then works again.
func TestStatfsFails(t *testing.T) {
	m := collecttest.NewMachine(t, Filesystems{}, map[string]string{
		"proc/self/mountinfo": "1 0 8:1 / /a rw - ext4 /dev/a rw\n",
	})
	r := m.Reading.(*filesystemReading)
	r.poll = -1 // a file of a test announces no changes: its mounts are listed at each reading
	var fails error
	r.statfs = func(_ string, st *unix.Statfs_t) error {
		*st = unix.Statfs_t{Bsize: 1024, Blocks: 9, Bfree: 7, Bavail: 5}
		return fails
	}
	whole := map[string]float64{ // without Frsize the unit is Bsize
		"filesystem.size|/a|/dev/a|ext4|total":     9 * 1024,
		"filesystem.size|/a|/dev/a|ext4|used":      2 * 1024,
		"filesystem.size|/a|/dev/a|ext4|available": 5 * 1024,
	}
	for _, tt := range []struct {
		name string
		err  error
		want map[string]float64
		note string
	}{
		{"works", nil, whole, ""},
		{"unmounted", unix.ENOENT, nil, ""},
		{"fails", unix.EIO, nil, "statfs /a: input/output error"},
		{"works again", nil, whole, ""},
	} {
		fails = tt.err
		collecttest.Expect(t, m.Read(false), "filesystem.size", tt.want)
		if m.Notes() != strings.TrimSpace(tt.note+"\n"+tt.note) {
			t.Errorf("%s: notes %q", tt.name, m.Notes())
		}
	}
	if err := os.Remove(m.Dir + "/proc/self/mountinfo"); err != nil {
		t.Fatal(err)
	}
	m.Start(false)
	if err := m.Reading.Read(m.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a list of mounts: %v", err)
	}
}

// TestChosenMounts: of equal paths the last one counts, and of several paths the shortest.
func TestChosenMounts(t *testing.T) {
	chosen, skipped := chooseMounts(procfs.ParseMounts([]byte(
		"1 0 8:1 / /long rw - ext4 /dev/a rw\n2 0 8:1 / /b rw - ext4 /dev/b rw\n" +
			"3 0 8:1 / /c rw - ext4 /dev/c rw\n4 0 8:2 / /long rw - xfs /dev/d rw\n" +
			"5 0 0:9 / /s rw - fuse.sshfs x rw\n6 0 0:9 / /t rw - fuse.sshfs x rw\n",
	)))
	var got []string
	for _, m := range chosen {
		got = append(got, m.Path+" "+m.Source)
	}
	if want := "/b /dev/b, /long /dev/d"; strings.Join(got, ", ") != want {
		t.Errorf("chosen %q, want %s", got, want)
	}
	if strings.Join(skipped, " ") != "/s /t" {
		t.Errorf("skipped %q", skipped)
	}
}

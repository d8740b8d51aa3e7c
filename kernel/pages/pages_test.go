package pages

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestParseOwn(t *testing.T) {
	const text = `00400000-010af000 r-xp 00000000 fe:00 6554                               /opt/a b/culprit
Size:              12988 kB
Rss:                8868 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
010af000-01e3f000 r--p 00caf000 fe:00 6554                               /opt/a b/culprit
Anonymous:             4 kB
01e3f000-01eed000 rw-p 01a3f000 fe:00 6554                               /opt/a b/culprit
Anonymous:             0 kB
01eed000-03f3a000 rw-p 00000000 00:00 0
Anonymous:            72 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 6554                       /opt/a b/culprit
Anonymous:             0 kB
7f0000001000-7f0000002000 r-xp 00000000 fe:00 99                         /lib/other.so
Anonymous:             0 kB
7f0000003000-7f0000002000 r-xp 00000000 fe:00 6554                       /opt/a b/culprit
Anonymous:             0 kB
nonsense
Anonymous:             0 kB
7f0000004000-7f0000005000 r--p 00000000 fe:00 6554                       /opt/a b/culprit
Anonymous:`
	if got, want := fmt.Sprintf("%x", parseOwn(text, "/opt/a b/culprit")), "[{400000 10af000} {7f0000000000 7f0000001000}]"; got != want {
		t.Errorf("got %s, want %s: what is written to, another's, or malformed is left alone", got, want)
	}
}

func TestForget(t *testing.T) {
	if _, err := os.Stat("/proc/self/smaps"); err != nil {
		return // this kernel does not tell, and nothing is forgotten
	}
	resident := func() (kB int) {
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(b), "RssFile:")
		if _, err := fmt.Sscan(after, &kB); err != nil {
			t.Fatal(err)
		}
		return kB
	}
	before := resident()
	if before < 1000 {
		return // the program is in a file system of memory, which counts otherwise
	}
	Forget()
	if after := resident(); after >= before {
		t.Errorf("%d kB of files were resident, and %d are after most was forgotten", before, after)
	}
}

// TestSingle looks at the kernel's account of the process itself: where faults map single pages, every mapping of the program's file says so.
func TestSingle(t *testing.T) {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return // this kernel does not tell, and all is as it was
	}
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	maps := parseOwn(string(smaps), path)
	if len(maps) == 0 {
		t.Fatalf("no mapping of %s in\n%s", path, smaps)
	}
	registered := 0
	for _, m := range maps {
		_, rest, _ := strings.Cut(string(smaps), fmt.Sprintf("%08x-%08x r", m.start, m.end))
		_, flags, _ := strings.Cut(rest, "VmFlags:")
		flags, _, _ = strings.Cut(flags, "\n")
		if strings.Contains(flags+" ", " uw ") {
			registered++
		}
	}
	want := 0
	if Single() {
		want = len(maps)
	}
	if registered != want {
		t.Errorf("%d of %d mappings are mapped page by page, want %d", registered, len(maps), want)
	}
}

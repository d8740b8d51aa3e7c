package cgroup

import (
	"fmt"
	"testing"

	"culprit/collect/collecttest"
	"culprit/measure"
)

func TestDeviceNumber(t *testing.T) {
	for text, want := range map[string]uint64{
		"254:3": 254<<32 | 3, "0:0": 0, "4294967295:4294967295": 1<<64 - 1,
	} {
		if got, ok := parseDeviceNumber([]byte(text)); !ok || got != want {
			t.Errorf("%q is device %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", ":", "254", "254:", ":3", "x:3", "254:x", "4294967296:0", "0:4294967296",
	} {
		if got, ok := parseDeviceNumber([]byte(text)); ok {
			t.Errorf("%q is device %d", text, got)
		}
	}
}

func TestIOLine2(t *testing.T) {
	tests := []struct {
		line  string
		bytes ioCounts
		has   ioKeys
		ok    bool
	}{
		{"254:0 rbytes=7 wbytes=11 rios=1 wios=2 dbytes=13 dios=3", ioCounts{7, 11, 13, 1, 2, 3},
			ioKeys{true, true, true, true, true, true}, true},
		{"254:0 dbytes=13 rbytes=7", ioCounts{7, 0, 13}, ioKeys{true, false, true}, true},
		{"254:0", ioCounts{}, ioKeys{}, true},
		{"254:0 cost.usage=5 cost.wait=x", ioCounts{}, ioKeys{}, true},
		{"254:0 rbytes=x", ioCounts{}, ioKeys{}, false},
		{"254:0 rbytes=7 wbytes=", ioCounts{}, ioKeys{}, false},
		{"Total 7", ioCounts{}, ioKeys{}, false},
	}
	for _, tt := range tests {
		text, device, bytes, has, ok := parseIOLine2([]byte(tt.line))
		if ok != tt.ok || ok && (bytes != tt.bytes || has != tt.has) {
			t.Errorf("%q: %v, %v, %v, want %v, %v, %v", tt.line, bytes, has, ok, tt.bytes, tt.has,
				tt.ok)
		}
		if ok && (string(text) != "254:0" || device != 254<<32) {
			t.Errorf("%q is of device %s, %d", tt.line, text, device)
		}
	}
}

// TestGroupIO follows three devices of a group in both versions: one grows at each reading, one
// rests, and one comes later and counts from zero. Then one counter goes back.
func TestGroupIO(t *testing.T) {
	const at2, at1 = "cg/unified/g/io.stat", "cg/blkio/g/blkio.throttle.io_service_bytes_recursive"
	line2 := func(device string, r, w, d int) string {
		return fmt.Sprintf("%s rbytes=%d wbytes=%d rios=1 wios=1 dbytes=%d dios=1\n", device, r, w, d)
	}
	line1 := func(device string, r, w, d int) string {
		return fmt.Sprintf("%[1]s Read %[2]d\n%[1]s Write %[3]d\n%[1]s Sync 9\n%[1]s Discard %[4]d\n"+
			"%[1]s Total 99\n", device, r, w, d)
	}
	for name, tt := range map[string]struct {
		file string
		line func(device string, r, w, d int) string
		end  string
	}{"version 2": {at2, line2, ""}, "version 1": {at1, line1, "Total 99\n"}} {
		t.Run(name, func(t *testing.T) {
			text := func(lines ...string) map[string]string {
				all := ""
				for _, l := range lines {
					all += l
				}
				return map[string]string{tt.file: all + tt.end}
			}
			rests := tt.line("8:16", 500, 600, 700)
			m := cgroupMachine(t, text(tt.line("8:0", 10, 20, 30), rests))
			m.Read(true)
			for n, step := range []struct {
				lines []string
				want  map[string]float64
			}{
				{[]string{tt.line("8:0", 13, 25, 37), rests}, map[string]float64{
					"8:0|read": 3, "8:0|write": 5, "8:0|discard": 7,
				}},
				{[]string{tt.line("8:0", 13, 25, 48), rests}, map[string]float64{
					"8:0|discard": 11,
				}},
				{
					[]string{tt.line("8:0", 13, 26, 48), rests, tt.line("8:32", 2, 4, 8)},
					map[string]float64{
						"8:0|write": 1, "8:32|read": 2, "8:32|write": 4, "8:32|discard": 8,
					},
				},
				{
					[]string{tt.line("8:0", 14, 26, 40), rests, tt.line("8:32", 2, 4, 9)},
					map[string]float64{
						"8:0|read": 1, "8:0|discard": measure.NaN, "8:32|discard": 1,
					},
				},
				{[]string{rests, "x:y nothing\n", tt.line("8:0", 15, 26, 40)}, map[string]float64{
					"8:0|read": 1,
				}},
			} {
				m.Put(text(step.lines...))
				want := map[string]float64{}
				for row, v := range step.want {
					want["cgroup.io|/g|"+row] = v
				}
				t.Run(fmt.Sprint("reading ", n+2), func(t *testing.T) {
					collecttest.Expect(t, again(m), "cgroup.io|", want)
				})
			}
		})
	}
}

// TestOpenFilesLimit checks that a limit of millions does not count.
func TestOpenFilesLimit(t *testing.T) {
	if n := openFilesLimit(); n < 1 || n > 1<<20 {
		t.Errorf("%d files may be open", n)
	}
}

func TestGroupCount(t *testing.T) {
	const v1 = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t4\t15\t1\nmemory\t5\t17\t1\n"
	for _, tt := range []struct {
		text, name string
		skip       int
		want       uint64
		ok         bool
	}{
		{v1, "memory", 1, 17, true}, {v1, "cpu", 1, 15, true}, {v1, "blkio", 1, 0, false},
		{"nr_descendants 3\nnr_dying_descendants 5\n", "nr_descendants", 0, 3, true},
		{"nr_descendants x\n", "nr_descendants", 0, 0, false}, {"", "x", 0, 0, false},
		{"memory 5\n", "memory", 1, 0, false},
	} {
		if got, ok := parseCgroupCount([]byte(tt.text), tt.name, tt.skip); got != tt.want ||
			ok != tt.ok {
			t.Errorf("%q has %d groups of %s, %v, want %d, %v", tt.text, got, tt.name, ok, tt.want,
				tt.ok)
		}
	}
}

package process

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"culprit/heapbound"
)

// hostileNames can all be set with prctl(PR_SET_NAME).
func hostileNames() []string {
	return []string{
		"a b",
		"a) S 1 (b",
		") R 9 9 9 9 9 9",
		"line\nline",
		"((((",
		"))))",
		"",
		"\xff\xfe",
		"\x1b[31m",
		"%s%n",
		"tab\t",
	}
}

func TestParseProcStat(t *testing.T) {
	for _, name := range append(hostileNames(), "systemd") {
		m := fakeProcess{
			pid:     7,
			parent:  3,
			comm:    name,
			state:   "D",
			minor:   11,
			cminor:  12,
			major:   13,
			usr:     14,
			sys:     15,
			cusr:    16,
			csys:    17,
			threads: 18,
			start:   19,
			rss:     20,
			wait:    21,
			nice:    -6,
		}
		var s procStat
		if !s.parseStat([]byte(m.stat())) {
			t.Errorf("%q: not read", name)
			continue
		}
		want := procStat{
			state:     'D',
			parent:    3,
			minor:     11,
			major:     13,
			usr:       14,
			sys:       15,
			childStat: childStat{childMinor: 12, childUsr: 16, childSys: 17},
			threads:   18,
			start:     19,
			rss:       20,
			virtual:   905,
			schedule:  schedule{priority: 14, nice: -6, cpu: 919},
			diskWait:  diskWait{blkio: 21, hasBlkio: true},
		}
		if string(s.comm) != name {
			t.Errorf("name %q, want %q", s.comm, name)
		}
		s.comm = nil
		if fmt.Sprint(s) != fmt.Sprint(want) {
			t.Errorf("%q:\n got %+v\nwant %+v", name, s, want)
		}
	}
	whole := fakeProcess{pid: 7, comm: "x", start: 5}.stat()
	cut := strings.Index(whole, " 906")
	for _, bad := range []string{
		"", "7", "7 (", "7 (x", "7 x) S", "7 (x)", "7 (x) ", "7 (x) SS 1", whole[:40],
		strings.Replace(whole, " 901 ", " 901 x ", 1),
		strings.Replace(whole, "905", "99999999999999999999999", 1)[:20],
	} {
		var s procStat
		if s.parseStat([]byte(bad)) {
			t.Errorf("%q was read as a stat line", bad)
		}
	}
	var s procStat
	if !s.parseStat([]byte(whole[:cut])) || s.hasBlkio {
		t.Error("a line that ends behind rss is enough, without a disk wait")
	}
}

func TestKernelWorkersKeepTheirNames(t *testing.T) {
	for comm, want := range map[string]string{"kworker/0:1-events": "kworker/0:1", "kworker/u8:3+flush-254:0": "kworker/u8:3", "kworker/1:0H": "kworker/1:0H", "kworker/R-rcu_g": "kworker/R-rcu_g"} {
		s := procStat{comm: []byte(comm), worker: !strings.Contains(comm, "/R-")}
		if got := string(stableName(&s)); got != want {
			t.Errorf("%s: %s, want %s", comm, got, want)
		}
	}
	if got := string(stableName(&procStat{comm: []byte("kworker/9-fake")})); got != "kworker/9-fake" {
		t.Errorf("a program that calls itself so: %s", got)
	}
}

func TestParseCgroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/a.service\n": "/system.slice/a.service",
		"0::/\n":                       "/",
		"9:name=systemd:/x\n4:memory:/m\n1:cpu,cpuacct:/c\n0::/\n": "/c",
		"9:name=systemd:/x\n4:memory:/m\n1:cpu,cpuacct:/\n0::/\n":  "/m",
		"9:name=systemd:/x\n1:cpu:/\n":                             "/x",
		"5:rdma:/only\n0::/\n":                                     "/",
		"1:cpu:/c\n0::/unified\n":                                  "/unified",
		"0::/with:colon\n":                                         "/with:colon",
		"":                                                         "",
		"nonsense\n":                                               "",
		"0::/gone (deleted)\n":                                     "/gone (deleted)",
	} {
		if got := string(parseCgroup([]byte(text), cgroupControllers())); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestCleanText(t *testing.T) {
	for text, want := range map[string]string{
		"ls\x00-l\x00":             "ls -l",
		"a\nb\tc":                  "a b c",
		"\x1b[31mred":              "?[31mred",
		"\xff":                     "\ufffd",
		"caf\u00e9":                "caf\u00e9",
		"\u009b31m":                "?31m",
		"setproctitle\x00\x00\x00": "setproctitle",
		"":                         "",
	} {
		if got := string(appendCommand(nil, []byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestParsePasswd(t *testing.T) {
	names := map[uint32]string{}
	parsePasswd([]byte("root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\n# "+
		"no\n+@nis:::::\nbad\nworse:x:-1:\nalice:x:1000:1000\n\nhuge:x:99999999999:\n"), names)
	if fmt.Sprint(names) != "map[0:root 1000:alice]" {
		t.Error(names)
	}
}

func taskstatsMessage(version uint16, size int) []byte {
	b := make([]byte, size)
	for at := 16; at+8 <= size; at += 8 {
		binary.NativeEndian.PutUint64(b[at:], uint64(at))
	}
	binary.NativeEndian.PutUint16(b, version)
	return b
}

func TestParseTaskStats(t *testing.T) {
	var s taskStats
	for _, c := range []struct {
		version     uint16
		size, kinds int
	}{
		{8, 328, 3}, {9, 344, 4}, {11, 368, 5}, {13, 416, 6}, {14, 432, 7}, {16, 560, 7},
		{17, 592, 8},
	} {
		if !parseTaskStats(taskstatsMessage(c.version, c.size), &s) || s.kinds != c.kinds {
			t.Errorf("version %d: %d kinds of delay, want %d", c.version, s.kinds, c.kinds)
		}
	}
	want := taskStats{
		pulse:       pulse{run: 72, wait: 24, count: 16},
		voluntary:   272,
		involuntary: 280,
		delays:      [delayKinds]uint64{40, 56, 320, 336, 360, 408, 424, 568},
		kinds:       8,
	}
	if s != want {
		t.Errorf("\n got %+v\nwant %+v", s, want)
	}
	if parseTaskStats(taskstatsMessage(8, 327), &s) ||
		parseTaskStats(taskstatsMessage(15, 560), &s) ||
		parseTaskStats(nil, &s) {
		t.Error("a struct of another layout was read")
	}
}

func FuzzProcStat(f *testing.F) {
	for _, n := range hostileNames() {
		f.Add([]byte(fakeProcess{pid: 7, comm: n}.stat()))
	}
	f.Add([]byte(" ()\x00 0 0 0 0 4 0 0 0 0 / 0 6 7 8 0 9 0 1 2 3 4")) // no state
	// a parent that no kernel has
	f.Add([]byte("1 () R 2147483648 0 0 0 0 4 0 0 0 0 0 0 6 7 8 0 9 0 1 2 3 4"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		var s procStat
		if s.parseStat(b) && (s.parent < 0 || s.state == 0) {
			t.Errorf("%+v", s)
		}
		stableName(&s)
	})
}

func FuzzProcFiles(f *testing.F) {
	f.Add([]byte("Uid:\t0\t1\t2\t3\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t2\n"))
	f.Add([]byte("rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4\n"))
	f.Add([]byte("4:cpu,cpuacct:/a\n0::/b\n"))
	f.Add([]byte("root:x:0:0\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		parseSched(b)
		parseSwitches(b)
		parseUID(b)
		parseIO(b)
		parsePasswd(b, map[uint32]string{})
		if c := parseCgroup(b, cgroupControllers()); len(c) > len(b) {
			t.Error("longer than the text")
		}
		if got := appendCommand(nil, b); !utf8.Valid(got) ||
			strings.ContainsAny(string(got), "\x00\n\x1b") {
			t.Errorf("%q", got)
		}
	})
}

func FuzzTaskStats(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 8, 0, 4, 0, 4, 0, 3, 0})
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		var s taskStats
		if findTaskStats(b, &s) && len(b) < tsLeast {
			t.Error("read beyond the end")
		}
		if parseTaskStats(b, &s) && s.kinds < 3 {
			t.Errorf("%+v", s)
		}
	})
}

// TestProgramOfCommandLine checks that no argument is left where arguments are not recorded.
func TestProgramOfCommandLine(t *testing.T) {
	const secret = "hunter2"
	for cmdline, want := range map[string]string{
		"mysql\x00-p" + secret + "\x00":            "mysql",
		"/opt/My App/run\x00" + secret + "\x00":    "/opt/My App/run",
		"postgres: app db 10.0.0.1 " + secret:      "postgres:",
		"nginx: master " + secret + "\x00\x00\x00": "nginx:",
		"\x00" + secret:                            "",
		"curl\x00\x00-u\x00" + secret:              "curl",
		"":                                         "",
		"sh\x00-c\x00mysql -p" + secret + "\x00\x00\x00\x00": "sh",
		"./a\x00" + strings.Repeat(secret+"\x00", 1000):      "./a",
	} {
		if got := string(appendCommand(nil, programOf([]byte(cmdline)))); got != want {
			t.Errorf("%.60q is recorded as %q, want %q", cmdline, got, want)
		}
	}
	for _, programs := range []bool{false, true} {
		m := newProcessMachine(
			t,
			merge(
				fakeProcess{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1),
				map[string]string{"proc/7/cmdline": "mysql\x00-p" + secret + "\x00--host=db\x00"},
			),
		)
		m.Reading.(*processReading).programs = programs
		all := fmt.Sprint(m.Read(true))
		if !strings.Contains(all, "mysql") || strings.Contains(all, secret) ||
			strings.Contains(all, "--host=db") == programs {
			t.Errorf("programs only %v: %s", programs, all)
		}
		m.Reading.(*processReading).masks.Off = true
		m.Reading.(*processReading).procs[0].info = nil
		if all := fmt.Sprint(m.Read(true)); strings.Contains(all, secret) == programs {
			t.Errorf("masks off, programs only %v: %s", programs, all)
		}
	}
}

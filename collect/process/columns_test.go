package process

import (
	"fmt"
	"strings"
	"testing"
)

// TestStatColumns reads a line in which every number is different.
func TestStatColumns(t *testing.T) {
	line := func(flags string) string {
		words := []string{"7", "(a) b)", "S"}
		for n := 4; n <= 52; n++ { // numbered as in proc_pid_stat(5)
			words = append(words, fmt.Sprint(100+n))
		}
		words[8] = flags
		return strings.Join(words, " ") + "\n"
	}
	var s procStat
	if !s.parseStat([]byte(line("0"))) {
		t.Fatal("the line is malformed")
	}
	got := fmt.Sprintf("%s %c parent %d faults %d %d %d times %d %d %d %d threads %d start %d "+
		"rss %d waited %d %v kernel %v worker %v long %d %d %d "+
		"cpu %d policy %d %d", s.comm, s.state, s.parent, s.minor, s.childMinor,
		s.major, s.usr, s.sys, s.childUsr, s.childSys, s.threads, s.start, s.rss, s.blkio,
		s.hasBlkio, s.kernel, s.worker, s.priority, s.nice, s.virtual,
		s.cpu, s.realtime, s.policy)
	const want = "a) b S parent 104 faults 110 111 112 times 114 115 116 117 threads 120 " +
		"start 122 rss 124 waited 142 true kernel false worker false long 118 119 123 cpu 139 policy 140 141"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for flags, want := range map[uint64]string{
		flagKernelThread: "true false", flagWorker: "false true",
		flagKernelThread | flagWorker: "true true", flagKernelThread << 1: "false false",
	} {
		if !s.parseStat([]byte(line(fmt.Sprint(flags)))) ||
			fmt.Sprint(s.kernel, " ", s.worker) != want {
			t.Errorf("flags %x: kernel %v, worker %v, want %s", flags, s.kernel, s.worker, want)
		}
	}
	for state, want := range map[string]bool{
		"A": true, "Z": true, "a": true, "z": true, "@": false, "[": false, "{": false, "SS": false,
	} {
		text := strings.Replace(line("0"), " S ", " "+state+" ", 1)
		if got := s.parseStat([]byte(text)); got != want {
			t.Errorf("state %s is one: %v", state, got)
		}
	}
}

func TestSumsOfBytes(t *testing.T) {
	a, b := ioBytes{1, 2, 3, 4}, ioBytes{10, 20, 30, 40}
	if got, want := a.add(b), (ioBytes{11, 22, 33, 44}); got != want {
		t.Errorf("the sum is %+v, want %+v", got, want)
	}
	const text = "rchar: 1\nwchar: 2\nsyscr: 9\nread_bytes: 3\nwrite_bytes: 4\n" +
		"cancelled_write_bytes: 8\n"
	if got, ok := parseIO([]byte(text)); !ok || got != a {
		t.Errorf("the bytes are %+v, %v", got, ok)
	}
	for _, name := range []string{"rchar", "wchar", "read_bytes", "write_bytes"} {
		without := strings.Replace(text, "\n"+name+":", "\nx:", 1)
		if name == "rchar" {
			without = strings.TrimPrefix(text, "rchar: 1\n")
		}
		if got, ok := parseIO([]byte(without)); ok {
			t.Errorf("without %s the bytes are %+v", name, got)
		}
	}
	for text, want := range map[string]int64{
		"Uid:\t1\t2\t3\t4\n": 2, "Name:\tx\nUid:\t1\t4294967295\t3\t4\n": 1<<32 - 1,
		"Uid:\t1\t4294967296\t3\t4\n": -1, "Name:\tUid: 5 6\n": -1, "": -1,
	} {
		got, ok := parseUID([]byte(text))
		if ok != (want >= 0) || ok && int64(got) != want {
			t.Errorf("%q is of user %d, %v, want %d", text, got, ok, want)
		}
	}
}

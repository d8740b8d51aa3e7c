package bpf

import (
	"encoding/binary"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/measure"
)

// All processes are reported, also those that began before the watch.
func TestWatchAllMaps(t *testing.T) {
	w, err := WatchAllMaps(kernel.Root{})
	if errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: cap:CAP_PERFMON")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // only read
	c := exec.Command("true")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	pid, got := c.Process.Pid, map[MapEventKind]int{}
	for end := time.Now().Add(20 * time.Second); got[Ended] == 0 && time.Now().Before(end); {
		w.Wait(10 * time.Millisecond)
		for _, e := range w.Read() {
			if e.PID == pid {
				got[e.Kind]++
			}
			if e.PID == pid && e.Kind == Mapped && e.Inode != 0 && e.Device == 0 {
				t.Errorf("no device: %+v", e)
			}
		}
	}
	if got[Forked] != 1 || got[Executed] != 1 || got[Mapped] < 2 || got[Ended] != 1 {
		t.Errorf("events of a process by kind: %v", got)
	}
}

// A command, what it starts, and all that they execute are reported.
func TestWatchMaps(t *testing.T) {
	c := exec.Command("sh", "-c", "read x; /bin/true; exec sleep 0")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait() //nolint:errcheck // how it ended is of no interest
	w, err := WatchMaps(kernel.Root{}, c.Process.Pid)
	if errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: root")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // only read
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	var all []MapEvent
	over := func() bool {
		return slices.ContainsFunc(all, func(e MapEvent) bool {
			return e.Kind == Ended &&
				e.PID == c.Process.Pid
		})
	}
	for end := time.Now().Add(20 * time.Second); !over() && time.Now().Before(end); {
		w.Wait(100 * time.Millisecond)
		all = append(all, w.Read()...)
	}
	child := 0
	var got []string
	for _, e := range all {
		who := "other"
		if e.Kind == Forked && e.Parent == c.Process.Pid {
			child = e.PID
		}
		switch e.PID {
		case c.Process.Pid:
			who = "command"
		case child:
			who = "child"
		}
		name := e.Path[strings.LastIndexByte(e.Path, '/')+1:]
		if strings.HasPrefix(name, "libc.") || strings.HasPrefix(name, "libc-") {
			name = "libc"
		}
		switch {
		case e.Kind == Mapped && e.Inode != 0 && e.Length > 0 && e.Start > 0:
			got = append(got, who+" maps "+name)
		case e.Kind == Executed:
			got = append(got, who+" executes")
		case e.Kind == Forked:
			got = append(got, who+" begins")
		case e.Kind == Ended:
			got = append(got, who+" ends")
		}
	}
	at := 0
	for _, want := range []string{"child begins", "child executes", "child maps true",
		"child maps libc", "child ends", "command executes", "command maps sleep",
		"command maps libc", "command ends"} {
		i := slices.Index(got[at:], want)
		if i < 0 {
			t.Fatalf("%q is not reported, or in another order: %q", want, got)
		}
		at += i
	}
}

// Close ends a Wait, and what is closed has nothing more to say.
func TestWatchMapsEnds(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Process.Kill() //nolint:errcheck // it was started here
		c.Wait()         //nolint:errcheck // it was killed
	}()
	w, err := WatchMaps(kernel.Root{}, c.Process.Pid)
	if err != nil {
		t.Skip("needs: root")
	}
	ended := make(chan bool)
	go func() {
		for w.Wait(time.Minute) {
		}
		close(ended)
	}()
	time.Sleep(10 * time.Millisecond)
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("it waits still")
	}
	if e := w.Read(); len(e) != 0 {
		t.Errorf("it reports %v", e)
	}
}

// Records are read by their lengths; shorter ones and those of other kinds say nothing.
func TestParseMapEvent(t *testing.T) {
	record := func(kind uint32, misc uint16, words ...any) []byte {
		b := make([]byte, 8)
		for _, w := range words {
			switch w := w.(type) {
			case uint32:
				b = binary.NativeEndian.AppendUint32(b, w)
			case int:
				b = binary.NativeEndian.AppendUint64(b, uint64(w))
			case string:
				b = append(b, w...)
			}
		}
		binary.NativeEndian.PutUint32(b, kind)
		binary.NativeEndian.PutUint16(b[4:], misc)
		binary.NativeEndian.PutUint16(b[6:], uint16(len(b)))
		return b
	}
	mmap := record(10, 2, uint32(5), uint32(6), 0x7000, 0x1000, 0x3000, uint32(8), uint32(1), 42, 0,
		uint32(5), uint32(2), "/lib/x.so\x00\x00\x00\x00\x00\x00\x00", 99)
	for _, tt := range []struct {
		name   string
		record []byte
		want   MapEvent
		ok     bool
	}{
		{"a file is mapped", mmap, MapEvent{Kind: Mapped, Time: 99, PID: 5, Start: 0x7000,
			Length: 0x1000, Offset: 0x3000, Device: 0x801,
			Inode: 42, Path: "/lib/x.so"}, true},
		{"a program begins", record(3, miscExec, uint32(5), uint32(6),
			"x\x00\x00\x00\x00\x00\x00\x00", 99), MapEvent{Kind: Executed, Time: 99, PID: 5}, true},
		{"a name changes", record(3, 0, uint32(5), uint32(6), "x\x00\x00\x00\x00\x00\x00\x00", 99),
			MapEvent{}, false},
		{"a process begins", record(7, 0, uint32(5), uint32(4), uint32(5), uint32(3), 1, 99),
			MapEvent{Kind: Forked, Time: 99, PID: 5, Parent: 4}, true},
		{"a thread begins", record(7, 0, uint32(4), uint32(4), uint32(5), uint32(4), 1, 99),
			MapEvent{}, false},
		{"a process ends", record(4, 0, uint32(5), uint32(4), uint32(5), uint32(4), 1, 99),
			MapEvent{Kind: Ended, Time: 99, PID: 5}, true},
		{"a thread ends", record(4, 0, uint32(5), uint32(5), uint32(6), uint32(5), 1, 99),
			MapEvent{}, false},
		{"records are lost", record(2, 0, 7, 3, 99), MapEvent{Kind: MapsLost, Time: 99}, true},
		{"outside of the namespace", record(4, 0, uint32(0), uint32(0), uint32(0), uint32(0), 1,
			99), MapEvent{}, false},
		{"another kind", record(9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), MapEvent{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, ok := parseMapEvent(tt.record)
			if ok != tt.ok || ok && e != tt.want {
				t.Errorf("%+v %v, want %+v %v", e, ok, tt.want, tt.ok)
			}
		})
	}
	for n := 8; n < len(mmap); n++ {
		parseMapEvent(mmap[:n]) // is not to be read beyond its end
	}
}

package perfdata

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// recording returns a file of testdata. tiny.c was recorded by perf 6.1:
//
//	perf record -e cpu-clock -F 499 -g -o - ./tiny                     # pipe
//	perf record -z -B -e cpu-clock,page-faults -F 299 -g ./tiny        # z
//	perf record -B -e cpu-clock -F 299 ./tiny                          # flat
//	perf record -B -N -k mono -e cpu-clock:u -F 49 -g -o - ./jit       # dump, of another program
//
// and printed by perf script -F comm,pid,tid,time,event,period,ip,sym,dso.
func recording(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".data.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func free(int) {}

// printed returns the samples of a file as perf script prints them, without times. In stacks it
// prints offsets in files, alone it prints addresses.
func printed(t *testing.T, in []byte, stacks bool) (string, *File) {
	t.Helper()
	type line struct {
		event int
		text  string
	}
	var lines []line
	f, err := Read(bytes.NewReader(in), free, func(s *Sample) error {
		var b strings.Builder
		fmt.Fprintf(&b, "%s %d/%d %d EVENT", s.Command, s.PID, s.TID, s.Period)
		for _, f := range s.Frames {
			name, at := "[unknown]", f.Addr
			if f.Map != nil {
				name = f.Map.Name
			}
			if f.Map != nil && !f.Kernel && stacks {
				at += f.Map.Offset - f.Map.Start
			}
			fmt.Fprintf(&b, " %x (%s)", at, name)
		}
		lines = append(lines, line{s.Event, b.String()})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, l := range lines {
		out.WriteString(strings.Replace(l.text, "EVENT", f.Events[l.event].Name, 1) + "\n")
	}
	return out.String(), f
}

// expected returns the samples of the output of perf script in the form of printed.
func expected(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	symbol := regexp.MustCompile(`([0-9a-f]+) \S+ \(`)
	head := regexp.MustCompile(`^ *(\S+) +(\d+/\d+) +[\d.]+: +(\d+) +(\S+): *(.*)$`)
	var out []string
	for _, line := range strings.Split(string(text), "\n") {
		line = symbol.ReplaceAllString(line, "$1 (")
		switch m := head.FindStringSubmatch(line); {
		case m != nil:
			out = append(out, strings.TrimSpace(
				fmt.Sprintf("%s %s %s %s %s", m[1], m[2], m[3], m[4], m[5])))
		case strings.TrimSpace(line) != "":
			out[len(out)-1] += " " + strings.TrimSpace(line)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// What is read equals what perf script prints of the same files: processes, periods, events,
// addresses, and the files that are mapped there.
func TestEqualsPerfScript(t *testing.T) {
	for _, name := range []string{"pipe", "z", "flat"} {
		t.Run(name, func(t *testing.T) {
			got, f := printed(t, recording(t, name), name != "flat")
			if want := expected(t, name); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			if f.Cut || f.Lost != 0 || f.Unwalked || f.KernelText == 0 {
				t.Errorf("%+v", f)
			}
			if f.Machine != "x86_64" || !strings.HasPrefix(f.KernelRelease, "6.18.") {
				t.Errorf("machine %q, kernel %q", f.Machine, f.KernelRelease)
			}
		})
	}
}

// Of a file that ends early the samples before its end are read, and File.Cut says so.
func TestCutFiles(t *testing.T) {
	for _, name := range []string{"pipe", "z", "flat"} {
		whole := recording(t, name)
		all := strings.Count(expected(t, name), "\n")
		for at := 0; at < len(whole); at += 1 + len(whole)/997 {
			samples := 0
			f, err := Read(bytes.NewReader(whole[:at]), free, func(*Sample) error {
				samples++
				return nil
			})
			var wrong *Error
			switch {
			case err != nil && !errors.As(err, &wrong):
				t.Errorf("%s, cut at %d: %v", name, at, err)
			case samples > all:
				t.Errorf("%s, cut at %d: %d samples of %d", name, at, samples, all)
			case err == nil && !f.Cut && samples < all && name != "pipe":
				t.Errorf("%s, cut at %d: %d samples, as if complete", name, at, samples)
			}
		}
	}
}

// The error of the receiver ends reading, and is returned as it is.
func TestReceiverFails(t *testing.T) {
	full := errors.New("the disk is full")
	for _, name := range []string{"pipe", "z"} {
		samples := 0
		_, err := Read(bytes.NewReader(recording(t, name)), free, func(*Sample) error {
			samples++
			return full
		})
		if !errors.Is(err, full) || samples != 1 {
			t.Errorf("%s: %v after %d samples", name, err, samples)
		}
	}
}

// Mappings that cover others cut them, as the kernel does.
func TestMappingsCoverEachOther(t *testing.T) {
	one, two, three := &Binary{Name: "one"}, &Binary{Name: "two"}, &Binary{Name: "three"}
	var all []*Mapping
	all = insert(all, &Mapping{Binary: one, Start: 100, End: 200, Offset: 1000})
	all = insert(all, &Mapping{Binary: two, Start: 140, End: 160, Offset: 0})
	all = insert(all, &Mapping{Binary: three, Start: 150, End: 170, Offset: 50})
	for addr, want := range map[uint64]string{
		99: "", 100: "one 1000", 139: "one 1039", 140: "two 0", 149: "two 9", 150: "three 50",
		169: "three 69", 170: "one 1070", 199: "one 1099", 200: "",
	} {
		got := ""
		if m := find(all, addr); m != nil {
			got = fmt.Sprintf("%s %d", m.Name, addr-m.Start+m.Offset)
		}
		if got != want {
			t.Errorf("%d: %q, want %q", addr, got, want)
		}
	}
}

// Records of several CPUs come in rounds, and are handled in the order of time.
func TestOrder(t *testing.T) {
	var q queue
	var got []uint64
	r := &reader{charge: free, file: &File{}}
	r.world = newWorld(r)
	for _, round := range [][]uint64{{5, 3}, {4, 9}, {7, 12}, {10}} {
		for _, time := range round {
			record := make([]byte, recordHead+16)
			record[0] = recordLostSamples
			record[recordHead] = byte(time)
			if err := q.add(r, time, 0, record); err != nil {
				t.Fatal(err)
			}
		}
		before := r.file.Lost
		if err := q.round(r); err != nil {
			t.Fatal(err)
		}
		got = append(got, r.file.Lost-before)
	}
	if err := q.flush(r, ^uint64(0)); err != nil {
		t.Fatal(err)
	}
	// What is older than the newest of the round before the last is safe.
	if want := "[0 12 16 22]"; fmt.Sprint(got) != want || r.file.Lost != 50 {
		t.Errorf("%v, want %s; %d in all", got, want, r.file.Lost)
	}
}

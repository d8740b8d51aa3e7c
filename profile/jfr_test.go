package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// javaRecording returns the recording of jfr/testdata/Split.java.
func javaRecording(t *testing.T) []byte {
	t.Helper()
	f, err := os.Open("jfr/testdata/split.jfr.gz")
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

// The samples of CPUs are read, of one event by name, or of one value.
func TestJFR(t *testing.T) {
	in := javaRecording(t)
	for _, tt := range []struct {
		name string
		o    Options
		unit string
		sum  float64
		want string // in the stacks
	}{
		{"default", Options{}, "samples", 18, "main;Split.main;Split.seventy;Split.work "},
		{"event", Options{Event: "jdk.JavaMonitorEnter"}, "ns", 369330381, ";Split.lambda$main$0;Split.contend "},
		{"allocations", Options{Event: "ObjectAllocationSample"}, "bytes", 0, "main;Split.main;Split.allocate "},
		{"value", Options{Event: "JavaMonitorEnter", Value: "samples"}, "samples", 5, "Split.lambda$main$0;Split.contend 3\n"},
		{"two", Options{Event: "JavaMonitorEnter,ThreadSleep"}, "ns", 0, "Split.contend;java.lang.Thread.sleep "},
		{"marks", Options{Marks: true}, "samples", 18, "Split.work_[j] "},
		{"threads", Options{TID: true, Event: "ThreadSleep"}, "ns", 0, "other:thread-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Read(never, bytes.NewReader(in), "", tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := folded(t, tree); !strings.Contains(got, tt.want) {
				t.Errorf("no %q in %s", tt.want, got)
			}
			if tree.Unit != tt.unit || tt.sum != 0 && math.Abs(tree.Sum()-tt.sum) > 1 {
				t.Errorf("%v %s, want %v %s", tree.Sum(), tree.Unit, tt.sum, tt.unit)
			}
		})
	}
}

// What cannot be shown is refused with what there is instead.
func TestJFRRefuses(t *testing.T) {
	in := javaRecording(t)
	for _, tt := range []struct {
		name string
		in   []byte
		o    Options
		want string
	}{
		{"event", in, Options{Event: "jdk.SocketRead"}, "there are jdk.ExecutionSample (18 samples)"},
		{"value", in, Options{Value: "weight"}, `jdk.ExecutionSample has no value "weight"; there are`},
		{"units", in, Options{Event: "ThreadSleep,ObjectAllocationSample"}, "are bytes, those of jdk.ThreadSleep ns"},
		{"cut", in[:len(in)/2], Options{}, "bytes of a chunk that was not completed"},
		{"header", in[:20], Options{}, "byte 20: JFR: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(never, bytes.NewReader(tt.in), "", tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	tree, err := Read(never, bytes.NewReader(slices.Concat(in, in[:5000])), "", Options{})
	if err != nil || tree.Sum() != 18 {
		t.Fatalf("%v, %v", tree, err)
	}
	if notes := strings.Join(tree.Notes, "\n"); !strings.Contains(notes, "without 4932 bytes at its end") {
		t.Errorf("notes %q", notes)
	}
}

// printedEvent is an event of jfr print --json.
type printedEvent struct {
	Type   string `json:"type"`
	Values struct {
		Sampled *printedThread `json:"sampledThread"`
		Thread  *printedThread `json:"eventThread"`
		Weight  float64        `json:"weight"`
		Stack   struct {
			Frames []struct {
				Method struct {
					Name string `json:"name"`
					Type struct {
						Name string `json:"name"`
					} `json:"type"`
				} `json:"method"`
			} `json:"frames"`
		} `json:"stackTrace"`
	} `json:"values"`
}

type printedThread struct {
	Java string `json:"javaName"`
}

// Stacks and amounts equal those that Java's own program prints.
func TestJFREqualsJava(t *testing.T) {
	if _, err := exec.LookPath("jfr"); err != nil {
		t.Skip("needs: tool jfr")
	}
	in := javaRecording(t)
	name := filepath.Join(t.TempDir(), "split.jfr")
	if err := os.WriteFile(name, in, 0o600); err != nil {
		t.Fatal(err)
	}
	printed, err := exec.CommandContext(
		t.Context(), "jfr", "print", "--json", "--stack-depth", "100", "--events",
		"jdk.ExecutionSample,jdk.ObjectAllocationSample", name,
	).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Recording struct {
			Events []printedEvent `json:"events"`
		} `json:"recording"`
	}
	if err := json.Unmarshal(printed, &all); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]float64{}
	for _, e := range all.Recording.Events {
		v, amount := e.Values, 1.0
		thread := v.Sampled
		if thread == nil {
			thread, amount = v.Thread, v.Weight
		}
		line := strings.ReplaceAll(thread.Java, ";", ":")
		for _, f := range slices.Backward(v.Stack.Frames) {
			line += ";" + dottedName(f.Method.Type.Name) + "." + f.Method.Name
		}
		if want[e.Type] == nil {
			want[e.Type] = map[string]float64{}
		}
		want[e.Type][line] += amount
	}
	for event, stacks := range want {
		tree, err := Read(never, bytes.NewReader(in), "", Options{Event: event})
		if err != nil {
			t.Fatal(err)
		}
		for line, amount := range stacks {
			if got := folded(t, tree); !strings.Contains("\n"+got, fmt.Sprintf("\n%s %.0f\n", line, amount)) {
				t.Errorf("%s: no %s %.0f in\n%s", event, line, amount, got)
			}
		}
	}
	if len(want["jdk.ExecutionSample"]) < 2 || len(want["jdk.ObjectAllocationSample"]) < 2 {
		t.Errorf("%d and %d stacks", len(want["jdk.ExecutionSample"]), len(want["jdk.ObjectAllocationSample"]))
	}
}

// dottedName returns a name of a class as the reader has it.
func dottedName(name string) string {
	name, address, hidden := strings.Cut(name, "+0x")
	name = strings.ReplaceAll(name, "/", ".")
	if hidden {
		address, _, _ = strings.Cut(strings.ReplaceAll(address, ".", "/"), "/")
		name += "/0x" + address
	}
	return name
}

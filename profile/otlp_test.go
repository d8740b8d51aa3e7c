package profile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/heapbound"
)

// otlpFiles are what OpenTelemetry's own module wrote: see testdata/otlp/main.go.txt.
//
// table: files
var otlpFiles = []string{"v1.9.pb", "v1.11.pb", "v1.11.json"}

func otlpRecording(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/otlp", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// All versions and encodings have the same stacks, values and attributes.
func TestOTLP(t *testing.T) {
	for _, name := range otlpFiles {
		in := otlpRecording(t, name)
		for _, tt := range []struct {
			name string
			o    Options
			want string
			note string
		}{
			{"default", Options{}, "main;0x1194;do_syscall:64 5\nmain;seventy;inlined;leaf 70\n" +
				"main;thirty;leaf 30\n", "samples have the attributes thread.name: --label"},
			{"value", Options{Value: "off_cpu"}, "main;thirty;leaf 9\n", "cpu (3 samples)"},
			{"label", Options{Label: "thread.name"}, "other;main;0x1194;do_syscall:64 5\n" +
				"other;main;thirty;leaf 30\nworker;main;seventy;inlined;leaf 70\n", "off_cpu (1 sample)"},
		} {
			t.Run(name+" "+tt.name, func(t *testing.T) {
				tree, err := Read(never, bytes.NewReader(in), "", tt.o)
				if err != nil {
					t.Fatal(err)
				}
				if got := folded(t, tree); got != tt.want {
					t.Errorf("got\n%swant\n%s", got, tt.want)
				}
				if notes := strings.Join(tree.Notes, "\n"); !strings.Contains(notes, tt.note) {
					t.Errorf("no %q in %s", tt.note, notes)
				}
			})
		}
		tree, err := Read(never, bytes.NewReader(in), "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if tree.Unit != "ns" || tree.Samples != 4 || tree.Taken.At != 1_700_000_000_000_000_000 ||
			tree.Taken.Over != 5_000_000_000 || tree.Taken.Each != 10_000_000 {
			t.Errorf("%s: %s, %v samples, %+v", name, tree.Unit, tree.Samples, tree.Taken)
		}
		for _, f := range tree.Functions {
			switch {
			case f.Name == "main" && (f.File != "main.c" || f.Line != 12 || f.Module != "app"),
				f.Name == "do_syscall:64" && f.Kind != Kernel, f.Name == "inlined" && f.Kind != Inlined,
				f.Name == "seventy" && f.Kind != Code:
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// What cannot be shown is refused, with a position or with what there is.
func TestOTLPRefuses(t *testing.T) {
	in := otlpRecording(t, "v1.11.pb")
	for _, tt := range []struct {
		name string
		in   []byte
		o    Options
		want string
	}{
		{"value", in, Options{Value: "heap"}, "there are cpu (3 samples), off_cpu (1 sample)"},
		{"label", in, Options{Label: "pod"}, `no sample has the attribute "pod"; there are thread.name`},
		{"cut", in[:len(in)-3], Options{}, "OpenTelemetry: cut off"},
		{"before 1.8", []byte("\x0a\x04\x12\x02\x12\x00\x12\x02\x12\x00"), Options{}, "before opentelemetry-proto 1.8"},
		{"empty", []byte("\x0a\x04\x12\x02\x12\x00\x12\x02\x3a\x00"), Options{}, "no samples"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(never, bytes.NewReader(tt.in), "", tt.o)
			var wrong *ParseError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// A sample without values is as many observations as it has times.
func TestOTLPTimesOnly(t *testing.T) {
	in := strings.NewReader(`{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"sampleType":{
		"typeStrindex":1,"unitStrindex":2},"samples":[{"stackIndex":1,"timestampsUnixNano":
		["5","6","7"]}]}]}]}],"dictionary":{"stringTable":["","samples","count","f"],
		"functionTable":[{},{"nameStrindex":3}],"locationTable":[{},{"lines":[{"functionIndex":1}]}],
		"stackTable":[{},{"locationIndices":[1]}],"mappingTable":[{}]}}`)
	tree, err := Read(never, in, "", Options{})
	if err != nil || folded(t, tree) != "f 3\n" {
		t.Errorf("%v, %v", tree, err)
	}
}

// No file makes the reader panic or take memory that is not charged.
func FuzzOTLP(f *testing.F) {
	for _, name := range otlpFiles {
		f.Add(otlpRecording(f, name))
	}
	heapbound.Fuzz(f, func(_ *testing.T, in []byte) {
		o := Options{meter: newMeter(context.Background(), 64<<20)}
		defer func() {
			if p := recover(); p != nil {
				if _, ok := p.(stopped); !ok {
					panic(p)
				}
			}
		}()
		_, _ = readOTLP(in, o) // an error is no failure
	})
}

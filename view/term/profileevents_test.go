package term

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// The options of events, and what they exclude.
func TestProfileEventFlags(t *testing.T) {
	for _, tt := range []struct {
		name  string
		args  []string
		event string
		every uint64
		says  string // part of the error; "": none
	}{
		{"event", []string{"--event", "page-faults"}, "page-faults", 0, ""},
		{"every", []string{"--event", "cycles", "--every", "1e6"}, "cycles", 1_000_000, ""},
		{"probe", []string{"--event", "uprobe:/bin/bash:readline:"}, "uprobe:/bin/bash:readline:", 0, ""},
		{"none", nil, "", 0, ""},
		{"waits too", []string{"--event", "cs", "--off-cpu"}, "", 0, "exclude each other"},
		{"rate", []string{"--event", "cs", "--hz", "9"}, "", 0, "--every N"},
		{"every alone", []string{"--every", "9"}, "", 0, "needs --event"},
		{"every 0", []string{"--event", "cs", "--every", "0"}, "", 0, "out of range"},
		{"every too many", []string{"--event", "cs", "--every", "2e12"}, "", 0, "out of range"},
		{"every word", []string{"--event", "cs", "--every", "x"}, "", 0, "no number"},
		{"every fraction", []string{"--event", "cs", "--every", "1.5"}, "", 0, "no number"},
		{"empty", []string{"--event", ""}, "", 0, "name of an event"},
		{"two", []string{"--event", "a,b"}, "", 0, "name of an event"},
		{"text of D", []string{"--event", "a:b{exit(0);}"}, "", 0, "name of an event"},
		{"idle", []string{"--event", "cs", "--idle"}, "", 0, "--idle"},
		{"min", []string{"--event", "cs", "--min", "1ms"}, "", 0, "--min needs"},
		{"recorded", []string{"--event", "cs", "--at", "now"}, "", 0, "not recorded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got Profiling
			p := Program{Profile: func(_ context.Context, q Profiling) (*Profiled, error) {
				got = q
				return &Profiled{Stacks: slices.Values([]ProfiledStack(nil))}, nil
			}}
			c := p.profile()
			c.SetArgs(tt.args)
			c.SetOut(&bytes.Buffer{})
			c.SetErr(&bytes.Buffer{})
			err := c.ExecuteContext(t.Context())
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v, want one that says %q", err, tt.says)
				}
				return
			}
			if got.Event != tt.event || got.Every != tt.every ||
				(got.Of == OnEvent) != (tt.event != "") {
				t.Errorf("event %q, every %d; %v", got.Event, got.Every, err)
			}
		})
	}
}

// Every output of a profile of events has their name, and none has seconds or samples for amounts.
func TestProfileOfEventsOutputs(t *testing.T) {
	got := &Profiled{Unit: "page-faults", Every: 10, Took: 3 * measure.Second, CPUs: 2, Frames: 127,
		Stacks: slices.Values([]ProfiledStack{
			{Process: "p", PID: 4, TID: -1, CPU: 1, User: []string{"p`leaf"}, Count: 7, Amount: 70},
			{Process: "p", PID: 4, TID: -1, CPU: 0, User: []string{"p`main"}, Count: 3, Amount: 30},
		})}
	for _, tt := range []struct {
		name string
		o    outputFlags
		want []string
	}{
		{"text", outputFlags{width: 1200, format: "txt"}, []string{"page-faults", "70.00%"}},
		{"folded", outputFlags{width: 1200, format: "folded"},
			[]string{"# unit: page-faults\np;leaf 70\np;main 30\n"}},
		{"html", outputFlags{width: 1200, format: "html"},
			[]string{"100 page faults in 3.0 s: 10 samples, one in 10 events", `"unit":"page-faults"`}},
		{"svg", outputFlags{width: 1200, format: "svg"}, []string{"100 page faults", "page-faults, 70.00%"}},
		{"json", outputFlags{width: 1200, format: "json"}, []string{"100 page faults"}},
		{"table", outputFlags{width: 1200, table: true}, []string{"100 page faults in 3.0 s", "70  70%"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			tt.o.output = out
			p := Program{Terminal: Terminal{Err: os.Stderr}}
			printer := p.profilePrinter()
			err := printer.writeSamples(got, Profiling{Of: OnEvent}, tt.o, false, false)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
	got.Stacks = slices.Values([]ProfiledStack(nil))
	p := Program{Terminal: Terminal{Err: os.Stderr}}
	printer := p.profilePrinter()
	err := printer.writeSamples(got, Profiling{Of: OnEvent}, outputFlags{width: 1200}, false, false)
	if err == nil || !strings.Contains(err.Error(), "no page faults match") ||
		!strings.Contains(err.Error(), "--every 10") {
		t.Errorf("%v", err)
	}
}

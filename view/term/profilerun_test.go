package term

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the progress shows.
func TestProfileProgressLine(t *testing.T) {
	for _, tt := range []struct {
		name  string
		now   ProfileProgress
		whole time.Duration
		want  string
	}{
		{"samples", ProfileProgress{3 * time.Second, 400, 6}, 10 * time.Second,
			"3 of 10 s, 400 samples, 1.5 % without a name"},
		{"a command", ProfileProgress{7 * time.Second, 20, 0}, 0,
			"7 s, 20 samples, 0.0 % without a name"},
		{"waits", ProfileProgress{Took: 2 * time.Second}, 5 * time.Second, "2 of 5 s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.now.line(tt.whole); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A command comes after --, without a selection of processes, and is profiled until its end.
func TestProfileOfACommandLine(t *testing.T) {
	for _, tt := range []struct {
		name    string
		args    []string
		command []string
		span    time.Duration
		says    string // part of the error; "": none
	}{
		{"command", []string{"--", "make", "-j4"}, []string{"make", "-j4"}, 0, ""},
		{"limit", []string{"--for", "3s", "--", "make"}, []string{"make"}, 3 * time.Second, ""},
		{"none", nil, nil, 10 * time.Second, ""},
		{"no dashes", []string{"make"}, nil, 0, "comes after --"},
		{"with pid", []string{"--pid", "7", "--", "make"}, nil, 0, "excludes --pid"},
		{"recorded", []string{"--at", "now", "--", "make"}, nil, 0, "is profiled now"},
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
			p.Terminal = Terminal{}
			err := c.ExecuteContext(t.Context())
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v, want one that says %q", err, tt.says)
				}
				return
			}
			if !slices.Equal(got.Command, tt.command) || got.For != tt.span {
				t.Errorf("command %q for %v, want %q for %v; %v", got.Command, got.For, tt.command,
					tt.span, err)
			}
		})
	}
}

package profile

import (
	"strings"
	"testing"
)

// TestDTraceNoise inserts lines that are no frames between stacks and before the first. The stacks
// must not change.
func TestDTraceNoise(t *testing.T) {
	stacks := []string{"ip`a+0xcf\nunix`sys_syscall+0x17a\n1216\n",
		"ip`b+0xcf\nip`c\nunix`thread_start+0x8\n2211\n"}
	want := "unix`sys_syscall;ip`a 1216\nunix`thread_start;ip`c;ip`b 2211\n"
	noise := []string{"# dtrace -n 'f:entry{@[stack()]=count();}'",
		"dtrace: description 'f:entry' matched 1 probe", "dtrace: 5 drops on CPU 0", "...", "[...]",
		"^C", "", "CPU     ID                    FUNCTION:NAME", "CPU ID FUNCTION:NAME",
		"  0  64091                        :tick-60s", "dtrace: script 'x.d' matched 2 probes"}
	all := strings.Join(noise, "\n") + "\n"
	for _, line := range append(noise, all) {
		for at := range 3 {
			in := append([]string{}, stacks...)
			in = append(in[:at], append([]string{line + "\n"}, in[at:]...)...)
			if got := fold(t, strings.Join(in, ""), Options{}); got != want {
				t.Errorf("%q at %d: got\n%s", line, at, got)
			}
		}
	}
}

func TestBPFTraceLeftovers(t *testing.T) {
	stacks := "@usecs[\n    finish_task_switch+14\n    schedule+25\n, app]: 42\n@usecs[\n    futex_wait+30\n, app]: 8\n"
	want := "app;futex_wait 8\napp;schedule;finish_task_switch 42\n"
	for _, left := range []string{"Attaching 3 probes...\n", "@start[4711]: 3182435309123456\n", "@: 5\n", "@total: 3182435309123456\n", "@h[app]: 3\n@h[b, 4]: 7\n",
		"@dist:\n[1]                    2 |@@@@@@@@|\n[2, 4)                 5 |@@@@@@@@@@@@|\n", "lost 3 events\n", "@start[4711]: -5\n"} {
		for _, in := range []string{left + stacks, stacks + left} {
			if got := fold(t, in, Options{}); got != want {
				t.Errorf("%q: got\n%s", in, got)
			}
		}
	}
	if got := fold(t, stacks+"@usecs[, idle]: 5\n", Options{}); got != want+"idle 5\n" {
		t.Errorf("an empty stack: got\n%s", got)
	}
	json := `{"type": "attached_probes", "data": {"probes": 3}}` + "\n" + `{"type": "map", "data": {"@start": {"4711": 3182435309123456}}}` + "\n" +
		`{"type": "map", "data": {"@u": {"\n    f+1\n    g+2\n,app": 42}}}` + "\n"
	if got := fold(t, json, Options{}); got != "app;g;f 42\n" {
		t.Errorf("JSON: got\n%s", got)
	}
	const none = "@start[4711]: 31824\n@n[app]: 3\n"
	if tree, err := Read(never, strings.NewReader(none), "f", Options{}); err == nil ||
		!strings.Contains(err.Error(), "no map keyed by stacks") {
		t.Errorf("numbers alone: %v, %v", tree, err)
	}
	tree := readString(t, stacks+"@start[1]: 4\n@bytes[\n  f+1\n]: 3\n")
	if notes := strings.Join(tree.Notes, "\n"); !strings.Contains(notes, "1 entry has no stack") ||
		!strings.Contains(notes, "maps are added up: @bytes, @usecs") {
		t.Errorf("notes: %q", notes)
	}
}

// TestSpeedscopeOpenEvents checks that functions that are still open end with the trace, wherever
// it is cut off.
func TestSpeedscopeOpenEvents(t *testing.T) {
	events := []string{`{"type":"O","frame":0,"at":0}`, `{"type":"O","frame":1,"at":2}`,
		`{"type":"C","frame":1,"at":5}`, `{"type":"C","frame":0,"at":10}`}
	for n, want := range []string{"", "main 10\n", "main 2\nmain;work 8\n", "main 7\nmain;work 3\n", "main 7\nmain;work 3\n"} {
		if n == 0 {
			continue
		}
		in := `{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[{"name":"main"},{"name":"work"}]},"profiles":[
{"type":"evented","name":"cut off","unit":"milliseconds","startValue":0,"endValue":10,"events":[` + strings.Join(
			events[:n], ",",
		) + `]}]}`
		tree := readString(t, in)
		if got := folded(t, tree); got != want {
			t.Errorf("%d events: got %s, want %s", n, got, want)
		}
		if open := strings.Contains(strings.Join(tree.Notes, ""), "still open"); open != (n < 4) {
			t.Errorf("%d events: notes %q", n, tree.Notes)
		}
	}
}

package limits

import (
	"fmt"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
)

func processFiles() Kind {
	return Kind{
		id:    "files",
		used:  Source{query: facts.Descriptors},
		sizes: []Source{{query: facts.DescriptorLimit}},
		owner: []string{"pid", "process"},
		culprit: func(r *diagnose.Row) diagnose.Culprit {
			return diagnose.Culprit{Kind: "process", Name: r.Word("process"), PID: pidOf(r)}
		},
		verify: func(r *diagnose.Row) string {
			return fmt.Sprintf("ls /proc/%[1]d/fd | wc -l; grep 'open files' /proc/%[1]d/limits",
				pidOf(r))
		},
		fix: func(r *diagnose.Row, size float64) *diagnose.Fix {
			return &diagnose.Fix{
				Command: fmt.Sprintf("prlimit --pid %d --nofile=%.0f:", pidOf(r), 2*size),
				Undo:    fmt.Sprintf("prlimit --pid %d --nofile=%.0f:", pidOf(r), size),
				Risk: "low: above the hard limit it is refused; a program that never closes " +
					"files reaches the new limit too"}
		},
		errors: errors{
			failed: func(l *diagnose.Look, owner, call *diagnose.Row) bool {
				return call.Word("error") == "EMFILE" && call.Word("pid") == owner.Word("pid") &&
					!strings.HasPrefix(call.Word("syscall"), "inotify_init")
			},
		},
		words: words{
			things: "file descriptors",
			amount: phrase.Count,
			next:   "the next open, accept or socket fails with EMFILE",
			name: func(r *diagnose.Row) string {
				return phrase.ProcessName(r.Word("process"), pidOf(r))
			},
		},
	}
}

func pidOf(r *diagnose.Row) int {
	pid, _ := strconv.Atoi(r.Word("pid"))
	return pid
}

// openFiles returns the limit of open files of the machine, fs.file-max. Root may exceed it.
func openFiles() Kind {
	return Kind{
		id:      "file-max",
		used:    Source{facts.CacheEntries, []string{"netns", "", "cache", "file"}},
		sizes:   []Source{{query: facts.CacheLimit}},
		owner:   []string{"netns", "cache"},
		machine: true,
		culprit: func(*diagnose.Row) diagnose.Culprit {
			return diagnose.Culprit{Kind: "host", Name: "file-max"}
		},
		verify: func(*diagnose.Row) string { return "cat /proc/sys/fs/file-nr" },
		fix:    knob{sysctl: "fs.file-max"}.fix,
		errors: errors{failed: func(_ *diagnose.Look, _, call *diagnose.Row) bool {
			return call.Word("error") == "ENFILE"
		}},
		words: words{things: "open files", amount: phrase.Count,
			next: "the next open, accept or socket fails with ENFILE",
			name: func(*diagnose.Row) string { return "The machine" }},
	}
}

package probe

import (
	"strings"

	"culprit/lang/syntax"
	"culprit/lang/words"
)

// foreignProbe returns what a description of bpftrace, perf or Solaris is in D; "" for others.
func (e *Env) foreignProbe(w *want) string {
	if e.asks {
		return ""
	}
	e.asks = true
	defer func() { e.asks = false }()
	text := strings.TrimLeft(w.text, ":")
	if d := words.ProbeInD(text); d != "" {
		return "in D it is " + d
	}
	parts := strings.Split(text, ":")
	if len(parts) == 1 && e.exists("syscall::"+text+":entry") {
		return "the system call is syscall::" + text + ":entry"
	}
	if len(parts) == 2 && e.exists("sdt:"+parts[0]+"::"+parts[1]) {
		return "the tracepoint is sdt:" + parts[0] + "::" + parts[1]
	}
	if w.provider.match("syscall") && w.function.isLit {
		linux := words.SystemCall(w.function.literal)
		description := "syscall::" + linux + ":" + w.name.text
		if linux != "" && e.exists(description) {
			return "on Linux it is " + description
		}
	}
	return ""
}

// exists reports whether a description of D matches a probe.
func (e *Env) exists(text string) bool {
	list, diags := syntax.ParseProbes(text, syntax.Mode{Last: syntax.PartName})
	if len(diags) > 0 || len(list) != 1 {
		return false
	}
	found, err := e.Probes(list[0])
	return err == nil && len(found) > 0
}

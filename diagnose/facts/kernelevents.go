package facts

import (
	"slices"
	"strings"

	"culprit/diagnose"
)

// KernelMessages are the messages of the kernel's log.
const KernelMessages = `kernel.messages by level,event,text`

// MoreMessages is the text of messages that are only counted.
const MoreMessages = "(more messages)"

// KernelEvent is the subject of a finding that is a message of the kernel.
type KernelEvent struct {
	Event string // of kernelmessage.Message
	Name  string // what failed; "" when the message has none
	// Programs are the names of those in whose system calls it failed, where messages have them.
	Programs []string
}

// table: rules whose findings are the cause of a message, or the same fault in numbers, by event
var rulesOfEvents = map[string][]string{
	"killed in its group": {"memory-pressure", "memory-growing"},
	"killed":              {"memory-pressure", "memory-growing"},
	"allocation failed":   {"memory-pressure", "compaction-stalls"},
	"blocked":             {"tasks-blocked", "io-stalled", "disk-hangs", "disk-suspended"},
	"conntrack full":      {"table-full"},
	"neighbours full":     {"table-full"},
	"flood":               {"tcp-listen-overflow"},
	"tcp memory":          {"limit-reached"},
	"files":               {"limit-reached"},
	"forks":               {"limit-reached"},
	"array":               {"array-degraded"},
	"disk timeout":        {"disk-hangs"},
	"read-only":           {"limit-reached"},
	"nfs":                 {"tasks-blocked"},
	"link slow":           {"link-below-mode"},
	"clock":               {"clock-slow"},
	"throttled":           {"cpu-slow"},
	"crash":               {"crash-loop"},
	"trap":                {"crash-loop"},
}

// table: what the ID of a finding of limit-reached begins with, by event
var limitsOfEvents = map[string]string{
	"tcp memory": "limit-reached/tcp-memory", "files": "limit-reached/file-max",
	"forks": "limit-reached/pids:", "read-only": "limit-reached/read-only:",
}

// ExplainsMessage reports whether a finding is the cause of a finding that is a message of the
// kernel, or the same fault in numbers.
func ExplainsMessage(cause, message *diagnose.Finding) bool {
	e, ok := message.Subject.(KernelEvent)
	if !ok || !slices.Contains(rulesOfEvents[e.Event], cause.Rule) {
		return false
	}
	switch e.Event {
	case "conntrack full":
		return strings.Contains(cause.ID, "conntrack")
	case "neighbours full":
		return !strings.Contains(cause.ID, "conntrack") && !strings.Contains(cause.ID, "time-wait")
	case "array", "clock", "throttled", "nfs", "blocked", "flood", "killed", "allocation failed",
		"killed in its group":
		return true // the message names another thing than the finding: a member, a waiter
	case "crash", "trap":
		loop, ok := cause.Subject.(CrashLoop)
		return ok && loop.Process == e.Name
	case "disk timeout", "link slow":
		return strings.HasPrefix(cause.Culprit.Name, e.Name)
	}
	begin, ok := limitsOfEvents[e.Event]
	return ok && strings.HasPrefix(cause.ID, begin)
}

// ExplainsFailedCalls reports whether a finding is the cause of system calls that fail: the kernel
// found the device or the file system damaged. Where its messages name programs, it explains the
// calls of these.
func ExplainsFailedCalls(cause, calls *diagnose.Finding) bool {
	e, ok := cause.Subject.(KernelEvent)
	failing, isCalls := calls.Subject.(FailingCalls)
	if !ok || !isCalls {
		return false
	}
	switch e.Event {
	case "filesystem":
		return slices.Contains([]string{"EIO", "EUCLEAN", "EBADMSG"}, failing.Failure.Error) &&
			(len(e.Programs) == 0 || slices.Contains(e.Programs, failing.Program.Name))
	case "disk error", "disk timeout":
		return failing.Failure.Error == "EIO"
	}
	return false
}

// ExplainsCrashes reports whether a finding is the cause of a crash loop: processes are killed
// because there is no memory.
func ExplainsCrashes(cause, crash *diagnose.Finding) bool {
	loop, ok := crash.Subject.(CrashLoop)
	if !ok || !loop.KilledIn("") {
		return false
	}
	if e, ok := cause.Subject.(KernelEvent); ok {
		return strings.HasPrefix(e.Event, "killed") && e.Name == loop.Process
	}
	if cause.Rule != "memory-pressure" {
		return false
	}
	return cause.Culprit.Kind != "cgroup" || loop.KilledIn(cause.Culprit.Name)
}

package measure

import "strings"

// unreadProcesses ends each note about processes that may not be read although the right to do so
// is held. All sources use the same text, so that a report contains it once.
const unreadProcesses = "may not be looked into though CAP_SYS_PTRACE is held: " +
	"a security module or a user namespace protects them"

// UnreadProcesses returns the note about processes that may not be read although the right to do so
// is held.
func UnreadProcesses() string {
	const unknown = "; their I/O, connections and namespaces are unknown"
	return "some processes " + unreadProcesses + unknown
}

// AboutUnreadProcesses reports whether note is about such processes. The note matters only to
// findings that rest on the statistic with the note.
func AboutUnreadProcesses(note string) bool { return strings.Contains(note, unreadProcesses) }

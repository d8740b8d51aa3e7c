package measure

import "strings"

// unreadThoughHeld ends each note about processes that may not be looked into though the right to do so
// is held. All sources say it in the same words, so that a report has it once.
const unreadProcesses = "may not be looked into though CAP_SYS_PTRACE is held: a security module or a user namespace protects them"

// UnreadThoughHeld returns the note about processes that may not be looked into though the right to do
// so is held. It asks for no right.
func UnreadProcesses() string {
	return "some processes " + unreadProcesses + "; their I/O, connections and namespaces are unknown"
}

// AboutUnreadProcesses reports whether a note is about processes that may not be looked into though the
// right to do so is held. It matters to findings alone that rest on the statistic with the note.
func AboutUnreadProcesses(note string) bool { return strings.Contains(note, unreadProcesses) }

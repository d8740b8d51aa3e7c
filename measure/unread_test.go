package measure

import (
	"strings"
	"testing"
)

// The note is recognized, also inside a longer one, and it does not ask for a right.
func TestUnreadProcesses(t *testing.T) {
	note := UnreadProcesses()
	if !AboutUnreadProcesses(note) || !AboutUnreadProcesses("look for namespaces: "+note) {
		t.Errorf("%q is not recognized", note)
	}
	if AboutUnreadProcesses("look into process 12: denied, needs CAP_SYS_PTRACE") {
		t.Error("a note that asks for the right is recognized as one that does not")
	}
	if strings.Contains(note, "needs") || strings.Contains(note, "take") {
		t.Errorf("%q asks for a right", note)
	}
}

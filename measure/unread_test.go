package measure

import (
	"strings"
	"testing"
)

// The note is known again, within a longer one too, and asks for no right.
func TestUnreadThoughHeld(t *testing.T) {
	note := UnreadProcesses()
	if !AboutUnreadProcesses(note) || !AboutUnreadProcesses("look for namespaces: "+note) {
		t.Errorf("%q is not known again", note)
	}
	if AboutUnreadProcesses("look into process 12: denied, needs CAP_SYS_PTRACE") {
		t.Error("a note that asks for the right is taken for one that does not")
	}
	if strings.Contains(note, "needs") || strings.Contains(note, "take") {
		t.Errorf("%q asks for a right", note)
	}
}

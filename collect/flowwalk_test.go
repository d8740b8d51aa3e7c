package collect

import (
	"testing"

	"culprit/kernel"
)

// A walk that finds more sockets than it takes in asks for no more of them: the kernel's part grows with their square.
func TestWalkEndsWhereItIsTooLong(t *testing.T) {
	w := &flowWalk{}
	k, asked := &kernel.Connection{Net: 1, State: 1, Message: []byte{1, 2, 3}}, 0
	for more := true; more && asked < 2*walkedMost; asked++ {
		more = w.take(k)
	}
	if asked != walkedMost+1 || len(w.found) != asked {
		t.Errorf("%d sockets were asked for and %d taken in, want %d", asked, len(w.found), walkedMost+1)
	}
}

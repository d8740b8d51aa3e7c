package connection

import (
	"testing"

	"culprit/kernel"
	"culprit/kernel/bpf"

	"golang.org/x/sys/unix"
)

// A walk that finds more sockets than it takes stops early: the kernel's work grows with their
// square.
func TestWalkEndsWhereItIsTooLong(t *testing.T) {
	w := &flowWalk{}
	k, asked := &bpf.Connection{Net: 1, State: 1, Message: []byte{1, 2, 3}}, 0
	for more := true; more && asked < 2*walkedMost; asked++ {
		more = w.take(k)
	}
	if asked != walkedMost+1 || len(w.found) != asked {
		t.Errorf(
			"%d sockets were asked for and %d taken in, want %d", asked, len(w.found), walkedMost+1,
		)
	}
}

// A connection that loses its socket between the count and the walk is in neither. That walk is
// incomplete.
func TestWalkOverAnEndThatIsLeftToTheKernel(t *testing.T) {
	walkable(t)
	inNamespace(t, func() {
		w := startFlowWalk(kernel.Root{})
		defer w.close()
		w.wait()
		listener, bound := listen(t, tcp4(127, 0, 0, 1, 0))
		defer unix.Close(listener)
		ends := connect(t, listener, bound)
		defer ends.close()
		if !w.ready() {
			t.Skip("needs: quiet machine: a socket could not be marked")
		}
		before := w.short
		must(t, unix.Close(ends.client))
		ends.client = -1
		until(
			t, "the kernel has the end",
			func() bool { _, short := w.conns.Counted(); return short > before },
		)
		if w.look(0, true) {
			t.Error("a walk without it is said to be whole")
		}
		if !w.look(0, false) && w.ready() { // unless some socket of the machine could not be marked
			t.Error("what is not counted is not missing: there is no socket")
		}
	})
}

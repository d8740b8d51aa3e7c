package trace

import (
	"cmp"
	"fmt"
	"slices"
)

// A stackStore holds stacks that were read out of the kernel, each once, by numbers of its own. A
// number is not used for another stack before all numbers were used. Numbers have the bit
// check.Program.StoredStack, which those of the kernel do not have.
type stackStore struct {
	bit     uint32                  // of numbers
	next    uint32                  // the number of the next stack, without bit
	numbers map[string]uint32       // by the bytes of the stack
	stacks  map[uint32]*storedStack // by number
	bytes   int                     // of all stacks
	fresh   []uint32                // stacks whose names were not looked up yet
	// what discard has removed: stacks, and events that were counted in their rows
	discarded, events uint64
}

// A storedStack is a stack with its weight.
type storedStack struct {
	bytes  string // u64 process (0: a kernel stack), u64 addresses, innermost first
	events uint64 // that were added to rows with the stack since it was stored
}

// Numbers of a stackStore that stand for no stack, without its bit. A row with otherStacks counts
// the events of stacks that were discarded.
const (
	lostStack = iota + 1
	otherStacks
	firstStored
)

const (
	// mostStacks and mostStackBytes are how many stacks a session stores. With their names and
	// their rows, stacks of 30 frames take about 100 MB.
	mostStacks     = 1 << 16
	mostStackBytes = 32 << 20
)

func newStackStore(bit uint32) stackStore {
	return stackStore{
		bit: bit, next: firstStored, numbers: map[string]uint32{}, stacks: map[uint32]*storedStack{},
	}
}

// number returns the number of a stack, which it stores if needed.
func (s *stackStore) number(stack []byte) uint32 {
	if n, ok := s.numbers[string(stack)]; ok {
		return n
	}
	n := s.next | s.bit
	for s.stacks[n] != nil { // all numbers were used
		s.advance()
		n = s.next | s.bit
	}
	s.advance()
	one := &storedStack{bytes: string(stack)}
	s.numbers[one.bytes], s.stacks[n] = n, one
	s.bytes += len(stack)
	s.fresh = append(s.fresh, n)
	return n
}

func (s *stackStore) advance() {
	if s.next++; s.next == s.bit {
		s.next = firstStored
	}
}

// full reports whether there are more stacks than the session stores.
func (s *stackStore) full() bool {
	return len(s.stacks) > mostStacks || s.bytes > mostStackBytes
}

// discard removes the stacks that are not used, and then the rarest ones until a quarter is free.
// It returns whether it removed stacks that are used.
func (s *stackStore) discard(used map[uint32]bool) bool {
	var all []uint32
	for n := range s.stacks {
		if used[n] {
			all = append(all, n)
		} else {
			s.remove(n)
		}
	}
	fits := func() bool {
		return len(s.stacks) <= mostStacks/4*3 && s.bytes <= mostStackBytes/4*3
	}
	if !fits() {
		slices.SortFunc(all, func(a, b uint32) int { // of equal ones the older first
			return cmp.Or(cmp.Compare(s.stacks[a].events, s.stacks[b].events), cmp.Compare(a, b))
		})
	}
	any := false
	for _, n := range all {
		if fits() {
			break
		}
		s.discarded++
		s.events += s.stacks[n].events
		s.remove(n)
		any = true
	}
	s.fresh = slices.DeleteFunc(s.fresh, func(n uint32) bool { return s.stacks[n] == nil })
	return any
}

func (s *stackStore) remove(n uint32) {
	one := s.stacks[n]
	s.bytes -= len(one.bytes)
	delete(s.numbers, one.bytes)
	delete(s.stacks, n)
}

// otherStacksText is what is printed for stacks that were discarded.
const otherStacksText = "(other stacks)"

// missing returns what is printed for a number that has no stack.
func (s *stackStore) missing(n uint32) string {
	if n == lostStack|s.bit {
		return "(stack is lost)"
	}
	return otherStacksText
}

// StackNotes returns a note on stacks that were too many to keep.
func (s *Session) StackNotes() []string {
	store := &s.stacks.store
	if store.discarded == 0 {
		return nil
	}
	return []string{fmt.Sprintf(
		"there were more different stacks than culprit keeps (%d): %d rare ones with %d events "+
			"are counted together, as %s",
		mostStacks, store.discarded, store.events, otherStacksText,
	)}
}

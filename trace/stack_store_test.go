package trace

import (
	"encoding/binary"
	"fmt"
	"testing"

	"culprit/lang/check"
)

// stackBytes returns a stack of process 7 with one address.
func stackBytes(pc uint64) []byte {
	b := binary.NativeEndian.AppendUint64(nil, 7)
	return binary.NativeEndian.AppendUint64(b, pc)
}

func TestStackStoreDiscardsRarest(t *testing.T) {
	s := newStackStore(1 << 31)
	used := map[uint32]bool{}
	var numbers []uint32
	for i := range mostStacks + 1 {
		n := s.number(stackBytes(uint64(i) + 1))
		s.stacks[n].events = uint64(i%100) + 1
		numbers = append(numbers, n)
		used[n] = i != 50 // a frequent one that nothing uses
	}
	if !s.full() {
		t.Fatalf("%d stacks are not too many", len(s.stacks))
	}
	if !s.discard(used) {
		t.Error("no stack that is used was discarded")
	}
	if len(s.stacks) != mostStacks/4*3 || len(s.numbers) != len(s.stacks) ||
		s.bytes != 16*len(s.stacks) {
		t.Errorf("%d stacks with %d numbers in %d bytes", len(s.stacks), len(s.numbers), s.bytes)
	}
	if want := uint64(mostStacks/4 + 1 - 1); s.discarded != want {
		t.Errorf("%d were discarded, want %d", s.discarded, want)
	}
	if s.stacks[numbers[50]] != nil {
		t.Error("a stack that nothing uses is kept")
	}
	for i, n := range numbers {
		if i != 50 && (s.stacks[n] == nil) != (i%100 < 25) && i%100 != 24 && i%100 != 25 {
			t.Fatalf("a stack of %d events: %v", i%100+1, s.stacks[n])
		}
	}
	if text := s.missing(numbers[0]); text != otherStacksText {
		t.Errorf("a discarded stack is %q", text)
	}
}

func TestStackStoreNumbers(t *testing.T) {
	s := newStackStore(8)
	var all []string
	for i := range 6 { // numbers 3 to 7; the sixth replaces the one that was removed
		n := s.number(stackBytes(uint64(i) + 1))
		all = append(all, fmt.Sprint(n&^8, s.number(stackBytes(uint64(i)+1)) == n))
		if i == 2 {
			s.remove(n)
		}
	}
	want := "[3 true 4 true 5 true 6 true 7 true 5 true]"
	if got := fmt.Sprint(all); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTwoStacksWithOneID: when the IDs of the kernel are used up, both stacks are lost.
func TestTwoStacksWithOneID(t *testing.T) {
	s := stackReader{store: newStackStore(1 << 31), ids: stackIDs{now: map[uint32]uint32{}}}
	s.take(s.ids.now)(stackBytes(1), 5)
	s.take(s.ids.now)(stackBytes(2), 6)
	s.take(s.ids.now)(stackBytes(1), 5) // the same again
	if s.ids.now[5] == s.ids.now[6] || s.store.stacks[s.ids.now[5]] == nil {
		t.Errorf("two stacks are %v", s.ids.now)
	}
	s.ids.before, s.ids.now = s.ids.now, map[uint32]uint32{}
	s.take(s.ids.now)(stackBytes(3), 5)
	if lost := uint32(1<<31 | lostStack); s.ids.now[5] != lost || s.ids.before[5] != lost {
		t.Errorf("now %v, before %v", s.ids.now, s.ids.before)
	}
}

func TestKeepsStacks(t *testing.T) {
	stack := check.StackType{Of: check.User}
	number := &check.Int{Bytes: 8}
	for _, tt := range []struct {
		name string
		p    check.Program
		want bool
	}{
		{"none", check.Program{Vars: []*check.Var{{Type: number}}}, false},
		{"clause-local", check.Program{Vars: []*check.Var{{Home: check.This, Type: stack}}}, false},
		{"thread-local", check.Program{Vars: []*check.Var{{Home: check.Self, Type: stack}}}, true},
		{"key", check.Program{Vars: []*check.Var{{Type: number, Keys: []check.Type{stack}}}}, true},
		{"depth", check.Program{Cuts: true}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := keepsStacks(&tt.p); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

package interp

import "testing"

func TestWord(t *testing.T) {
	const code = 0x7f1234567898
	for _, tt := range []struct {
		name              string
		instruction, want uint64
	}{
		{"first", 0, 0},
		{"last that is known", UnknownInstruction - 1, UnknownInstruction - 1},
		{"unknown", UnknownInstruction, UnknownInstruction},
		{"too large", 1 << 40, UnknownInstruction},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWord(code, tt.instruction)
			if w.Code() != code || w.Instruction() != tt.want || !IsWord(uint64(w)) {
				t.Errorf("%x: code %x, instruction %d", w, w.Code(), w.Instruction())
			}
		})
	}
	for _, pc := range []uint64{0x7fffffffffff, 1<<57 - 1, 2 << 62, 3 << 62, ^uint64(0)} {
		if IsWord(pc) {
			t.Errorf("the address %x is a frame", pc)
		}
	}
}

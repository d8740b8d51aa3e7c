// Package instruction decodes the lengths of machine instructions of x86 and ARM64. It is pure.
package instruction

import (
	"encoding/binary"
	"runtime"
)

// Starts returns where the instructions in a piece of machine code begin, for this architecture or
// the 32-bit mode of x86 (narrow), and the end of the last one. An end before that of the code is
// at an unknown one.
func Starts(text []byte, narrow bool) (starts []uint64, end int) {
	for at := 0; at < len(text); {
		n := 4
		if narrow {
			n = Length386(text[at:])
		} else if runtime.GOARCH == "amd64" {
			n = LengthAMD64(text[at:])
		} else if runtime.GOARCH != "arm64" {
			n = 0
		}
		if n == 0 || n > len(text)-at {
			return starts, at
		}
		starts = append(starts, uint64(at))
		at += n
	}
	return starts, len(text)
}

// Returns reports whether an instruction returns from a function.
func Returns(text []byte) bool {
	if runtime.GOARCH == "arm64" {
		return len(text) >= 4 && binary.LittleEndian.Uint32(text)&^0x3e0 == 0xd65f0000
	}
	for len(text) > 0 && (text[0] == 0xf3 || text[0] == 0xf2) { // rep ret, bnd ret
		text = text[1:]
	}
	return len(text) > 0 && (text[0] == 0xc3 || text[0] == 0xc2)
}

// What follows an opcode of amd64.
const (
	bad     = 1 << iota // no such instruction
	modRM               // a byte for registers or an address, and its SIB and displacement
	imm8                // a byte
	imm16               // two
	immZ                // four, with the operand size prefix two
	imm32               // four
	immV                // as immZ, with REX.W eight
	address             // eight, with the address size prefix four
	group3              // imm8 or immZ for the first two of the group
)

// LengthAMD64 returns the length of the instruction at the start of code in 64-bit mode; 0:
// unknown. The tables are in Intel's manual, volume 2, appendix A.
func LengthAMD64(code []byte) int { return length(code, false) }

// Length386 is LengthAMD64 in 32-bit mode.
func Length386(code []byte) int { return length(code, true) }

func length(code []byte, narrow bool) int {
	at := 0
	short, small, wide := false, false, false // prefixes: of the operand, of the address, REX.W
prefixes:
	for ; at < len(code) && at < 14; at++ {
		switch code[at] {
		case 0x66:
			short = true
		case 0x67:
			small = true
		case 0xf2, 0xf3, 0xf0, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65:
		default:
			break prefixes
		}
	}
	if at < len(code) && code[at]&0xf0 == 0x40 && !narrow {
		wide = code[at]&8 != 0
		at++
	}
	if at >= len(code) {
		return 0
	}
	var what int
	op := code[at]
	at++
	next := func(i int) byte {
		if at+i < len(code) {
			return code[at+i]
		}
		return 0
	}
	switch {
	case narrow && notVector(op, next(0)):
		what = modRM // les, lds, bound
	case op == 0xc5 && len(code) > at+1: // VEX of two bytes
		op = next(1)
		at += 2
		what = vector(1, op)
	case op == 0xc4 && len(code) > at+2: // of three
		what = vector(int(next(0)&31), next(2))
		at += 3
	case op == 0x62 && len(code) > at+3: // EVEX
		if next(0)&8 != 0 {
			return 0
		}
		what = vector(int(next(0)&7), next(3))
		at += 4
	case op == 0x8f && next(0)&31 >= 8 && len(code) > at+2: // XOP
		switch next(0) & 31 {
		case 8:
			what = modRM | imm8
		case 9:
			what = modRM
		case 10:
			what = modRM | imm32
		default:
			what = bad
		}
		at += 3
	case op == 0x0f:
		op = next(0)
		at++
		switch op {
		case 0x38:
			at++
			what = modRM
		case 0x3a:
			at++
			what = modRM | imm8
		default:
			what = twoBytes(op)
		}
	case narrow:
		what = oneByte386(op)
	default:
		what = oneByte(op)
	}
	if what&bad != 0 {
		return 0
	}
	if what&modRM != 0 {
		if at >= len(code) {
			return 0
		}
		m := code[at]
		at++
		mod, reg, rm := m>>6, m>>3&7, m&7
		switch {
		case mod != 3 && narrow && small: // an address of 16 bits
			switch {
			case mod == 1:
				at++
			case mod == 2, mod == 0 && rm == 6:
				at += 2
			}
		case mod != 3:
			if rm == 4 {
				if at >= len(code) {
					return 0
				}
				if code[at]&7 == 5 && mod == 0 {
					at += 4
				}
				at++
			}
			switch {
			case mod == 1:
				at++
			case mod == 2, mod == 0 && rm == 5:
				at += 4
			}
		}
		if what&group3 != 0 && reg < 2 {
			what |= immZ
			if op&1 == 0 {
				what = what&^immZ | imm8
			}
		}
	}
	for _, part := range []struct {
		bit, size int
	}{{imm8, 1}, {imm16, 2}, {imm32, 4 - 2*bit(narrow && short)},
		{immZ, operand(short && !wide, false)},
		{immV, operand(short && !wide, wide)},
		{address, (8 - 4*bit(narrow)) >> bit(small)}} {
		if what&part.bit != 0 {
			at += part.size
		}
	}
	if at > 15 || at > len(code) {
		return 0
	}
	return at
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func operand(short, wide bool) int {
	switch {
	case short:
		return 2
	case wide:
		return 8
	}
	return 4
}

// vector returns what follows an opcode of AVX.
func vector(table int, op byte) int {
	switch table {
	case 1:
		switch {
		case op == 0x77:
			return 0
		case op >= 0x70 && op <= 0x73, op == 0xc2, op >= 0xc4 && op <= 0xc6:
			return modRM | imm8
		case op&0xf0 == 0x80: // jumps have none
			return bad
		}
		return modRM
	case 2, 5, 6:
		return modRM
	case 3:
		return modRM | imm8
	}
	return bad
}

func oneByte(op byte) int {
	switch {
	case op < 0x40:
		switch op & 7 {
		case 4:
			return imm8
		case 5:
			return immZ
		case 6, 7:
			return bad
		}
		return modRM
	case op >= 0x40 && op < 0x50: // a second REX
		return bad
	case op >= 0x50 && op < 0x60, op == 0x6c, op == 0x6d, op == 0x6e, op == 0x6f:
		return 0
	case op >= 0x70 && op < 0x80, op == 0x6a:
		return imm8
	case op >= 0xb0 && op < 0xb8:
		return imm8
	case op >= 0xb8 && op < 0xc0:
		return immV
	case op >= 0xd8 && op < 0xe0:
		return modRM
	case op >= 0xe0 && op < 0xe8:
		return imm8
	case op >= 0xa0 && op < 0xa4:
		return address
	}
	switch op {
	case 0x60, 0x61, 0x62, 0x64, 0x65, 0x66, 0x67, 0x82, 0x9a, 0xc4, 0xc5, 0xce, 0xd4, 0xd5, 0xd6,
		0xea, 0xf0, 0xf2, 0xf3:
		return bad
	case 0x63, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f, 0xd0, 0xd1,
		0xd2, 0xd3, 0xfe, 0xff:
		return modRM
	case 0x68, 0xa9:
		return immZ
	case 0x69, 0x81, 0xc7:
		return modRM | immZ
	case 0x6b, 0x80, 0x83, 0xc0, 0xc1, 0xc6:
		return modRM | imm8
	case 0xa8, 0xcd, 0xeb:
		return imm8
	case 0xc2, 0xca:
		return imm16
	case 0xc8:
		return imm16 | imm8
	case 0xe8, 0xe9:
		return imm32
	case 0xf6, 0xf7:
		return modRM | group3
	}
	return 0
}

// notVector reports whether what is a prefix of AVX in 64-bit mode is an instruction with an
// address in 32-bit mode.
func notVector(op, next byte) bool {
	return (op == 0xc4 || op == 0xc5 || op == 0x62) && next < 0xc0
}

// oneByte386 is oneByte in 32-bit mode, which has instructions that 64-bit mode lacks.
func oneByte386(op byte) int {
	switch {
	case op < 0x40 && op&7 >= 6: // push and pop of segments, decimal arithmetic
		return 0
	case op >= 0x40 && op < 0x50: // inc, dec
		return 0
	case op >= 0xb8 && op < 0xc0:
		return immZ
	}
	switch op {
	case 0x60, 0x61, 0xce, 0xd6:
		return 0
	case 0x82:
		return modRM | imm8
	case 0x9a, 0xea: // a far address: offset and segment
		return immZ | imm16
	case 0xd4, 0xd5:
		return imm8
	}
	return oneByte(op)
}

func twoBytes(op byte) int {
	switch {
	case op >= 0x80 && op < 0x90:
		return imm32
	case op >= 0x30 && op < 0x38, op >= 0xc8 && op < 0xd0:
		return 0
	case op >= 0x70 && op < 0x74:
		return modRM | imm8
	}
	switch op {
	case 0x04, 0x0a, 0x0c, 0x24, 0x25, 0x26, 0x27, 0x39, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f:
		return bad
	case 0x05, 0x06, 0x07, 0x08, 0x09, 0x0b, 0x0e, 0x77, 0xa0, 0xa1, 0xa2, 0xa8, 0xa9, 0xaa:
		return 0
	case 0x0f, 0xa4, 0xac, 0xba, 0xc2, 0xc4, 0xc5, 0xc6:
		return modRM | imm8
	}
	return modRM
}

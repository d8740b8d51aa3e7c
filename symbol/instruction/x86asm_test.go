package instruction

import (
	"debug/elf"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// lengthByX86asm returns the length by the decoder of golang.org/x/arch. 0: it does not know the
// instruction, or decodes it wrongly: VEX, EVEX, prefixes without an instruction, and the test
// registers of the 486, which 64-bit mode does not have.
func lengthByX86asm(code []byte, mode int) (int, string) {
	i, err := x86asm.Decode(code, mode)
	if err != nil || i.Op == 0 {
		return 0, ""
	}
	for _, p := range i.Prefix {
		switch p &^ (x86asm.PrefixImplicit | x86asm.PrefixIgnored | x86asm.PrefixInvalid) {
		case 0x62, 0xc4, 0xc5:
			return 0, ""
		}
	}
	for _, a := range i.Args {
		if r, ok := a.(x86asm.Reg); ok && r >= x86asm.TR0 && r <= x86asm.TR7 {
			return 0, ""
		}
	}
	return i.Len, i.String()
}

// Lengths agree with x86asm for the instructions of this test program.
func TestLengthAMD64OfThisProgram(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for len(text) > 15 {
		got := LengthAMD64(text)
		if want, what := lengthByX86asm(text, 64); want > 0 {
			compared++
			if got != want {
				t.Errorf("% x: %d bytes, want %d: %s", text[:15], got, want, what)
			}
		}
		text = text[max(got, 1):]
	}
	if compared < 100_000 {
		t.Errorf("%d instructions compared", compared)
	}
}

// Lengths agree with x86asm for random bytes that it takes for an instruction, in both modes.
func TestLengthsOfRandomBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	code := make([]byte, 24)
	compared, wrong := map[int]int{}, 0
	for range 250_000 {
		for i := range code {
			code[i] = byte(r.Uint32())
		}
		for mode, length := range map[int]func([]byte) int{64: LengthAMD64, 32: Length386} {
			want, what := lengthByX86asm(code, mode)
			if want == 0 {
				continue
			}
			compared[mode]++
			if got := length(code); got != want {
				if wrong++; wrong < 40 {
					t.Errorf("%d: % x: %d bytes, want %d: %s", mode, code[:15], got, want, what)
				}
			}
		}
	}
	if compared[64] < 150_000 || compared[32] < 150_000 || wrong > 0 {
		t.Errorf("%v compared, %d differ", compared, wrong)
	}
}

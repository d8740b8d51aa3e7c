package symbol

import "testing"

// Arguments as gcc writes them for 32-bit programs.
func TestArguments386(t *testing.T) {
	symbol := func(name string) (uint64, bool) { return 0x804a010, name == "counter" }
	for text, want := range map[string]Argument{
		"-4@%eax":             {Where: InRegister, Size: 4, Signed: true, Register: "rax"},
		"1@%dl":               {Where: InRegister, Size: 1, Register: "rdx"},
		"%ecx":                {Where: InRegister, Size: 4, Register: "rcx"},
		"4@12(%ebp)":          {Where: InMemory, Size: 4, Register: "rbp", Number: 12},
		"8@-16(%ebp)":         {Where: InMemory, Size: 8, Register: "rbp", Number: -16},
		"-4@(%edx,%ecx,4)":    {Where: InMemory, Size: 4, Signed: true, Register: "rdx", Index: "rcx", Scale: 4},
		"4@table(,%eax,4)":    {Where: Nowhere, Size: 4, Why: "the address table(,%eax,4) is not understood"},
		"4@counter":           {Where: InMemory, Size: 4, Register: "pc", Number: 0x804a010},
		"4@8(%rbp)":           {Where: Nowhere, Size: 4, Why: "the address 8(%rbp) is not understood"},
		"4@%r8d":              {Where: Nowhere, Size: 4, Why: "the kernel doesn't show the register %r8d"},
		"8@%rax":              {Where: Nowhere, Size: 8, Why: "the kernel doesn't show the register %rax"},
		"4@x@GOTOFF(%ebx)":    {Where: Nowhere, Size: 4, Why: "the address x@GOTOFF(%ebx) is not understood"},
		"-4@$-9":              {Where: InConstant, Size: 4, Signed: true, Number: -9},
		"4@%gs:20":            {Where: Nowhere, Size: 4, Why: "it is in memory of the thread's own (%gs:20)"},
		"4@(%eax,%esp,4)":     {Where: Nowhere, Size: 4, Why: "the address (%eax,%esp,4) is not understood"},
		"4@counter+4(,%eax,)": {Where: Nowhere, Size: 4, Why: "the address counter+4(,%eax,) is not understood"},
	} {
		t.Run(text, func(t *testing.T) {
			got := parseArgument(text, "386", symbol)
			if got.Where == Nowhere && want.Where == Nowhere { // its partial place does not matter
				got = Argument{Where: Nowhere, Size: got.Size, Why: got.Why}
			}
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

package symbol

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"culprit/heapbound"
)

// note makes a note as the assembler would.
func note(owner string, kind uint32, desc []byte) []byte {
	var b bytes.Buffer
	for _, n := range []uint32{uint32(len(owner) + 1), uint32(len(desc)), kind} {
		binary.Write(&b, binary.LittleEndian, n) //nolint:errcheck // into memory
	}
	for _, part := range [][]byte{append([]byte(owner), 0), desc} {
		b.Write(part)
		b.Write(make([]byte, -len(part)&3))
	}
	return b.Bytes()
}

func stap(addr, base, semaphore uint64, text string) []byte {
	var b []byte
	for _, n := range []uint64{addr, base, semaphore} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return append(b, text...)
}

func TestParseStapsdt(t *testing.T) {
	var got []textNote
	b := append(note("GNU", 3, []byte("abcd")),
		note("stapsdt", 3, stap(0x1139, 0x2000, 0x4010,
			"app\x00work__done\x00-4@%edi 8@-16(%rbp)\x00"))...)
	b = append(b, note("stapsdt", 3, stap(0x1150, 0x2000, 0, "app\x00none\x00\x00"))...)
	b = append(b, note("stapsdt", 3, stap(1, 2, 3, "short"))...)
	eachNote(b, func(owner string, kind uint32, desc []byte) {
		if owner == "stapsdt" && kind == typeStapsdt {
			if n, ok := parseStapsdt(desc, true, 0x3000); ok { // the file was moved by 0x1000 since
				got = append(got, n)
			}
		}
	})
	want := []textNote{
		{Note{Provider: "app", Name: "work__done", Address: 0x2139, Semaphore: 0x5010},
			"-4@%edi 8@-16(%rbp)"},
		{Note{Provider: "app", Name: "none", Address: 0x2150}, ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestParseDTraceNotes(t *testing.T) {
	n, ok := parseUSDT(append(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil,
		0x1200), 0x20b2), "prov\x00place\x00\x02-4@$10 8@%rcx\x00"...), false)
	if !ok || !reflect.DeepEqual(n, textNote{Note{Provider: "prov", Name: "place",
		Address: 0x1200}, "-4@$10 8@%rcx"}) {
		t.Errorf("%+v %v", n, ok)
	}
	b := append([]byte("prov\x00\x00\x00\x00"), make([]byte, 20)...) // stabilities
	b = binary.LittleEndian.AppendUint32(b, 2)
	b = append(b, "one\x00\x02int\x00char *\x00\x03char *\x00\x01int\x00\x00int\x00\x00"...)
	b = append(b, make([]byte, -len(b)&3)...)
	b = append(b, "two\x00\x00\x00"...)
	got := map[[2]string]typedProbe{}
	parseProvider(b, got)
	want := map[[2]string]typedProbe{{"prov", "one"}: {[]string{"char *", "int", "int"},
		[]int{1, 0, 0}}, {"prov", "two"}: {[]string{}, []int{}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestArguments(t *testing.T) {
	variables := func(name string) (uint64, bool) { return 0x4000, name == "counter" }
	for _, c := range []struct {
		arch, text string
		want       Argument
	}{
		{"amd64", "-4@%edi", Argument{Where: InRegister, Size: 4, Signed: true, Register: "rdi"}},
		{"amd64", "8@%r12", Argument{Where: InRegister, Size: 8, Register: "r12"}},
		{"amd64", "1@%r9b", Argument{Where: InRegister, Size: 1, Register: "r9"}},
		{"amd64", "2@%r10w", Argument{Where: InRegister, Size: 2, Register: "r10"}},
		{"amd64", "-1@%ah", Argument{Where: InRegister, Size: 1, Signed: true, Register: "rax",
			Shift: 8}},
		{"amd64", "1@%sil", Argument{Where: InRegister, Size: 1, Register: "rsi"}},
		{"amd64", "%eax", Argument{Where: InRegister, Size: 4, Register: "rax"}},
		{"amd64", "-4@$-7", Argument{Where: InConstant, Size: 4, Signed: true, Number: -7}},
		{"amd64", "8@$0xffffffffffffffff", Argument{Where: InConstant, Size: 8, Number: -1}},
		{"amd64", "-4@-20(%rbp)", Argument{Where: InMemory, Size: 4, Signed: true, Number: -20,
			Register: "rbp"}},
		{"amd64", "8@(%rsp)", Argument{Where: InMemory, Size: 8, Register: "rsp"}},
		{"amd64", "4@16(%rax,%rcx,8)", Argument{Where: InMemory, Size: 4, Number: 16,
			Register: "rax", Index: "rcx", Scale: 8}},
		{"amd64", "4@(%rax,%rcx)", Argument{Where: InMemory, Size: 4, Register: "rax", Index: "rcx",
			Scale: 1}},
		{"amd64", "2@8(,%rdx,4)", Argument{Where: InMemory, Size: 2, Number: 8, Index: "rdx",
			Scale: 4}},
		{"amd64", "-4@counter(%rip)", Argument{Where: InMemory, Size: 4, Signed: true,
			Number: 0x4000, Register: "pc"}},
		{"amd64", "-4@8+counter(%rip)", Argument{Where: InMemory, Size: 4, Signed: true,
			Number: 0x4008, Register: "pc"}},
		{"amd64", "8@counter-8", Argument{Where: InMemory, Size: 8, Number: 0x3ff8,
			Register: "pc"}},
		{"amd64", "8@$counter+4", Argument{Where: AtAddress, Size: 8, Number: 0x4004}},
		{"arm64", "-4@w1", Argument{Where: InRegister, Size: 4, Signed: true, Register: "x1"}},
		{"arm64", "8@x30", Argument{Where: InRegister, Size: 8, Register: "x30"}},
		{"arm64", "8@xzr", Argument{Where: InConstant, Size: 8}},
		{"arm64", "4@5", Argument{Where: InConstant, Size: 4, Number: 5}},
		{"arm64", "-8@[sp, 12]", Argument{Where: InMemory, Size: 8, Signed: true, Number: 12,
			Register: "sp"}},
		{"arm64", "8@[x0]", Argument{Where: InMemory, Size: 8, Register: "x0"}},
		{"arm64", "8@[x0, x2, lsl 3]", Argument{Where: InMemory, Size: 8, Register: "x0",
			Index: "x2", Scale: 8}},
	} {
		n := textNote{args: "8@$1 " + c.text}
		if c.arch == "arm64" {
			n.args = "8@1 " + c.text
		}
		got := n.parse(c.arch, variables)
		if len(got) != 2 || got[1] != c.want {
			t.Errorf("%s: %+v, want %+v", c.text, got, c.want)
		}
	}
	for _, text := range []string{"8f@%xmm0", "3@%eax", "@", "8@", "8@%fs:16(%rax)", "8@%zz",
		"8@(%rip)", "8@unknown(%rip)", "8@(%eax)", "8@4(%rax,%rsp)", "8@4(%rax,%rcx,3)", "8@$x$",
		"8@-", "8@(", "8@counter(%rax)", "8@counter@GOTPCREL(%rip)"} {
		n := textNote{args: text}
		if got := n.parse("amd64", variables); len(got) != 1 || got[0].Where != Nowhere ||
			got[0].Why == "" {
			t.Errorf("%s: %+v, want that it is nowhere, and why", text, got)
		}
	}
	for _, text := range []string{"8@x31", "8@[w0]", "8@[x0, x1, lsl 9]", "8@[x0",
		"8@[x0, #:lo12:foo]", "8@d0"} {
		n := textNote{args: text}
		if got := n.parse("arm64", variables); len(got) != 1 || got[0].Where != Nowhere ||
			got[0].Why == "" {
			t.Errorf("%s: %+v, want that it is nowhere, and why", text, got)
		}
	}
}

func FuzzNotes(f *testing.F) {
	f.Add(note("stapsdt", 3, stap(0x1139, 0x2000, 0x4010,
		"app\x00work__done\x00-4@%edi 8@-16(%rbp)\x00")))
	f.Add(note("prov", 1, []byte(
		"prov\x00\x00\x00\x00aaaabbbbccccddddeeee\x01\x00\x00\x00one\x00\x01int\x00\x01int\x00\x00")))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		eachNote(b, func(_ string, _ uint32, desc []byte) {
			known := map[[2]string]typedProbe{}
			parseProvider(desc, known)
			for _, p := range known {
				if len(p.types) != len(p.from) || len(p.types) > 255 {
					t.Fatal(p)
				}
			}
			for _, wide := range []bool{false, true} {
				n, ok := parseStapsdt(desc, wide, 1)
				if ok && (n.Name == "" || n.Provider == "" ||
					strings.IndexByte(n.Name+n.args, 0) >= 0) {
					t.Fatalf("%+v", n)
				}
				for _, arch := range []string{"amd64", "arm64"} {
					for _, a := range n.parse(arch, nil) {
						if a.Where == Nowhere != (a.Why != "") || a.Size != 1 && a.Size != 2 &&
							a.Size != 4 && a.Size != 8 {
							t.Fatalf("%+v", a)
						}
					}
				}
			}
			parseUSDT(desc, true)
		})
	})
}

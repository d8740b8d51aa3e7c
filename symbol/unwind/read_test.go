package unwind

import (
	"bufio"
	"debug/elf"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"culprit/heapbound"
)

// FuzzUnwind: whatever the bytes are, rows come in order, and name rules that there are.
func FuzzUnwind(f *testing.F) {
	for _, name := range []string{"/bin/true", "/lib/x86_64-linux-gnu/libc.so.6"} {
		if b, addr := sectionOf(name, ".eh_frame"); b != nil {
			f.Add(b[:min(len(b), 1<<12)], addr, false)
		}
	}
	f.Add([]byte{20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0},
		uint64(0), true)
	heapbound.Fuzz(f, func(t *testing.T, b []byte, addr uint64, debug bool) {
		table, _ := Parse(b, addr, debug)
		for i, r := range table.Rows {
			if int(r.Rule) >= len(table.Rules) {
				t.Fatalf("row %d has rule %d of %d", i, r.Rule, len(table.Rules))
			}
			if i > 0 && r.PC <= table.Rows[i-1].PC {
				t.Fatalf("row %d is out of order: %+v", i, table.Rows)
			}
		}
		if table.Rules[0] != (Rule{}) {
			t.Fatal("the first rule is one")
		}
		table.Find(addr)
	})
}

// sectionOf reads a section of a file; nil: there is no such file, or section.
func sectionOf(file, name string) ([]byte, uint64) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	s := f.Section(name)
	if s == nil {
		return nil, 0
	}
	b, err := s.Data()
	if err != nil {
		return nil, 0
	}
	return b, s.Addr
}

// TestUnwindAsBinutils: the rules of the programs and libraries here are those that binutils makes
// of them, at each row of theirs.
func TestUnwindAsBinutils(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	if _, err := exec.LookPath("readelf"); err != nil {
		t.Skip("needs: tool readelf")
	}
	tried, rows := 0, 0
	for _, name := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2",
		"/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/bin/bash"} {
		b, addr := sectionOf(name, ".eh_frame")
		if b == nil {
			continue
		}
		table, err := Parse(b, addr, false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		tried++
		rows += compareWithReadelf(t, name, table)
	}
	if tried == 0 {
		t.Skip("needs: tool ld.so (a C library for x86-64)")
	}
	t.Logf("%d rows of %d files", rows, tried)
}

// compareWithReadelf reads what readelf --debug-dump=frames-interp prints of a file:
//
//	00000088 0000000000000044 0000008c FDE cie=00000000 pc=0000000000001230..0000000000001295
//	   LOC           CFA      rbx   rbp   ra
//	0000000000001230 rsp+8    u     u     c-8
func compareWithReadelf(t *testing.T, name string, table *Table) (rows int) {
	cmd := exec.Command("readelf", "--debug-dump=frames-interp", "-W", name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var columns []string
	wrong, end := 0, uint64(0)
	var last uint64 // a location that is printed twice counts as it is the second time
	var pending func()
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := in.Text()
		words := strings.Fields(line)
		switch {
		case strings.Contains(line, " FDE ") || strings.Contains(line, " CIE ") || len(words) == 0:
			if pending != nil {
				pending()
				pending = nil
			}
			columns = nil
			if _, pcs, ok := strings.Cut(line, "pc="); ok {
				_, to, _ := strings.Cut(pcs, "..")
				end, _ = strconv.ParseUint(to, 16, 64)
				if strings.Contains(line, "pc=0000000000000000..") {
					end = 0
				}
			} else if len(words) > 0 {
				end = 0 // a CIE
			}
		case words[0] == "LOC":
			columns = words
		case columns != nil && end > 0:
			loc, err := strconv.ParseUint(words[0], 16, 64)
			if err != nil || loc >= end || len(words) != len(columns) {
				continue
			}
			if pending != nil && loc != last {
				pending()
			}
			last = loc
			of := map[string]string{}
			for i, c := range columns {
				of[c] = words[i]
			}
			pending = func() {
				rows++
				if got := table.Find(loc); !agrees(got, of) && wrong < 5 {
					wrong++
					t.Errorf("%s: at %#x: %+v, and binutils has %v", name, loc, got, of)
				}
			}
		}
	}
	if pending != nil {
		pending()
	}
	if err := cmd.Wait(); err != nil {
		t.Logf("readelf: %v", err) // it complains of parts that it does not know, and goes on
	}
	if rows == 0 {
		t.Errorf("%s: readelf prints no rows", name)
	}
	return rows
}

// agrees holds a rule against a row of readelf, whose "exp" is any expression.
func agrees(r Rule, of map[string]string) bool {
	if ra := of["ra"]; ra == "u" {
		return r.CFA == CFAEnd
	} else if ra == "exp" {
		return r.CFA == CFASignal || r.CFA == CFAOther
	}
	at := func(base string, off int32) string { return base + strconv.FormatInt(int64(off)+0, 10) }
	plus := func(base string, off int32) string {
		if off >= 0 {
			return base + "+" + strconv.Itoa(int(off))
		}
		return at(base, off)
	}
	switch cfa := of["CFA"]; {
	case r.CFA == CFASP:
		if cfa != plus("rsp", r.Offset) {
			return false
		}
	case r.CFA == CFABP:
		if cfa != plus("rbp", r.Offset) {
			return false
		}
	case r.CFA == CFAPLT, r.CFA == CFAAtBP, r.CFA == CFAAtSP:
		if cfa != "exp" {
			return false
		}
	case r.CFA == CFAOther:
		return cfa == "exp" || !strings.HasPrefix(cfa, "rsp") && !strings.HasPrefix(cfa, "rbp")
	default:
		return false
	}
	switch bp := of["rbp"]; bp {
	case "", "u", "s": // readelf prints u also where nothing is said
		return r.BP == BPSame || bp == "u" && r.BP == BPLost
	case "exp":
		return r.BP == BPAtBP || r.BP == BPLost
	default:
		return r.BP == BPAtCFA && bp == plus("c", r.BPOffset)
	}
}

package instruction

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"culprit/heapbound"
)

// Lengths of instructions of each kind, by the assembler that wrote them.
func TestLengthAMD64(t *testing.T) {
	for _, code := range []string{
		"55", "4889e5", "f30f1efa", "c3", "f3c3", "c21000", "90", "660f1f440000",
		"662e0f1f840000000000", "48b88877665544332211", "b801000000", "66b80100",
		"48c7c001000000",
		"66c70000ff", "c70424efbeadde", "f6c101", "f7c101000000", "66f7c10100", "f6d9", "f7d9",
		"488b0500000000", "488b842480000000", "488b04c500000000", "8b442408",
		"a0efcdab8967452301",
		"e800000000", "e900000000", "eb00", "7400", "0f8400000000", "0f05", "0fa2", "0fba e003",
		"0f38 00c1", "660f3a0fc108", "c5f877", "c5f96ec6", "c4e27d78c0", "c4e3fd00c04e",
		"62e27d287ac6",
		"62f37d083ec001", "c8100001", "6a08", "6844332211", "69c044332211", "6bc007", "41ff5424 08",
		"ff1500000000", "f0480fb110", "65488b042528000000", "8f00", "8fe97812c1",
		"8fe878c0c105", "d9c0", "cd80", "0f0b",
	} {
		code = strings.ReplaceAll(code, " ", "")
		b, err := hex.DecodeString(code)
		if err != nil {
			t.Fatal(code, err)
		}
		if got := LengthAMD64(append(bytes.Clone(b),
			bytes.Repeat([]byte{0x90}, 15)...)); got != len(b) {
			t.Errorf("%s: %d bytes, want %d", code, got, len(b))
		}
		for i := range b { // none is shorter than it is
			if got := LengthAMD64(b[:i]); got > i {
				t.Errorf("%x: %d bytes of %d", b[:i], got, i)
			}
		}
	}
	for _, code := range []string{"", "06", "66", "4848", "0f04", "62", "c5", "62ff",
		"6666666666666666666666666666666690"} {
		b, _ := hex.DecodeString(code)
		if got := LengthAMD64(b); got != 0 {
			t.Errorf("%s: %d bytes, want none", code, got)
		}
	}
}

func FuzzLengthAMD64(f *testing.F) {
	f.Add([]byte("\x62\xe2\x7d\x28\x7a\xc6"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if n := LengthAMD64(b); n < 0 || n > 15 || n > len(b) {
			t.Fatal(n)
		}
		starts, end := Starts(b, false)
		for i, at := range starts {
			if at >= uint64(len(b)) || i > 0 && at <= starts[i-1] {
				t.Fatal(starts)
			}
		}
		if end == len(b) && len(b) > 0 && len(starts) == 0 || end > len(b) {
			t.Fatal("nothing")
		}
	})
}

// The instructions of the C library begin where binutils finds them.
func TestInstructionsAsBinutils(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	if _, err := exec.LookPath("objdump"); err != nil {
		t.Skip("needs: tool objdump")
	}
	file := os.Getenv("CULPRIT_OBJDUMP")
	if file == "" {
		file = "/bin/sh"
	}
	cmd := exec.Command("objdump", "-d", "-w", "-j", ".text", file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // what it printed is looked at
	var last, n, wrong int
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		parts := strings.Split(lines.Text(), "\t")
		if len(parts) < 3 || strings.Contains(parts[2], "(bad)") ||
			strings.Contains(parts[2], "rex") {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(parts[1], " ", ""))
		if err != nil {
			continue
		}
		last++
		got := LengthAMD64(append(bytes.Clone(b), make([]byte, 15)...))
		if got != len(b) && parts[2] != "fwait" && !(b[0] == 0x9b && got == 1) &&
			!bytes.HasPrefix(b, []byte("\x66\x90")) {
			if wrong++; wrong < 20 {
				t.Errorf("%s %s: %s bytes", parts[1], parts[2], strconv.Itoa(got))
			}
		}
		n++
	}
	if n == 0 {
		t.Error(errors.New("objdump printed no instruction"))
	}
	t.Logf("%d instructions", n)
}

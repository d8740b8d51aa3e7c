package command

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/trace/probe"
)

// narrowProgram makes a 32-bit program that calls getpriority(0, 0x12345) so often, then mmap2()
// with nothing, then exit(3).
func narrowProgram(times int) []byte {
	code := []byte{0xbe} // mov esi, times
	code = binary.LittleEndian.AppendUint32(code, uint32(times))
	code = append(code,
		0xb8, 96, 0, 0, 0, // mov eax, 96
		0xbb, 0, 0, 0, 0, // mov ebx, 0
		0xb9, 0x45, 0x23, 1, 0, // mov ecx, 0x12345
		0xcd, 0x80, // int 0x80
		0x4e,       // dec esi
		0x75, 0xec, // jnz to the first mov eax
		// mov eax, 192; ebx = ecx = 0; int 0x80
		0xb8, 192, 0, 0, 0, 0x31, 0xdb, 0x31, 0xc9, 0xcd, 0x80,
		0xb8, 1, 0, 0, 0, 0xbb, 3, 0, 0, 0, 0xcd, 0x80) // mov eax, 1; mov ebx, 3; int 0x80
	const head, base = 52 + 32, 0x08048000
	le := binary.LittleEndian
	b := []byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, half := range []uint16{2, 3} { // EXEC, 386
		b = le.AppendUint16(b, half)
	}
	// version, entry, program headers, section headers, flags
	for _, word := range []uint32{1, base + head, 52, 0, 0} {
		b = le.AppendUint32(b, word)
	}
	for _, half := range []uint16{52, 32, 1, 0, 0, 0} {
		b = le.AppendUint16(b, half)
	}
	size := uint32(head + len(code))
	// LOAD, readable and executable
	for _, word := range []uint32{1, 0, base, base, size, size, 5, 0x1000} {
		b = le.AppendUint32(b, word)
	}
	return append(b, code...)
}

// System calls of 32-bit processes fire the probes of their names, with their arguments, and not
// those of the 64-bit calls with the same numbers.
func TestSessionKnows32BitProcesses(t *testing.T) {
	const calls = 100
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature 32-bit processes")
	}
	file := filepath.Join(t.TempDir(), "narrow")
	if err := os.WriteFile(file, narrowProgram(calls), 0o755); err != nil {
		t.Fatal(err)
	}
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	if !env.Has32BitCalls() {
		t.Skip("needs: kernel feature 32-bit processes")
	}
	run := func() {
		if err := exec.Command(file).Run(); err == nil || err.Error() != "exit status 3" {
			t.Errorf("the program says %v", err)
		}
	}
	for text, want := range map[string]string{
		// Many probes in one program, and their names.
		`syscall:::entry /execname == "narrow"/ { @[probefunc] = count(); } syscall:::return /execname == "narrow"/ { @r[probefunc, errno] = count(); }
			END { printa("%s %@d|", @); printa("%s %d %@d|", @r); }`: fmt.Sprintf("exit 1|mmap2 1|getpriority %d|execve 0 1|mmap2 22 1|getpriority 3 %d|", calls, calls),
		// One probe, by its number in both tables, with arguments.
		`syscall::getpriority:entry /execname == "narrow"/ { @[arg0, arg1, args[1]] = count(); } END { printa("%d %x %x %@d", @); }`: fmt.Sprintf("0 12345 12345 %d", calls),
		// One that only they have, and one that has the number of theirs.
		`syscall::mmap2:entry, syscall::gettimeofday:entry /execname == "narrow"/ { @[probefunc] = count(); } END { printa("%s %@d", @); }`: "mmap2 1",
		`syscall::write:entry /execname == "narrow"/ { n++; } END { printf("%d", n); }`:                                                     "0",
	} {
		_, out, errs := traced(t, program("%s", text), run)
		if strings.TrimSpace(out) != want || errs != "" {
			t.Errorf("%s\nprinted %q and %q, want %q", text, out, errs, want)
		}
	}
}

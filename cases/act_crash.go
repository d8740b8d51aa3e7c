package cases

import (
	"context"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// actRestart starts a program at a rate, and again when it has ended, as a supervisor does. The
// program lives for a while and then reads memory that it does not have, or ends with a code.
func actRestart(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	dir := f.String("dir", "", "where the program is written")
	name := f.String("name", "orders", "of the program")
	rate := f.Float64("rate", 1, "starts a second")
	lives := f.Duration("lives", 200*time.Millisecond, "how long it lives, below a second")
	code := f.Int("code", -1, "with which it ends; -1: by a signal")
	f.Parse(args)
	file := filepath.Join(*dir, *name)
	if err := os.WriteFile(file, crashingProgram(*lives, *code), 0o755); err != nil {
		return err
	}
	p := &pace{rate: *rate}
	t.ready()
	for {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		child, err := os.StartProcess(file, []string{*name}, &os.ProcAttr{})
		if err != nil {
			return err
		}
		state, err := child.Wait()
		if err != nil {
			return err
		}
		if state.Success() {
			t.done(0, 0)
		} else {
			t.errors.Add(1)
		}
	}
}

// needCrash returns why this machine cannot run crashingProgram.
func needCrash() string {
	if runtime.GOARCH != "amd64" {
		return "amd64: the program that crashes is written in machine code"
	}
	return ""
}

// crashingProgram returns an ELF file for amd64. A Go program would handle the signal, and the
// kernel would not write its message about it.
//
//	struct timespec t = {0, lives}; nanosleep(&t, 0);
//	code < 0 ? *(int *)0 = 0 : exit(code);
func crashingProgram(lives time.Duration, code int) []byte {
	const base, headers = 0x400000, 64 + 56
	le := binary.LittleEndian
	text := []byte{0x48, 0x83, 0xec, 0x10, // sub rsp, 16
		0x48, 0xc7, 0x04, 0x24, 0, 0, 0, 0, // mov qword [rsp], 0
		0x48, 0xc7, 0x44, 0x24, 0x08} // mov qword [rsp+8], lives
	text = le.AppendUint32(text, uint32(lives.Nanoseconds()))
	text = append(text, 0x48, 0x89, 0xe7, // mov rdi, rsp
		0x31, 0xf6, // xor esi, esi
		0xb8, 35, 0, 0, 0, // mov eax, SYS_nanosleep
		0x0f, 0x05) // syscall
	if code < 0 {
		text = append(text, 0x31, 0xc0, // xor eax, eax
			0x89, 0x00) // mov [rax], eax
	} else {
		text = append(text, 0xbf, byte(code), 0, 0, 0, // mov edi, code
			0xb8, 60, 0, 0, 0, // mov eax, SYS_exit
			0x0f, 0x05)
	}
	b := make([]byte, headers)
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], 2)            // ET_EXEC
	le.PutUint16(b[18:], 62)           // EM_X86_64
	le.PutUint32(b[20:], 1)            // version
	le.PutUint64(b[24:], base+headers) // entry
	le.PutUint64(b[32:], 64)           // program headers
	le.PutUint16(b[52:], 64)           // size of this header
	le.PutUint16(b[54:], 56)           // size of a program header
	le.PutUint16(b[56:], 1)            // how many
	p := b[64:]
	le.PutUint32(p, 1)     // PT_LOAD
	le.PutUint32(p[4:], 5) // readable, executable
	le.PutUint64(p[16:], base)
	le.PutUint64(p[24:], base)
	le.PutUint64(p[32:], uint64(headers+len(text)))
	le.PutUint64(p[40:], uint64(headers+len(text)))
	le.PutUint64(p[48:], 4096)
	return append(b, text...)
}

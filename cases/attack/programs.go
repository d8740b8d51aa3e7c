package main

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// processAttacks are programs and names of other users.
func processAttacks() []attack {
	return []attack{
		{"S7", "a local user", "a program with the build ID of root's", "each has its own names",
			twins},
		{"S12", "a local user", "a process name with terminal escapes", "escaped", terminal},
		{"S17", "a local user", "a symbol table of 1.8 GB, sparse",
			"3 s of profile take at most 10 s", sparseSymbols},
	}
}

// twinSource is a program whose function has a name of its own.
const twinSource = `package main

//go:noinline
func NAME(n int) (x int) {
	for i := range n {
		x += i * x
	}
	return x
}

func main() {
	for {
		NAME(1000000)
	}
}
`

// The functions of the two programs, of one length.
const (
	rootFunction   = "payroll_sum_of_victim"
	nobodyFunction = "totally_innocent_fnc_"
)

// buildTwins builds two programs with one build ID.
func buildTwins(dir string) error {
	for name, function := range map[string]string{"good": rootFunction, "evil": nobodyFunction} {
		source := filepath.Join(dir, name+".go")
		text := strings.ReplaceAll(twinSource, "NAME", function)
		if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
			return err
		}
		c := exec.Command("go", "build", "-ldflags",
			"-B 0x1122334455667788112233445566778811223344", "-o", filepath.Join(dir, "bin", name),
			source)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("build a program of the attack: %w: %s", err, out)
		}
	}
	return nil
}

func twins(b *bench) (string, error) {
	if err := b.helper(asNobody(filepath.Join(b.dir, "bin", "evil"))); err != nil {
		return "", err
	}
	time.Sleep(3 * time.Second) // its names are read first
	if err := b.helper(exec.Command(filepath.Join(b.dir, "bin", "good"))); err != nil {
		return "", err
	}
	time.Sleep(2 * time.Second)
	out := filepath.Join(b.dir, "twins.folded")
	if _, err := b.must(60*time.Second, "profile", "--for", "3s", "-o", out); err != nil {
		return "", err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return "", err
	}
	wrong, right := 0, 0
	for line := range strings.Lines(string(text)) {
		good, evil := strings.HasPrefix(line, "good;"), strings.HasPrefix(line, "evil;")
		switch {
		case good && strings.Contains(line, nobodyFunction),
			evil && strings.Contains(line, rootFunction):
			wrong++
		case good && strings.Contains(line, rootFunction),
			evil && strings.Contains(line, nobodyFunction):
			right++
		}
	}
	if wrong > 0 || right < 2 {
		return "", fmt.Errorf("%d stacks have the other program's function, %d their own", wrong,
			right)
	}
	return "both have their own functions", nil
}

// terminalName sets the terminal's title, if it reaches one.
const terminalName = "\x1b[31mR\x1b]0;P\x07"

func terminal(b *bench) (string, error) {
	if err := b.helper(actAsNobody("named", terminalName)); err != nil {
		return "", err
	}
	time.Sleep(1500 * time.Millisecond)
	seen := 0
	for _, args := range [][]string{
		{"trace", "-q", "-n",
			`profile-97 /pid != 0/ { printf("%s\n", execname); } tick-1s { exit(0); }`},
		{"trace", "-q", "-n", `profile-97 { @[execname] = count(); } tick-1s { exit(0); }`},
		{"ps", "1", "1"}, {"ps", "1", "1", "--csv"}, {"ps", "1", "1", "--json"}, {"profile",
			"--for", "1s"},
		{"stat", "process.cpu by process", "1", "1"},
		{"stat", "process.cpu by process", "--at", "-2s", "--dir", b.main.dir},
	} {
		out, said, _, err := b.tool(30*time.Second, args...)
		if err != nil {
			return "", err
		}
		if strings.ContainsAny(out+said, "\x1b\x07") {
			return "", fmt.Errorf("culprit %s prints the escape", args[0])
		}
		if strings.Contains(out, "[31mR") {
			seen++
		}
	}
	if seen < 3 {
		return "", fmt.Errorf("only %d outputs have the name: the attack has to be adapted", seen)
	}
	return fmt.Sprintf("escaped in %d outputs", seen), nil
}

// sparseELF writes a program of which the symbol table is larger than the file has data.
func sparseELF(from, to string, size int64) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return err
	}
	if f.Class != elf.ELFCLASS64 || f.ByteOrder != binary.LittleEndian {
		return errNotLooked
	}
	at := binary.LittleEndian.Uint64(b[40:]) // e_shoff
	found := false
	for i, s := range f.Sections {
		if s.Type == elf.SHT_SYMTAB {
			head := b[at+uint64(i)*64:]
			binary.LittleEndian.PutUint64(head[24:], uint64(len(b)+4095)&^4095) // sh_offset
			binary.LittleEndian.PutUint64(head[32:], uint64(size)/24*24)        // sh_size
			found = true
		}
	}
	if !found {
		return errors.New("the program has no symbol table")
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		return err
	}
	return os.Truncate(to, int64(len(b))+4096+size)
}

func sparseSymbols(b *bench) (string, error) {
	program := filepath.Join(b.dir, "bin", "sparse")
	if err := sparseELF("/proc/self/exe", program, 1800<<20); err != nil {
		return "", err
	}
	if err := b.helper(asNobody(program, "act", "named", "sparse")); err != nil {
		return "", err
	}
	time.Sleep(time.Second)
	began := time.Now()
	out := filepath.Join(b.dir, "sparse.folded")
	if _, err := b.must(60*time.Second, "profile", "--for", "3s", "-o", out); err != nil {
		return "", err
	}
	took := time.Since(began)
	text, err := os.ReadFile(out)
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(text), "sparse;") {
		return "", errors.New("it has no stack: the attack has to be adapted")
	}
	if took > 10*time.Second {
		return "", fmt.Errorf("it takes %v", took)
	}
	return fmt.Sprintf("it takes %.1f s", took.Seconds()), nil
}

// markup draws a profile with names that would be markup.
func markup(b *bench) (string, error) {
	const name = `<img src=x onerror=alert(1)>"'&</script><script>` + "\x1b]0;P\x07\u202e"
	in := filepath.Join(b.dir, "markup.folded")
	if err := os.WriteFile(in, []byte("main;"+name+";x 10\n"), 0o600); err != nil {
		return "", err
	}
	for _, kind := range []string{"svg", "html", "folded"} {
		out := filepath.Join(b.dir, "markup."+kind+"."+kind)
		if _, err := b.must(20*time.Second, "flame", in, "-o", out); err != nil {
			return "", err
		}
		text, err := os.ReadFile(out)
		if err != nil {
			return "", err
		}
		switch {
		case kind != "folded" && bytes.Contains(text, []byte("<img")),
			kind != "folded" && bytes.Contains(text, []byte("</script><script>")):
			return "", fmt.Errorf("the name is markup in %s", kind)
		case bytes.ContainsAny(text, "\x1b\x07\u202e"):
			return "", fmt.Errorf("an escape is in %s", kind)
		}
		if kind == "html" {
			if text, err = embedded(text); err != nil {
				return "", err
			}
		}
		at := bytes.Index(text, []byte("img src=x"))
		if at < 0 {
			return "", fmt.Errorf("the name is not in %s: the attack has to be adapted", kind)
		}
		if bytes.ContainsAny(text[at:min(at+len(name), len(text))], "\x1b\x07\u202e") {
			return "", fmt.Errorf("an escape is in the name in %s", kind)
		}
	}
	return "escaped", nil
}

// embedded returns the profile that is in a page in one file: gzip in base64.
func embedded(page []byte) ([]byte, error) {
	_, rest, ok := bytes.Cut(page, []byte(`<script type="text/plain" id="columns">`))
	data, _, closed := bytes.Cut(rest, []byte("</script>"))
	if !ok || !closed {
		return nil, errors.New("there is no profile in the page: the attack has to be adapted")
	}
	r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data)))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, 1<<20))
}

package gen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"unsafe"

	"culprit/lang/check"
	"culprit/lang/ir/irtest"

	"golang.org/x/sys/unix"
)

// The parameters of the table of sizes: the memory of the process at arg0, -x strsize and -x
// scratchsize.
const (
	sizesText    = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
	sizesStr     = 64
	sizesScratch = 40
)

// first returns the first n bytes of the process's memory, at most a string's length; negative n:
// none.
func first(n int64) string { return sizesText[:max(0, min(n, sizesStr-1))] }

// sizeCases are the routines of D that take a size, which is S in the text. most is the largest
// valid size. want is the record for 0 up to it, above for one more. refused is set when a constant
// above most is refused at compile time.
//
// table: by routine
var sizeCases = []struct {
	name, text string
	most       int64
	want       func(n int64) string
	above      string
	refused    bool
}{
	{
		"copyin",
		`trace(stringof(copyin(arg0, S))); trace(7)`,
		sizesScratch,
		func(n int64) string { return first(n) + ",7" },
		"NOSCRATCH:0x0",
		true,
	},
	{
		"copyin into a variable",
		`this->p = (char *)copyin(arg0, S); trace(stringof(this->p)); trace(strlen(stringof(this->p)))`,
		sizesScratch,
		func(n int64) string { return fmt.Sprintf("%s,%d", first(n), n) },
		"NOSCRATCH:0x0",
		true,
	},
	{
		"alloca",
		`this->p = (char *)alloca(S); trace(stringof(this->p)); trace(7)`,
		sizesScratch,
		func(int64) string { return ",7" },
		"NOSCRATCH:0x0",
		true,
	},
	{
		"alloca, filled",
		`this->p = (char *)alloca(S); bcopy("` + sizesText[:sizesStr-1] + `", this->p, S); trace(stringof(this->p))`,
		sizesScratch,
		first,
		"NOSCRATCH:0x0",
		true,
	},
	{
		"alloca, its last byte",
		`this->p = (char *)alloca(S); S > 0 ? (this->p[S - 1] = 'x') : 0; trace(S > 0 ? this->p[S - 1] : 'x')`,
		sizesScratch,
		func(int64) string { return "120" },
		"NOSCRATCH:0x0",
		true,
	},
	{
		"bcopy",
		`this->p = (char *)alloca(40); bcopy("` + sizesText[:sizesStr-1] + `", this->p, S); trace(stringof(this->p))`,
		sizesScratch,
		first,
		"BADSIZE:0x29",
		false,
	},
	{
		"bcopy from copyin",
		`this->p = (char *)copyin(arg0, 16); this->q = (char *)alloca(16); bcopy(this->p, this->q, S); trace(stringof(this->q))`,
		16,
		first,
		"BADSIZE:0x11",
		false,
	},
	{
		"bcopy to a variable",
		`bcopy("` + sizesText[:20] + `", &arr[0], S); trace(arr[0]); trace(arr[15])`,
		16,
		func(n int64) string {
			return fmt.Sprintf("%d,%d", 'a'*min(n, 1), 'p'*(n/16))
		},
		"BADSIZE:0x11",
		false,
	},
	{
		"copyinto",
		`this->p = (char *)alloca(40); copyinto(arg0, S, this->p); trace(stringof(this->p))`,
		sizesScratch,
		first,
		"BADSIZE:0x29",
		false,
	},
	{
		"copyinstr",
		`trace(copyinstr(arg0, S))`,
		sizesStr,
		func(n int64) string { return first(n - 1) },
		first(sizesStr),
		false,
	},
	{
		"copyinstr, its length",
		`this->s = copyinstr(arg0, S); trace(strlen(this->s))`,
		sizesStr,
		func(n int64) string { return fmt.Sprint(max(0, n-1)) },
		"63",
		false,
	},
	{
		"substr",
		`trace(substr("0123456789", 0, S))`,
		10,
		func(n int64) string { return "0123456789"[:n] },
		"0123456789",
		false,
	},
	{
		"substr of an address",
		`trace(substr(copyinstr(arg0), 2, S))`,
		sizesStr - 3,
		func(n int64) string { return sizesText[2 : 2+n] },
		sizesText[2 : sizesStr-1],
		false,
	},
	{
		"substr from",
		`trace(substr("0123456789", S))`,
		10,
		func(n int64) string { return "0123456789"[n:] },
		"",
		false,
	},
	{
		"index from",
		`trace(index("0123456789", "9", S))`,
		9,
		func(int64) string { return "9" },
		"-1",
		false,
	},
	{
		"rindex from",
		`trace(rindex("0123456789", "0", S))`,
		10,
		func(int64) string { return "0" },
		"0",
		false,
	},
	{
		"tracemem",
		`tracemem(copyin(arg0, 32), 32, S)`,
		32,
		func(n int64) string { return fmt.Sprintf("%x,%d", sizesText[:32], n) },
		fmt.Sprintf("%x,33", sizesText[:32]),
		false,
	},
	{
		"copyout",
		`arr[0] = 'x'; copyout(&big[0], arg1, S); trace(7)`,
		4 * 80,
		func(int64) string { return "7" },
		"BADSIZE:0x141",
		false,
	},
	{
		"copyout from alloca",
		`this->p = (char *)copyin(arg0, 16); copyout(this->p, arg1, S); trace(7)`,
		16,
		func(int64) string { return "7" },
		"BADSIZE:0x11",
		false,
	},
	{
		"copyoutstr",
		`copyoutstr("0123456789", arg1, S); trace(7)`,
		11,
		func(int64) string { return "7" },
		"7",
		false,
	},
	{
		"strtok of copyin",
		`this->s = strtok(stringof(copyin(arg0, S)), "c"); trace(this->s == NULL ? "none" : this->s)`,
		sizesScratch,
		func(n int64) string {
			if n == 0 {
				return "none"
			}
			return sizesText[:min(n, 2)]
		},
		"NOSCRATCH:0x0",
		true,
	},
	{
		"strjoin of copyin",
		`trace(strjoin("<", strjoin(stringof(copyin(arg0, S)), ">")))`,
		sizesScratch,
		func(n int64) string { return "<" + first(n) + ">" },
		"NOSCRATCH:0x0",
		true,
	},
	{
		"key of copyin",
		`a[stringof(copyin(arg0, S))] = 5; trace(a[""])`,
		sizesScratch,
		func(n int64) string {
			return fmt.Sprint(5 * max(0, 1-n))
		},
		"NOSCRATCH:0x0",
		true,
	},
}

// TestSizes checks that sizes of 0, 1, the largest and one more act the same as a constant and as a
// value known at run time, in the kernel and in irtest's machine.
func TestSizes(t *testing.T) {
	needRoot(t)
	for _, c := range sizeCases {
		for _, n := range []int64{0, 1, 7, 8, 9, c.most - 1, c.most, c.most + 1, -1,
			math.MaxInt64} {
			if n > 0 && n < c.most+1 && n > c.most {
				continue
			}
			text := func(size string) string {
				return `char arr[16]; char big[400]; BEGIN { ` + strings.ReplaceAll(
					c.text, "S", size,
				) + `; }`
			}
			t.Run(fmt.Sprintf("%s/%d", c.name, n), func(t *testing.T) {
				fixed := runSize(t, text(fmt.Sprint(n)), uint64(n))
				late := runSize(t, text("arg2"), uint64(n))
				want := c.above
				switch {
				case n < 0 || n > c.most+1:
					want = late // the kernel and the machine must agree, nothing else
				case n <= c.most:
					want = c.want(n)
				}
				if late != want {
					t.Errorf("known when it runs: got %s, want %s", late, want)
				}
				if c.refused && (n < 0 || n > c.most) {
					want = "refused"
				}
				if fixed != want {
					t.Errorf("constant: got %s, want %s", fixed, want)
				}
			})
		}
	}
}

// TestScratchOfFiring checks that the memory of alloca and copyin belongs to a firing: later
// clauses see it, and the next firing does not.
func TestScratchOfFiring(t *testing.T) {
	needRoot(t)
	for _, c := range []struct{ name, text, want string }{
		{"two clauses", `BEGIN { this->p = (char *)copyin(arg0, 8); } BEGIN { trace(stringof(this->p)); }`, "abcdefgh"},
		{"a size that is not known", `BEGIN { this->p = (char *)copyin(arg0, arg2); } BEGIN { trace(stringof(this->p)); }`, sizesText[:12]},
		{"a predicate in between", `BEGIN { this->p = (char *)copyin(arg0, 8); this->c = this->p[0]; } BEGIN /this->c == 'b'/ { trace(1); } BEGIN /this->c == 'a'/ { trace(this->p[1]); }`, "98"},
		{"a predicate that reads it", `BEGIN { this->p = (char *)copyin(arg0, 8); } BEGIN /this->p[2] == 'c'/ { trace(this->p[3]); }`, "100"},
		{"a clause that is left out", `BEGIN /arg2 == 1/ { this->p = (char *)copyin(arg0, 8); } BEGIN /this->p == NULL/ { trace(1); } BEGIN { this->q = (char *)copyin(arg0, 3); trace(stringof(this->q)); }`, "1 abc"},
		{"three clauses that allocate", `BEGIN { this->p = (char *)copyin(arg0, 8); this->p[0] = 'P'; } BEGIN { this->q = (char *)copyin(arg0, arg2); this->q[0] = 'Q'; } BEGIN { this->r = (char *)alloca(5); bcopy("rst", this->r, 4); }
			BEGIN { trace(stringof(this->p)); trace(stringof(this->q)); trace(stringof(this->r)); trace(this->q - this->p); }`, "Pbcdefgh,Q" + sizesText[1:12] + ",rst,16"},
		{"one that is written to behind", `BEGIN { this->p = (char *)alloca(16); } BEGIN { this->p[15] = 'x'; copyinto(arg0, 4, this->p); } BEGIN { trace(stringof(this->p)); trace(this->p[15]); }`, "abcd,120"},
		{"a fault in between", `BEGIN { this->p = (char *)copyin(arg0, 8); trace(*(int *)0); } BEGIN { trace(stringof(this->p)); }`, "BADADDR:0x0 abcdefgh"},
		{"a fault while it is copied", `BEGIN { this->p = (char *)copyin(16, 8); } BEGIN { trace(this->p == NULL); trace(stringof(copyin(arg0, 2))); }`, "BADADDR:0x10 1,ab"},
		{"as much as there is, twice", `BEGIN { this->p = (char *)copyin(arg0, arg2 + 28); } BEGIN { this->q = (char *)copyin(arg0, arg2 + 28); } BEGIN { trace(strlen(stringof(this->p))); trace(strlen(stringof(this->q))); }`, "40,40"},
		{"full pieces side by side", `BEGIN { this->p = (char *)copyin(arg0, 8); this->q = (char *)copyin(arg0 + 8, 8); trace(stringof(this->p)); trace(stringof(this->q)); }`, "abcdefgh,ijklmnop"},
		{"an address in copied memory", `BEGIN { trace(*(char *)copyin(*(uint64_t *)copyin(arg1, 8), 1)); trace(*(char *)copyin(*(uint64_t *)copyin(arg1, 8) + 2, 1)); }`, "97,99"},
		{"if and else", `BEGIN { if (arg2 == 12) { this->p = (char *)copyin(arg0, 5); } else { this->p = (char *)copyin(arg0, 6); } this->q = (char *)copyin(arg0, 2); } BEGIN { trace(stringof(this->p)); trace(stringof(this->q)); }`, "abcde,ab"},
		{"nothing, and again nothing", `BEGIN { this->p = (char *)alloca(0); this->q = alloca(0); this->n = arg2 - 12; trace(this->p == this->q); trace(this->p == alloca(this->n)); trace(stringof(this->p)); } BEGIN { this->p[0] = 1; }`, "1,1, BADADDR"},
		{"a piece of the firing before", `BEGIN /arg2 == 1/ { g = (char *)alloca(8); } BEGIN /g != NULL/ { trace(g[0]); } BEGIN { g = (char *)alloca(8); } BEGIN { trace(g[0]); }`, "0 BADADDR 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			firings := 1
			if strings.Contains(c.text, "/g ") {
				firings = 2
			}
			got := runText(t, c.text, 12, firings)
			for _, word := range strings.Fields(got) { // addresses of scratch memory differ
				if kind, _, ok := strings.Cut(word, ":0xffff"); ok {
					got = strings.ReplaceAll(got, word, kind)
				}
			}
			if got != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
			}
		})
	}
}

// runSize runs a text in the kernel and in irtest's machine, and returns what both recorded, or
// "refused".
func runSize(t *testing.T, text string, size uint64) string { return runText(t, text, size, 1) }

// runText runs all clauses of a text as one firing, a number of times.
func runText(t *testing.T, text string, size uint64, firings int) string {
	t.Helper()
	p, err := irtest.Compile(
		text,
		check.Options{
			StrSize:     sizesStr,
			Destructive: true,
			All:         map[string]string{"scratchsize": fmt.Sprint(sizesScratch)},
		},
	)
	if err != nil {
		if !strings.Contains(err.Error(), "-x scratchsize") {
			t.Error(err)
		}
		return "refused"
	}
	probe := &check.Probe{ID: 1, Provider: "dtrace", Name: "BEGIN", Site: check.SiteRun}
	r := load(t, p, kernelHere(), Limits{Ring: 1 << 16, Dynamic: 64, AggKeys: 64, Stacks: 64})
	r.state(Inactive)
	if strings.Contains(text, "copyout") {
		r.feature = "bpf_probe_write_user, which a locked down kernel refuses"
	}
	var all []int
	for i := range p.Clauses {
		all = append(all, i)
	}
	prog := r.program([]*check.Probe{probe}, all...)
	from, to := []byte(sizesText), make([]byte, 400)
	binary.NativeEndian.PutUint64(to, uint64(uintptr(unsafe.Pointer(&from[0]))))
	own := bytes.Clone(to)
	m := irtest.New(p)
	m.Probe = probe
	args := []uint64{
		uint64(uintptr(unsafe.Pointer(&from[0]))),
		uint64(uintptr(unsafe.Pointer(&to[0]))),
		size,
	}
	copy(m.Args[:], args)
	m.User = []irtest.Segment{{Address: args[0], Data: from}, {Address: args[1], Data: own}}
	locked(func() {
		m.PID, m.TID, m.Execname = uint32(os.Getpid()), uint32(unix.Gettid()), comm(t)
		for range firings {
			m.Fire(all...)
			r.run(prog, args...)
		}
	})
	if string(to) != string(own) {
		t.Errorf("the process has %q, want %q", to, own)
	}
	r.compare(m)
	if t.Failed() {
		t.Log(text, p)
	}
	return irtest.FormatRecords(p, m.Records)
}

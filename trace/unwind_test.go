package trace

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/symbol/unwind"
	"culprit/trace/probe"
	"culprit/trace/tracetest"
)

// A script that reads stacks of processes has a caveat with the version when the kernel is too old
// for unwind tables, and only then.
func TestFramePointersAreNoted(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	for _, test := range []struct {
		name, text, unwind string
		noted              bool
	}{
		{"user stack", "profile-9 { @[ustack()] = count(); }", "", true},
		{"kernel stack", "profile-9 { @[stack()] = count(); }", "", false},
		{"asked for", "profile-9 { @[ustack()] = count(); }", "fp", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := probe.NewEnv(kernel.Root{})
			defer e.Close() //nolint:errcheck // only read
			script := Script{Text: test.text}
			if test.unwind != "" {
				script.Options.All = map[string]string{"unwind": test.unwind}
			}
			c, err := Compile(script, e, gen.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := Load(c, e)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			said := strings.Join(s.Caveats(), "")
			if want := test.noted && tracetest.TablesMissing(t); strings.Contains(
				said, "frame pointers",
			) != want {
				t.Errorf(
					"said %q, on a kernel where tables are missing: %v", said,
					tracetest.TablesMissing(t),
				)
			}
			if want := feature.HashOnDemand.Since(kernel.Root{}); test.noted && want != "" &&
				!strings.Contains(said, "6.1 brought it") {
				t.Errorf("said %q: %s", said, want)
			}
		})
	}
}

// The verifier accepts programs that walk stacks, at each possible site.
func TestWalksAreTaken(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	if tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	for _, text := range []string{
		`profile-97 { @[ustack(127), ustackdepth, ucaller] = count(); }`,
		`profile-97 { self->n++; @[execname, ustack(3), stack(127), self->n] = quantize(self->n); }`,
		`syscall::getppid:entry, syscall::getppid:return { @[ustack(), stack()] = count(); }`,
		`sdt:sched::sched_switch { printf("%s", execname); ustack(); }`,
		`sched:::on-cpu, sched:::off-cpu { @[ustack()] = count(); }`,
		`io:::start { @[ustack()] = count(); }`,
	} {
		env := probe.NewEnv(kernel.Root{})
		c, err := Compile(
			Script{
				Text:    text,
				Mode:    syntax.Mode{Last: syntax.PartName},
				Options: check.Options{All: map[string]string{"unwind": "tables"}},
			},
			env,
			gen.Limits{},
		)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s, err := Load(c, env)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if s.symbols.unwinder == nil {
			t.Errorf("%s: walks no stacks by tables", text)
		}
		s.Close()
		env.Close()
	}
}

// A lookup in the blocks has the same result as in the table, for all page boundaries and numbers
// of rows.
func TestRowPages(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, density := range []int{1, 3, 40, 3000, 20000} {
		var rows []unwind.Row
		numbers := []uint16{0, 1, 2, 3, 4, 5, 6, 7}
		pc := uint32(random.IntN(5000))
		for range 3000 {
			rule := uint16(random.IntN(len(numbers)))
			if random.IntN(10) == 0 {
				rule = 0
			}
			rows = append(rows, unwind.Row{PC: pc, Rule: rule})
			pc += uint32(1 + random.IntN(density))
		}
		rows = append(rows, unwind.Row{PC: pc, Rule: 0})
		var blocks [][gen.RowsBlock]byte
		at := map[uint32]int{}
		pages := rowPages{emit: func(page uint32, block *[gen.RowsBlock]byte) error {
			if _, twice := at[page]; twice {
				t.Fatal("a page is there twice")
			}
			at[page] = len(blocks)
			blocks = append(blocks, *block)
			return nil
		}}
		for _, r := range rows {
			if err := pages.add(r.PC, numbers[r.Rule]); err != nil {
				t.Fatal(err)
			}
		}
		if err := pages.end(); err != nil {
			t.Fatal(err)
		}
		table := unwind.Table{Rows: rows}
		for i := range numbers {
			table.Rules = append(table.Rules, unwind.Rule{Offset: int32(i)})
		}
		for range 20000 {
			pc := random.Uint32N(pc + 5000)
			want := uint16(table.Find(uint64(pc)).Offset)
			if got, chained := rowAt(at, blocks, pc); got != want && chained < gen.RowsBlocks-1 {
				t.Fatalf("density %d, at %#x: rule %d, want %d", density, pc, got, want)
			}
		}
	}
}

// rowAt looks a place up as the programs do.
func rowAt(at map[uint32]int, blocks [][gen.RowsBlock]byte, pc uint32) (rule uint16, n int) {
	for n = range gen.RowsBlocks {
		i, ok := at[pc>>gen.RowsPageBits<<4|uint32(n)]
		if !ok {
			return 0, n
		}
		last := 0
		for j := range gen.RowsEntries {
			if uint32(binary.NativeEndian.Uint16(blocks[i][4*j:])) <= pc&(gen.RowsPage-1) {
				last = j
			}
		}
		if rule = binary.NativeEndian.Uint16(blocks[i][4*last+2:]); rule != gen.RowsChain {
			return rule, n
		}
	}
	return 0, gen.RowsBlocks
}

// Blocks contain all mappings, and each block ends with a chain to the next.
func TestCodeBlocks(t *testing.T) {
	for _, n := range []int{0, 1, gen.CodeEntries, gen.CodeEntries + 1, 200, 10000} {
		var entries [][gen.CodeEntrySize]byte
		for i := range n {
			entries = append(
				entries, codeEntry(uint64(100*i), uint64(100*i+50), 0, uint32(i), gen.CodeTable),
			)
		}
		blocks := codeBlocks(entries, 7, n == 1)
		if len(blocks) > gen.CodeBlocks || len(blocks) == 0 {
			t.Fatalf("%d blocks", len(blocks))
		}
		var starts []uint64
		for i, b := range blocks {
			if len(b) != gen.CodeBlock || binary.NativeEndian.Uint64(b) != 7 {
				t.Fatalf("block of %d bytes: % x", len(b), b[:16])
			}
			for at := gen.CodeHead; at < len(b); at += gen.CodeEntrySize {
				start := binary.NativeEndian.Uint64(b[at:])
				how := binary.NativeEndian.Uint32(b[at+28:])
				switch {
				case how == gen.CodeChain:
					if at+gen.CodeEntrySize != len(b) || i+1 == len(blocks) ||
						start != binary.NativeEndian.Uint64(blocks[i+1][gen.CodeHead:]) {
						t.Fatalf(
							"a way to the next block at %d of block %d of %d", at, i, len(blocks),
						)
					}
				case start != gen.CodeUnused:
					starts = append(starts, start)
				}
			}
		}
		if !slices.IsSorted(starts) || len(starts) != min(n, gen.CodeBlocks*(gen.CodeEntries-1)+1) {
			t.Errorf("%d of %d entries", len(starts), n)
		}
	}
}

// Each reason has a text of its own, and no address of a process represents one.
func TestStoppedFrames(t *testing.T) {
	seen := map[string]bool{}
	for s := gen.StopNotYet; s <= gen.StopHotSpot; s++ {
		text := stoppedFrame(s, "libfoo.so")
		if seen[text] || text == stoppedFrame(0, "") || strings.ContainsAny(text, ";\n") {
			t.Errorf("%d: %q", s, text)
		}
		seen[text] = true
		if e, ok := gen.EndingOf(s.Frame()); !ok || e != (gen.Ending{Stop: s}) {
			t.Errorf("%#x has the ending %+v, not %d", s.Frame(), e, s)
		}
		if e, ok := gen.EndingOf(s.Frame() | 127); !ok || e != (gen.Ending{Stop: s, Doubt: 127}) {
			t.Errorf("%#x with a doubt has the ending %+v, not %d", s.Frame(), e, s)
		}
	}
	for _, address := range []uint64{0, 0x400000, 1<<47 - 1, 1<<56 - 1, 0xffffffffff600000} {
		if isPseudo(address) {
			t.Errorf("%#x is an address", address)
		}
	}
}

// A process that was checked a moment ago stays in the map wanted, so that programs do not wake the
// unwinder, until it is checked again. A process that has called exec() is checked at once.
func TestWantedAgain(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	if tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	c, err := Compile(
		Script{
			Text:    `profile-97 /pid == -1/ { @[ustack()] = count(); }`,
			Mode:    syntax.Mode{Last: syntax.PartName},
			Options: check.Options{All: map[string]string{"unwind": "tables"}},
		},
		env,
		gen.Limits{},
	)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(c, env)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u := s.symbols.unwinder
	u.close() // it is looked by hand
	s.symbols.unwinder = nil
	pid := uint64(os.Getpid())
	there := func() bool {
		var mm uint64
		return u.wanted.Lookup(pid, &mm) == nil
	}
	for _, mm := range []uint64{1, 2} {
		for _, early := range []bool{false, true} {
			if err := u.wanted.Put(pid, mm); err != nil {
				t.Fatal(err)
			}
			if due := u.loadWanted(); due.IsZero() == early || there() != early {
				t.Errorf(
					"of %d, looked at a moment ago %v: due at %v, still wanted %v", mm, early, due,
					there(),
				)
			}
		}
		for due := u.loadWanted(); !due.IsZero(); due = u.loadWanted() {
			time.Sleep(time.Until(due))
		}
		if there() {
			t.Errorf("of %d: it is still wanted when it was looked at again", mm)
		}
	}
}

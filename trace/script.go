package trace

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/lang/syntax"
	"culprit/trace/probe"

	"github.com/cilium/ebpf/asm"
)

// A Script is the text of a D program, with its file name, mode and options.
type Script struct {
	Text    string
	File    string // name for messages; "": the text is of a command line
	Mode    syntax.Mode
	Options check.Options
	Origins Origins     // of the text
	Memory  *MemoryPool // of the maps in the kernel; nil: no limit
	// Tree is the text as another front end has translated it; nil: Compile parses Text
	Tree   *syntax.Program
	Loops  []Loop   // of Tree, by number from 1
	Locals []string // global arrays with the key 0, emptied when a clause with loops begins
}

// A Compiled is a compiled script. Nothing of it is in the kernel yet.
type Compiled struct {
	Program *check.Program
	IR      *ir.Program
	Units   []*Unit
	helpers []*gen.Code
	limits  gen.Limits
	memory  *MemoryPool // as Script.Memory
	kernel  gen.Kernel
	origins Origins
	loops   []Loop   // as Script.Loops
	locals  []string // as Script.Locals
}

// A Unit is one BPF program, the probes that it serves and the clauses that run there, in the order
// of the text.
type Unit struct {
	Probes  []*check.Probe
	Clauses []int
	// CPU is the only CPU on which the predicates of all clauses can be true, for probes of
	// profile; -1: any CPU.
	CPU  int
	Code *gen.Code
	// Later: the program runs in the same firing as that of the unit before, after it.
	Later bool
}

// Compile compiles a script. It fails with a syntax.Diagnostics when the text is wrong, and with
// another error when this kernel cannot run it.
func Compile(s Script, env *probe.Env, l gen.Limits) (*Compiled, error) {
	tree, ds := s.Tree, syntax.Diagnostics(nil)
	if tree == nil {
		if tree, ds = syntax.Parse(s.Text, s.Mode); len(ds) > 0 {
			return nil, s.Origins.locate(ds, "")
		}
	}
	var err error
	if s.Options.Namespace, err = env.PIDNamespace(); err != nil {
		return nil, err
	}
	p, ds := check.Check(s.File, s.Text, tree, env, s.Options)
	if len(ds) > 0 {
		return nil, s.Origins.locate(ds, s.File)
	}
	p.Warnings = s.Origins.locate(p.Warnings, s.File)
	low, ds := ir.Lower(p)
	if len(ds) > 0 {
		return nil, s.Origins.locate(ds, s.File)
	}
	if err := env.CheckProcessIDs(low, s.Options); err != nil {
		return nil, err
	}
	k, err := env.KernelFeatures(low)
	if err != nil {
		return nil, err
	}
	l, err = limits(p.Options.All, low, l)
	if err != nil {
		return nil, err
	}
	c := &Compiled{
		Program: p,
		IR:      low,
		Units:   divided(p, parts(p, units(p, returnUsers(low)))),
		limits:  l,
		memory:  s.Memory,
		kernel:  k,
		origins: s.Origins,
		loops:   s.Loops,
		locals:  s.Locals,
	}
	whole := gen.New(low, k)
	if c.helpers, err = whole.Helpers(); err != nil {
		return nil, err
	}
	for _, u := range c.Units {
		if u.Code, err = whole.Assemble(u.Probes, u.Clauses); err != nil {
			return nil, fmt.Errorf("make instructions for %v: %w", u.Probes[0], err)
		}
	}
	return c, nil
}

// units groups the probes that one program can serve: those of one site at which the same clauses
// run. Sites that together excludes have a program for each probe. results are the clauses that
// read arg1: their probes are also grouped by the width of the function's result.
func units(p *check.Program, results map[int]bool) []*Unit {
	at := map[*check.Probe]*Unit{}
	var all []*Unit
	run := func(c *check.Clause, probe *check.Probe) {
		u := at[probe]
		if u == nil {
			u = &Unit{Probes: []*check.Probe{probe}}
			at[probe] = u
			all = append(all, u)
		}
		u.Clauses = append(u.Clauses, c.Index) // a clause that names a probe twice runs twice
	}
	for _, c := range p.Clauses {
		for _, probe := range c.Probes {
			run(c, probe)
			for _, other := range probe.Also {
				run(c, other)
			}
		}
	}
	type group struct {
		site              check.Site
		clauses, operands string
		entry, narrow     bool
		result            result
	}
	first := map[group]*Unit{}
	var out []*Unit
	for _, u := range all {
		probe := u.Probes[0]
		u.CPU = -1
		if probe.Site == check.SitePerfEvent {
			u.CPU = onlyCPU(p, u.Clauses)
		}
		if !together(probe.Site) {
			out = append(out, u)
			continue
		}
		g := group{
			probe.Site,
			fmt.Sprint(u.Clauses),
			fmt.Sprint(probe.Operands),
			probe.AtEntry,
			probe.Narrow,
			resultOf(u, results),
		}
		if f := first[g]; f != nil {
			f.Probes = append(f.Probes, probe)
			continue
		}
		first[g] = u
		out = append(out, u)
	}
	return slices.Clip(out)
}

// A result is the size of the integer that a function returns; see check.Probe.Result. It is zero
// when no clause depends on it.
type result struct {
	size   int
	signed bool
}

// resultOf returns the result of a unit's first probe if one of its clauses reads it. It then sets
// the types of the probe.
func resultOf(u *Unit, results map[int]bool) result {
	probe := u.Probes[0]
	if probe.Site != check.SiteKretprobe && probe.Site != check.SiteUretprobe {
		return result{}
	}
	if !slices.ContainsFunc(u.Clauses, func(n int) bool { return results[n] }) {
		return result{}
	}
	probe.Arguments()
	size, signed := probe.Result()
	return result{size, signed}
}

// returnUsers returns the clauses, by number, that read arg1.
func returnUsers(p *ir.Program) map[int]bool {
	users := map[int]bool{}
	for i, f := range p.Clauses {
		for _, b := range f.Blocks {
			for j := range b.Steps {
				if s := &b.Steps[j]; s.Op == ir.OpBuiltin && s.Which == check.BuiltinArg &&
					s.N == 1 {
					users[i] = true
				}
			}
		}
	}
	return users
}

// onlyCPU returns the CPU on which alone the predicates of all clauses can be true, or -1.
func onlyCPU(p *check.Program, clauses []int) int {
	all := -1
	for i, n := range clauses {
		cpu, ok := asksCPU(p.Clauses[n].Predicate)
		if !ok || i > 0 && cpu != all {
			return -1
		}
		all = cpu
	}
	return all
}

// asksCPU returns the CPU on which alone a predicate can be true. Operands before the comparison
// must have no effect, because on other CPUs they are not evaluated.
func asksCPU(e check.Expr) (cpu int, ok bool) {
	b, ok := e.(*check.Binary)
	if !ok {
		return 0, false
	}
	switch b.Op {
	case syntax.LogAnd:
		if cpu, ok := asksCPU(b.X); ok {
			return cpu, true
		}
		if !idle(b.X) {
			return 0, false
		}
		return asksCPU(b.Y)
	case syntax.Eq:
		x, y := bare(b.X), bare(b.Y)
		if _, ok := x.(*check.Const); ok {
			x, y = y, x
		}
		v, ok := x.(*check.Builtin)
		n, known := y.(*check.Const)
		if ok && known && v.Which == check.BuiltinCPU && n.Value >= 0 && n.Value < 1<<20 {
			return int(n.Value), true
		}
	}
	return 0, false
}

// bare returns an expression without conversions that can't change the number of a CPU.
func bare(e check.Expr) check.Expr {
	for {
		c, ok := e.(*check.Convert)
		if !ok {
			return e
		}
		if t, ok := c.Type().(*check.Int); !ok || t.Bytes < 4 || t.Bits > 0 {
			return e
		}
		e = c.X
	}
}

// idle reports whether an expression certainly has no effect and can't fail.
func idle(e check.Expr) bool {
	switch e := e.(type) {
	case *check.Const, *check.Text, *check.Builtin:
		return true
	case *check.VarRef:
		return len(e.Keys) == 0
	case *check.Unary:
		return idle(e.X)
	case *check.Convert:
		return idle(e.X)
	case *check.Binary:
		return e.Op != syntax.Div && e.Op != syntax.Mod && idle(e.X) && idle(e.Y)
	}
	return false
}

// together reports whether one program can serve several probes of a site: the program can find out
// which of them fired.
func together(s check.Site) bool {
	switch s {
	case check.SiteSyscallEntry,
		check.SiteSyscallReturn,
		check.SiteKprobe,
		check.SiteKretprobe,
		check.SiteUprobe,
		check.SiteUretprobe:
		return true
	}
	return false
}

// Disassemble writes the instructions of each program, with the parts of the text that they were
// generated from.
func (c *Compiled) Disassemble(w io.Writer) {
	for _, u := range c.Units {
		names := make([]string, 0, 3)
		for _, p := range u.Probes[:min(3, len(u.Probes))] {
			names = append(names, p.String())
		}
		if n := len(u.Probes) - len(names); n > 0 {
			names = append(names, fmt.Sprintf("and %d more", n))
		}
		fmt.Fprintf(
			w, "%s: %v, %d instructions\n%v\n", strings.Join(names, ", "), u.Code.Type,
			len(u.Code.Instructions), c.explained(u.Code),
		)
	}
}

// explained returns the instructions of a program, each part of the text as a comment before the
// instructions that were generated from it.
func (c *Compiled) explained(code *gen.Code) asm.Instructions {
	out := slices.Clone(code.Instructions)
	places := code.Origins
	before := ""
	for i := out.Iterate(); i.Next(); {
		for len(places) > 0 && places[0].First <= int(i.Offset) {
			from := min(int(places[0].At.From), len(c.Program.Text))
			to := min(int(places[0].At.To), len(c.Program.Text))
			places = places[1:]
			if from >= to {
				continue
			}
			text := strings.Join(strings.Fields(c.Program.Text[from:to]), " ")
			if short := []rune(text); len(short) > 100 {
				text = string(short[:100]) + "..."
			}
			line := fmt.Sprintf("%d: %s", 1+strings.Count(c.Program.Text[:from], "\n"), text)
			if line != before {
				before = line
				*i.Ins = i.Ins.WithSource(asm.Comment(line))
			}
		}
	}
	return out
}

// limits returns l with the sizes that options set. As in dtrace, a row of an aggregation takes its
// key, its value and 8 bytes; an element of an associative array its key, its value and 4 bytes; a
// string in a key the greatest length of a string. It fails when not even one fits.
func limits(options map[string]string, p *ir.Program, l gen.Limits) (gen.Limits, error) {
	setEntries := func(name, what string, entry int, set *int) error {
		value, given := options[name]
		if !given || entry == 0 {
			return nil
		}
		n := check.OptionBytes(value)
		if n < int64(entry) {
			return fmt.Errorf(
				"-x %s=%s is too small for one %s: the least is %d", name, value, what, entry,
			)
		}
		*set = int(min(n/int64(entry), 1<<26))
		return nil
	}
	// With another policy bufsize is what this process keeps.
	if n := check.OptionBytes(options["bufsize"]); n > 0 && newBufferPolicy(options) == nil {
		l.Ring = os.Getpagesize()
		for l.Ring < int(n) && l.Ring < 1<<30 {
			l.Ring *= 2
		}
	}
	entry := 0
	for _, a := range p.Aggs {
		entry = max(entry, keySize(p, a.Key)+a.Value+8)
	}
	if err := setEntries("aggsize", "aggregation", entry, &l.AggKeys); err != nil {
		return l, err
	}
	entry = 0
	for _, t := range p.Tables {
		entry = max(entry, keySize(p, t.Key)+t.Value+4)
	}
	return l, setEntries("dynvarsize", "element of an associative array", entry, &l.Dynamic)
}

// keySize returns the bytes of a key as dtrace counts them.
func keySize(p *ir.Program, t ir.Tuple) int {
	n := t.Size
	for _, f := range t.Fields {
		if _, ok := f.Type.(check.StringType); ok {
			n += max(0, p.StrSize-f.Size)
		}
	}
	return n
}

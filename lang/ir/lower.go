package ir

import (
	"fmt"
	"maps"
	"slices"

	"culprit/lang/check"
	"culprit/lang/syntax"
)

// The codes of programs that are valid but can't be run.
const (
	// TooLarge is a program whose variables, keys or records do not fit in the memory of a firing.
	//
	// Example: BEGIN { tracemem(0, 1000000); }
	TooLarge syntax.Code = "too-large"

	// NotYet is a part of D that culprit parses and can't run.
	//
	// Example: #pragma D option destructive\nBEGIN { panic(); }
	NotYet syntax.Code = "not-yet"
)

// maxScratch is the highest memory of a firing in bytes. A value of a per-CPU map has at most 32
// KiB, the limit of the kernel's per-CPU allocator (PCPU_MIN_UNIT_SIZE).
const maxScratch = 32 << 10

// Limits of variables in bytes: the kernel's limits of a map's value and of task storage.
const (
	maxGlobals = 1 << 20
	maxSelf    = 60 << 10
	maxValue   = 60 << 10
)

// Lower converts a checked program to steps. It returns a Program or diagnostics, never both.
func Lower(src *check.Program) (*Program, syntax.Diagnostics) {
	l := &lowerer{src: src, p: &Program{Source: src}, literals: map[string]int{}}
	l.layout()
	if len(l.wrong) > 0 {
		return nil, l.wrong
	}
	for _, c := range src.Clauses {
		l.p.Clauses = append(l.p.Clauses, l.clause(c))
	}
	l.finish()
	if len(l.wrong) > 0 {
		return nil, l.wrong
	}
	return l.p, nil
}

// A lowerer is the state shared by all clauses.
type lowerer struct {
	src        *check.Program
	p          *Program
	literals   map[string]int // text, truncated to strsize, to its offset
	wrong      syntax.Diagnostics
	uses       []scratchUse // by clause
	allocaMost int          // highest number of bytes that alloca and copyin allocate in a firing
	zeroes     int          // 1 + the offset of a literal of zeroes; 0: none yet
	free       [][]Step     // memory of finished clauses, reused for steps of the next
}

func (l *lowerer) complain(at syntax.Span, code syntax.Code, format string, args ...any) {
	for _, d := range l.wrong {
		if d.Code == code && d.Pos == int(at.From) {
			return
		}
	}
	l.wrong = append(
		l.wrong,
		syntax.Diagnose(l.src.File, l.src.Text, at, code, fmt.Sprintf(format, args...), ""),
	)
}

func round(n, to int) int { return (n + to - 1) / to * to }

// layout assigns locations to variables and aggregations.
func (l *lowerer) layout() {
	p := l.p
	strsize := int(l.src.Options.StrSize)
	if strsize == 0 {
		strsize = int(min(check.OptionBytes(l.src.Options.All["strsize"]), maxScratch))
	}
	if strsize <= 0 {
		strsize = 256
	}
	if strsize > maxScratch/2 {
		l.complain(
			syntax.Span{}, TooLarge,
			"strings of %d bytes do not fit into the %d bytes of memory that a firing may have",
			strsize, maxScratch,
		)
		strsize = 256
	}
	p.StrSize, p.StrMost = round(strsize, 8), strsize-1
	bounds := l.bounds()
	for _, v := range l.src.Vars {
		for len(p.Places) <= v.ID {
			p.Places = append(p.Places, VarStorage{Table: -1})
		}
		most, what := [...]int{check.Global: maxGlobals, check.Self: maxSelf,
			check.This: maxScratch}[v.Home], "variable"
		if len(v.Keys) > 0 {
			most, what = maxValue, "element"
		}
		if v.Type.Size() > int64(most) {
			l.complain(
				v.At, TooLarge, "a %s of %d bytes is too large: %d at most", what, v.Type.Size(),
				most,
			)
			continue
		}
		if len(v.Keys) > 0 {
			key := l.tuple(v.Keys, bounds.vars[v.ID], v.Home == check.Self)
			p.Places[v.ID].Table = len(p.Tables)
			p.Tables = append(
				p.Tables, AssocArray{Var: v, Key: key, Value: round(l.storage(v.Type), 8)},
			)
			continue
		}
		var base Base
		var end *int
		switch v.Home {
		case check.Global:
			base, end = InGlobals, &p.Globals
		case check.Self:
			base, end = InSelf, &p.Self
		default:
			base, end = InScratch, &p.This
		}
		size := l.storage(v.Type)
		off := round(*end, l.align(v.Type))
		p.Places[v.ID].Mem = Mem{Base: base, Reg: None, Off: off}
		*end = off + size
	}
	p.Globals, p.Self, p.This = round(p.Globals, 8), round(p.Self, 8), round(p.This, 8)
	if l.calls(check.SubStrtok) {
		p.strtok = p.This
		p.This += 8 + p.StrSize
	}
	l.layoutScratch()
	p.Scratch = max(p.This, p.Alloca.Off+p.Alloca.Size)
	if len(l.wrong) > 0 {
		return
	}
	for _, a := range l.src.Aggs {
		for len(p.Aggs) <= a.ID {
			p.Aggs = append(p.Aggs, Agg{})
		}
		agg := Agg{Agg: a, Key: l.tuple(a.Keys, bounds.aggs[a.ID], false)}
		switch a.Func {
		case check.Count:
			agg.Value = 8
		case check.Stddev:
			agg.Value = 32
		case check.Quantize, check.Lquantize, check.Llquantize:
			agg.Dist = agg.buckets()
			agg.Buckets = agg.Dist.Len()
			agg.Sparse = len(a.Keys) > 0
			agg.Value = 8
			if !agg.Sparse {
				agg.Value = 8 * agg.Buckets
				if agg.Marked = l.weighted(a); agg.Marked {
					agg.Value += 8
				}
			}
		default:
			agg.Value = 16
		}
		p.Aggs[a.ID] = agg
	}
}

// calls reports whether any clause calls one of these.
func (l *lowerer) calls(subs ...check.Subroutine) (found bool) {
	for _, src := range l.src.Clauses {
		walk(src, func(e check.Expr) {
			if call, ok := e.(*check.Call); ok && slices.Contains(subs, call.Func) {
				found = true
			}
		}, nil)
	}
	return found
}

// weighted reports whether an aggregation is used with a weight.
func (l *lowerer) weighted(a *check.Aggregation) (found bool) {
	for _, src := range l.src.Clauses {
		walk(src, func(check.Expr) {}, func(s check.Stmt) {
			if add, ok := s.(*check.Aggregate); ok && add.Agg == a && add.Weight != nil {
				found = true
			}
		})
	}
	return found
}

// storage returns the size of a variable of a type in bytes.
func (l *lowerer) storage(t check.Type) int {
	if isString(t) {
		return 8 + l.p.StrSize
	}
	return max(1, int(t.Size()))
}

func (l *lowerer) align(t check.Type) int {
	switch t := t.(type) {
	case *check.Int:
		return max(1, int(t.Bytes))
	case check.StackType:
		return 4
	}
	return 8
}

// fieldSize returns the size of a value of a type in a tuple or a record, in bytes; bound is that
// of strings.
func (l *lowerer) fieldSize(t check.Type, bound int) int {
	switch t := t.(type) {
	case check.StringType:
		return bound
	case check.SymbolType:
		if t.Of == check.User {
			return 16
		}
		return 8
	case *check.Array, *check.Struct:
		if !l.src.Options.Bpftrace {
			return 8 // their address
		}
	case *check.Func: // its address
		return 8
	}
	return int(t.Size())
}

// tuple lays values out in sequence.
func (l *lowerer) tuple(types []check.Type, bounds []int, thread bool) Tuple {
	t := Tuple{Thread: thread}
	if thread {
		t.Size = 8
	}
	for i, ty := range types {
		f := TupleField{Type: ty, Size: l.fieldSize(ty, l.p.StrSize)}
		if isString(ty) && bounds != nil && bounds[i] > 0 {
			f.Size = bounds[i]
		}
		f.Offset = round(t.Size, l.align(ty))
		t.Size = f.Offset + f.Size
		t.Fields = append(t.Fields, f)
	}
	t.Size = round(t.Size, 8)
	return t
}

// literal returns the offset of a text, truncated to strsize, and its size in bytes.
func (l *lowerer) literal(text string) (off, size int) {
	text = text[:min(len(text), l.p.StrMost)]
	size = round(len(text)+1, 8)
	off, ok := l.literals[text]
	if !ok {
		off = len(l.p.Literals)
		l.literals[text] = off
		l.p.Literals = append(l.p.Literals, text...)
		l.p.Literals = append(l.p.Literals, make([]byte, size-len(text))...)
	}
	return off, size
}

// finish pads the memories for steps that read StrSize bytes, and checks their sizes.
func (l *lowerer) finish() {
	p := l.p
	if len(p.Literals) > 0 {
		p.Literals = append(p.Literals, make([]byte, p.StrSize)...)
	}
	p.Scratch = round(p.Scratch, 8) + p.StrSize
	for _, m := range []struct {
		size, most int
		whose      string
	}{{p.Globals, maxGlobals, "the variables"}, {p.Self, maxSelf, "the variables of a thread"},
		{p.Scratch, maxScratch, "a firing"}} {
		if m.size > m.most && len(l.wrong) == 0 {
			l.complain(
				syntax.Span{}, TooLarge, "%s would take %d bytes of memory, and may have %d",
				m.whose, m.size, m.most,
			)
		}
	}
}

// A block is a Block under construction.
type block struct {
	steps []Step
	at    int // its final number; -1: not placed yet
}

// A clause is a Func under construction.
type clause struct {
	*lowerer
	src   *check.Clause
	regs  int
	cur   *block
	order []*block
	ids   []*block // by the temporary numbers in To and Else
	late  []func() // blocks to place after all others: faults
	exit  *block

	top   int         // end of the scratch memory in use
	known map[any]num // values known to be in registers, by builtin
	// parts of variables known to be in registers: few, because each store searches all of them
	held   []holding
	group  *group        // of records; nil: none is open
	spec   *check.Record // the speculate() that later records belong to; nil: none
	specID num

	use scratchUse
	// bytes of Program.Alloca allocated so far, if the clause's allocations have fixed places
	given int
}

// A builtin is a variable of D that is constant within a clause.
type builtin struct {
	which check.BuiltinVar
	n     int
}

// A piece is a part of a variable of the script.
type piece struct {
	base      Base
	off, size int
}

// A holding is a piece whose value is in a register.
type holding struct {
	piece
	in num
}

func (l *lowerer) clause(src *check.Clause) *Func {
	c := &clause{
		lowerer: l,
		src:     src,
		known:   map[any]num{},
		top:     max(l.p.This, l.p.Alloca.Off+l.p.Alloca.Size),
		use:     l.uses[src.Index],
	}
	c.exit = c.block()
	c.cur = c.block()
	c.place(c.cur)
	c.prepare()
	if src.Predicate != nil {
		body := c.block()
		c.branch(src.Predicate, body, c.exit)
		c.place(body)
	}
	if c.p.CountsCosts() {
		c.step(blank(OpRan))
	}
	if src.Default || len(src.Body) == 0 {
		c.stmts([]check.Stmt{&check.Record{Action: check.Action{Kind: check.DefaultTrace}}})
	} else {
		c.stmts(src.Body)
	}
	c.jump(c.exit)
	for len(c.late) > 0 {
		late := c.late
		c.late = nil
		for _, f := range late {
			f()
		}
	}
	c.place(c.exit)
	c.step(blank(OpEnd))
	return c.done()
}

func (c *clause) block() *block {
	b := &block{at: len(c.ids)}
	c.ids = append(c.ids, b)
	return b
}

// place puts b next in the order of blocks.
func (c *clause) place(b *block) {
	c.order = append(c.order, b)
	c.cur = b
}

// blank returns a step without registers.
func blank(op Opcode) Step {
	return Step{
		Op:    op,
		Dst:   None,
		A:     None,
		B:     None,
		C:     None,
		Mem:   nowhere,
		From:  nowhere,
		From2: nowhere,
	}
}

// nowhere is the Mem of a step without memory.
//
// table: a constant that Go can't express
var nowhere = Mem{Reg: None, Off: -1}

func (c *clause) step(s Step) {
	switch s.Op {
	case OpStore, OpZero, OpCopy, OpReadMem, OpReadStr, OpBuiltinStr:
		c.forget(s.Mem, s.Size)
	case OpCall:
		if s.Size > 0 {
			c.forget(s.Mem, s.Size)
		}
		if s.Sub == check.SubBcopy {
			c.forgetAll()
		}
	case OpPoke:
		c.forgetAll()
	}
	if n := len(c.free); cap(c.cur.steps) == 0 && n > 0 {
		c.cur.steps, c.free = c.free[n-1], c.free[:n-1]
	}
	c.cur.steps = append(c.cur.steps, s)
}

// pieceOf returns the piece at a place; !ok: it is not in a variable with a fixed place.
func (c *clause) pieceOf(m Mem, size int) (p piece, ok bool) {
	ok = m.Base == InGlobals || m.Base == InSelf || m.Base == InScratch && m.Off < c.p.This
	return piece{m.Base, m.Off, size}, ok
}

// forget drops holdings that overlap a piece of memory that is written.
func (c *clause) forget(m Mem, size int) {
	if _, ok := c.pieceOf(m, size); !ok {
		return
	}
	c.held = slices.DeleteFunc(c.held, func(h holding) bool {
		return h.base == m.Base && h.off < m.Off+size && m.Off < h.off+h.size
	})
}

// forgetAll drops all holdings.
func (c *clause) forgetAll() { c.held = c.held[:0] }

func (c *clause) jump(to *block) {
	s := blank(OpJump)
	s.To = to.at
	c.step(s)
}

func (c *clause) reg() Reg {
	c.regs++
	return Reg(c.regs - 1)
}

// alloc returns scratch memory at a multiple of 8. Resetting top frees it.
func (c *clause) alloc(size int) Mem {
	off := round(c.top, 8)
	c.top = off + round(size, 8)
	c.p.Scratch = max(c.p.Scratch, c.top)
	return scratch(off)
}

func scratch(off int) Mem { return Mem{Base: InScratch, Reg: None, Off: off} }

func (m Mem) plus(n int) Mem { m.Off += n; return m }

// fault makes a block that ends the clause with a fault.
func (c *clause) fault(f Fault, a Reg, imm int64, at syntax.Span) *block {
	b := c.block()
	c.late = append(c.late, func() {
		c.place(b)
		s := blank(OpFault)
		s.Fault, s.A, s.Imm, s.At = f, a, imm, at
		c.step(s)
	})
	return b
}

// failIf faults if a cond imm; addr is the address in the fault.
func (c *clause) failIf(
	a Reg, cond Cond, imm int64, signed bool, f Fault, addr Reg, at syntax.Span,
) {
	// BPF divides by 0 without a fault, and reads of an invalid address are 0.
	if c.lowerer.src.Options.Bpftrace && (f == FaultBadAddr || f == FaultDivZero) {
		return
	}
	next := c.block()
	s := blank(OpBranch)
	s.A, s.Cond, s.Imm, s.Signed, s.To, s.Else, s.At = a, cond, imm, signed, c.fault(
		f, addr, 0, at,
	).at, next.at, at
	c.step(s)
	c.place(next)
}

// apart runs f, whose code may be skipped at run time: facts learned inside are valid only inside,
// and facts that it changes are unknown afterwards.
func (c *clause) apart(f func()) {
	before, held := maps.Clone(c.known), slices.Clone(c.held)
	spec, id := c.spec, c.specID
	f()
	c.spec, c.specID = spec, id
	inside := c.known
	c.known = before
	for k, v := range before {
		if inside[k] != v {
			delete(before, k)
		}
	}
	now := c.held
	c.held = slices.DeleteFunc(held, func(h holding) bool { return !slices.Contains(now, h) })
}

// prepare reads the time at the start of a clause that uses it more than once.
func (c *clause) prepare() {
	timestamps := 0
	walk(c.src, func(e check.Expr) {
		if b, ok := e.(*check.Builtin); ok && b.Which == check.BuiltinTimestamp {
			timestamps++
		}
	}, nil)
	if timestamps > 1 {
		c.builtin(check.BuiltinTimestamp, 0)
	}
}

func (c *clause) zero(m Mem, size int) {
	s := blank(OpZero)
	s.Mem, s.Size = m, size
	c.step(s)
}

// stmts lowers a list of statements. Their common record is written after the last of them, so
// that, as in dtrace, a fault before leaves no record.
func (c *clause) stmts(list []check.Stmt) {
	if len(list) == 0 {
		return
	}
	top := c.top
	for i, s := range list {
		if c.group != nil && breaks(s) {
			c.emit()
		}
		if c.group == nil && recorded(s) {
			c.begin(list[i:], &list[0])
		}
		inner := c.top
		c.stmt(s)
		c.top = inner
	}
	if c.group != nil && c.group.list == &list[0] {
		c.emit()
	}
	c.top = top
}

func (c *clause) stmt(s check.Stmt) {
	switch s := s.(type) {
	case *check.Do:
		c.drop(s.X)
	case *check.If:
		c.conditional(s)
	case *check.Aggregate:
		c.aggregate(s)
	case *check.Forget:
		c.onElement(OpDelete, c.element(s.X))
	case *check.Record:
		if recorded(s) {
			c.record(s)
		} else {
			c.act(s)
		}
	}
}

// conditional lowers an If. Branches of constant conditions are lowered, too: check has not removed
// them.
func (c *clause) conditional(s *check.If) {
	then, els, end := c.block(), c.block(), c.block()
	c.branch(s.Cond, then, els)
	c.place(then)
	c.apart(func() { c.stmts(s.Then) })
	c.jump(end)
	c.place(els)
	c.apart(func() { c.stmts(s.Else) })
	c.jump(end)
	c.place(end)
}

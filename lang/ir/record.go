package ir

import (
	"culprit/lang/check"
	"culprit/lang/format"
)

// A group is a record under construction.
type group struct {
	list   *check.Stmt // the start of the list of statements that the group is in
	number int
	mem    Mem
	next   int // next action
	end    int // bytes written so far
}

// recorded reports whether a statement is an action of user space, which a record requests.
func recorded(s check.Stmt) bool {
	r, ok := s.(*check.Record)
	if !ok {
		return false
	}
	switch r.Action.Kind {
	case check.Raise, check.Stop, check.Chill, check.Panic, check.Copyout, check.Copyoutstr:
		return false
	}
	return true
}

// breaks reports whether a statement ends the group before it, because it records data only
// sometimes.
func breaks(s check.Stmt) bool {
	i, ok := s.(*check.If)
	if !ok {
		return false
	}
	found := false
	walkStmts(
		[]check.Stmt{i}, func(check.Expr) {}, func(s check.Stmt) { found = found || recorded(s) },
	)
	return found
}

// begin lays out the record of the actions at the start of a list, up to one that breaks the group.
func (c *clause) begin(list []check.Stmt, first *check.Stmt) {
	r := Record{Clause: c.src.Index, Size: RecordHeader}
	var again []check.Stmt
	if c.spec != nil {
		again = append(again, c.spec)
	}
	for _, s := range append(again, list...) {
		if breaks(s) {
			break
		}
		if !recorded(s) {
			continue
		}
		a := RecordAction{Action: s.(*check.Record)}
		add := func(f TupleField, align int) {
			f.Offset = round(r.Size, align)
			r.Size = f.Offset + f.Size
			a.Fields = append(a.Fields, f)
		}
		switch a.Action.Action.Kind {
		case check.Stack:
			add(TupleField{Type: check.StackType{Of: check.Kernel}, Size: 4}, 4)
		case check.UStack:
			add(TupleField{Type: check.StackType{Of: check.User}, Size: 4}, 4)
		}
		for _, e := range a.Action.Args {
			if isConstant(e) {
				a.Fields = append(a.Fields, TupleField{Type: e.Type()})
				continue
			}
			f := TupleField{Type: e.Type(), Size: c.fieldSize(e.Type(), 0)}
			if isString(e.Type()) {
				f.Size = c.bound(c.src, e)
			}
			add(f, c.align(e.Type()))
		}
		r.Actions = append(r.Actions, a)
	}
	r.Size = round(r.Size, 8)
	c.group = &group{list: first, number: len(c.p.Records), mem: c.alloc(r.Size), end: RecordHeader}
	c.p.Records = append(c.p.Records, r)
	if c.spec != nil {
		c.speculate(r.Actions[0])
		c.group.next++
	}
}

// speculate writes the speculation that the following actions belong to.
func (c *clause) speculate(a RecordAction) {
	g := c.group
	if f := a.Fields[0]; f.Size > 0 {
		c.gap(g.mem, g.end, f.Offset)
		c.storeMem(g.mem.plus(f.Offset), f.Size, c.specID)
		g.end = f.Offset + f.Size
	}
}

// isConstant reports whether an argument is constant.
func isConstant(e check.Expr) bool {
	switch e := e.(type) {
	case *check.Text:
		return true
	case *check.Const:
		return !isString(e.T)
	}
	return false
}

// record writes the fields of the next action of the group.
func (c *clause) record(s *check.Record) {
	g := c.group
	a := c.p.Records[g.number].Actions[g.next]
	g.next++
	fields := a.Fields
	write := func(f TupleField, put func(Mem)) {
		c.gap(g.mem, g.end, f.Offset)
		put(g.mem.plus(f.Offset))
		g.end = f.Offset + f.Size
	}
	switch s.Action.Kind {
	case check.Speculate:
		c.spec, c.specID = s, c.value(s.Args[0])
		c.speculate(a)
		next := c.block() // speculate(0) ends the clause
		b := blank(OpBranch)
		b.A, b.Cond, b.To, b.Else, b.At = c.inReg(c.specID), Eq, c.exit.at, next.at, s.Place()
		c.step(b)
		c.place(next)
		return
	case check.Commit, check.Discard:
		n := c.value(s.Args[0]) // 0 means none, which is no fault
		r := c.inReg(n)
		c.failIf(r, Gt, int64(c.p.Speculations()), false, FaultIllOp, r, s.Place())
		if f := fields[0]; f.Size > 0 {
			write(f, func(m Mem) { c.storeMem(m, f.Size, n) })
		}
		return
	case check.Stack, check.UStack:
		write(fields[0], func(m Mem) {
			c.storeMem(m, 4, num{reg: c.stack(fields[0].Type, s.Action.Frames)})
		})
		fields = fields[1:]
	}
	for i, f := range fields {
		e := s.Args[i]
		if f.Size > 0 {
			write(f, func(m Mem) { c.put(m, f, e, true) })
		} else if !isConstant(e) {
			c.drop(e)
		}
	}
	if s.Action.Kind == check.Exit {
		c.step(blank(OpExit))
	}
}

// emit writes the record of the group.
func (c *clause) emit() {
	g := c.group
	c.group = nil
	c.gap(g.mem, g.end, c.p.Records[g.number].Size)
	s := blank(OpEmit)
	s.N, s.Mem, s.Size = g.number, g.mem, c.p.Records[g.number].Size
	c.step(s)
}

// MostCopyout returns the highest number of bytes of one copyout; more is FaultBadSize.
func (p *Program) MostCopyout() int { return 4 * max(p.StrSize, 80) }

// act lowers an action that the kernel itself performs.
func (c *clause) act(e *check.Record) {
	s := blank(OpAct)
	s.N, s.At = int(e.Action.Kind), e.Place()
	switch e.Action.Kind {
	case check.Raise, check.Chill:
		s.A = c.regOf(e.Args[0])
	case check.Copyout:
		s.A, s.B = c.addressArg(e.Args[0]), c.regOf(e.Args[1])
		n := c.value(e.Args[2])
		s.C, s.Space = c.inReg(n), c.spaceOf(e.Args[0])
		c.failIf(s.C, Gt, int64(c.p.MostCopyout()), false, FaultBadSize, s.C, s.At)
		if s.Space == check.Own {
			c.guard(s.A, 0, s.C, 0, s.At)
		}
	case check.Copyoutstr:
		c.stringArg(&s.From, e.Args[0])
		s.B, s.C = c.regOf(e.Args[1]), c.inReg(known(int64(c.p.StrSize)))
		if len(e.Args) > 2 {
			s.C = c.regOf(e.Args[2])
		}
	case check.Stop:
	default:
		c.complain(e.Place(), NotYet, "%s() is not supported", actionName(e.Action.Kind))
		return
	}
	c.step(s)
}

// stack returns the number of a stack.
func (c *clause) stack(t check.Type, frames int) Reg {
	s := blank(OpStack)
	s.N = frames
	if st, ok := t.(check.StackType); ok {
		s.Space = st.Of
	}
	return c.out(s)
}

// aggregate adds to an aggregation.
func (c *clause) aggregate(e *check.Aggregate) {
	agg := &c.p.Aggs[e.Agg.ID]
	more := 0
	if agg.Key.Size > 0 {
		more = 8
	}
	s := blank(OpAggregate)
	s.N = e.Agg.ID
	s.Mem = c.key(agg.Key, e.Keys, more, true)
	if e.Value != nil && e.Agg.Func != check.Count {
		s.A = c.regOf(e.Value)
	}
	if e.Weight != nil {
		s.B = c.regOf(e.Weight)
	}
	s.At = e.Place()
	c.step(s)
}

// buckets returns the buckets of a distribution. lang/check has validated its parameters.
func (a *Agg) buckets() (b format.Buckets) {
	s := a.Agg.Steps
	switch a.Agg.Func {
	case check.Lquantize:
		b, _ = format.LquantizeBuckets(s[0], s[1], s[2])
	case check.Llquantize:
		b, _ = format.LlquantizeBuckets(s[0], s[1], s[2], s[3])
	}
	return b
}

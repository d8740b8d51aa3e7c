// Package irtest interprets the steps of lang/ir on a simulated machine. Tests use it to check the
// meaning of D programs, and to compare lang/gen's instructions, run by the kernel, with it. Only
// tests import it.
package irtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"

	"culprit/lang/check"
	"culprit/lang/ir"
)

// A Machine is a program's memory, and the world that the program can observe. When only Program is
// set, it is a machine without memory, on CPU 0, in thread 0. It is not safe for concurrent use.
type Machine struct {
	Program *ir.Program

	// The world.
	Probe        *check.Probe
	CPU          uint32
	PID, TID     uint32
	Now          uint64 // timestamp, vtimestamp and walltimestamp
	Args         [10]uint64
	Execname     string
	Numbers      map[check.BuiltinVar]uint64 // the other builtins
	Texts        map[check.BuiltinVar]string
	Kernel, User []Segment // readable memory by address

	// Limits; 0: none.
	MaxElements, MaxKeys, MaxRecords int

	// Results of the program.
	Globals []byte
	Self    map[uint32][]byte // by thread
	Tables  []map[string]*Element
	// by key, for Sparse ones with the bucket; values in the layout of ir.Agg
	Aggs    []map[string][]byte
	Records [][]byte
	Drops   [ir.DropCount]uint64
	Exited  bool
	Acts    []check.ActionKind // actions performed in the kernel

	scratch, literals []byte
	regs              []uint64
	stacks            map[string]uint64
	random            uint64
	speculations      uint64
	next              uint64 // address of the next element's value
	values            []*Element
}

// A Segment is readable memory.
type Segment struct {
	Address uint64
	Data    []byte
}

// An Element is the value of an element with its address.
type Element struct {
	Address uint64
	Data    []byte
}

// The addresses of the machine's memories.
const (
	scratchAt  = 0xffffc00000010000
	globalsAt  = 0xffffc00000110000
	selfAt     = 0xffffc00000210000
	literalsAt = 0xffffc00000310000
	valuesAt   = 0xffffc00000410000
)

// New returns a machine for a program.
func New(p *ir.Program) *Machine {
	return &Machine{
		Program: p, Globals: make([]byte, p.Globals), Self: map[uint32][]byte{},
		Tables: make([]map[string]*Element, len(p.Tables)),
		Aggs:   make([]map[string][]byte, len(p.Aggs)), Numbers: map[check.BuiltinVar]uint64{},
		literals: p.Literals, stacks: map[string]uint64{}, next: valuesAt,
	}
}

// Fire runs clauses, in order, as one firing of the machine's Probe; clauses after one that exits
// are skipped. Scratch memory is filled with ones, the worst case.
func (m *Machine) Fire(clauses ...int) {
	exited := m.Exited
	m.scratch = bytes.Repeat([]byte{0xff}, m.Program.Scratch)
	clear(m.scratch[:m.Program.This])
	for _, n := range clauses {
		if m.run(n); m.Exited && !exited {
			return
		}
	}
}

// fault is the reason why a clause is aborted.
type fault struct {
	kind  ir.Fault
	value uint64
}

func (m *Machine) run(clause int) {
	f := m.Program.Clauses[clause]
	m.regs = bytesOf[uint64](f.Regs, 0xdeadbeefdeadbeef)
	for at := 0; ; {
		next := -1
		for i := range f.Blocks[at].Steps {
			s := &f.Blocks[at].Steps[i]
			to, failed := m.step(s)
			if failed != nil {
				m.fault(clause, s, *failed)
				return
			}
			if s.Op == ir.OpEnd {
				return
			}
			if to >= 0 {
				next = to
			}
		}
		if next <= at {
			panic(fmt.Sprintf("clause %d: block %d leads to %d", clause, at, next))
		}
		at = next
	}
}

// fault writes the record of a fault.
func (m *Machine) fault(clause int, s *ir.Step, f fault) {
	rec := make([]byte, ir.RecordHeader+24)
	binary.NativeEndian.PutUint32(rec[24:], uint32(clause))
	binary.NativeEndian.PutUint32(rec[28:], uint32(f.kind))
	binary.NativeEndian.PutUint32(rec[32:], uint32(s.At.From))
	binary.NativeEndian.PutUint32(rec[36:], uint32(s.At.To))
	binary.NativeEndian.PutUint64(rec[40:], f.value)
	m.emit(ir.FaultRecord, rec)
}

func (m *Machine) emit(number uint32, rec []byte) {
	if m.MaxRecords > 0 && len(m.Records) >= m.MaxRecords {
		m.Drops[ir.DropRecord]++
		return
	}
	binary.NativeEndian.PutUint64(rec[0:], m.Now)
	binary.NativeEndian.PutUint32(rec[8:], number)
	if m.Probe != nil {
		binary.NativeEndian.PutUint32(rec[12:], m.Probe.ID)
	}
	binary.NativeEndian.PutUint32(rec[16:], m.CPU)
	binary.NativeEndian.PutUint32(rec[20:], m.TID)
	m.Records = append(m.Records, rec)
}

func (m *Machine) second(s *ir.Step) uint64 {
	if s.B == ir.None {
		return uint64(s.Imm)
	}
	return m.regs[s.B]
}

func holds(a, b uint64, cond ir.Cond, signed bool) bool {
	if signed {
		a, b = a^1<<63, b^1<<63
	}
	switch cond {
	case ir.Eq:
		return a == b
	case ir.Ne:
		return a != b
	case ir.Lt:
		return a < b
	case ir.Le:
		return a <= b
	case ir.Gt:
		return a > b
	}
	return a >= b
}

// step executes one step: to is the next block, or -1 for the next step.
func (m *Machine) step(s *ir.Step) (to int, failed *fault) {
	to = -1
	bad := func(address uint64) (int, *fault) { return -1, &fault{ir.FaultBadAddr, address} }
	badMember := func(of, address uint64) (int, *fault) {
		if of == 0 {
			return bad(0)
		}
		return bad(address)
	}
	var a, b uint64
	if s.A != ir.None {
		a = m.regs[s.A]
	}
	switch s.Op {
	case ir.OpAdd,
		ir.OpSub,
		ir.OpMul,
		ir.OpDiv,
		ir.OpMod,
		ir.OpAnd,
		ir.OpOr,
		ir.OpXor,
		ir.OpShl,
		ir.OpShr,
		ir.OpSet,
		ir.OpBranch:
		b = m.second(s)
	}
	give := func(v uint64) { m.regs[s.Dst] = v }
	switch s.Op {
	case ir.OpConst:
		give(uint64(s.Imm))
	case ir.OpMove:
		give(a)
	case ir.OpAdd:
		give(a + b)
	case ir.OpSub:
		give(a - b)
	case ir.OpMul:
		give(a * b)
	case ir.OpDiv:
		if s.Signed {
			give(uint64(int64(a) / int64(b)))
		} else {
			give(a / b)
		}
	case ir.OpMod:
		if s.Signed {
			give(uint64(int64(a) % int64(b)))
		} else {
			give(a % b)
		}
	case ir.OpAnd:
		give(a & b)
	case ir.OpOr:
		give(a | b)
	case ir.OpXor:
		give(a ^ b)
	case ir.OpShl:
		give(a << (b & 63))
	case ir.OpShr:
		if s.Signed {
			give(uint64(int64(a) >> (b & 63)))
		} else {
			give(a >> (b & 63))
		}
	case ir.OpNeg:
		give(-a)
	case ir.OpNot:
		give(^a)
	case ir.OpExtend:
		give(extend(a, s.Size, s.Signed))
	case ir.OpSet:
		give(0)
		if holds(a, b, s.Cond, s.Signed) {
			give(1)
		}
	case ir.OpJump:
		to = s.To
	case ir.OpBranch:
		to = s.Else
		if holds(a, b, s.Cond, s.Signed) {
			to = s.To
		}
	case ir.OpLoad:
		give(number(m.at(s.Mem, s.Size), s.Signed))
	case ir.OpStore:
		v := uint64(s.Imm)
		if s.A != ir.None {
			v = a
		}
		putNumber(m.at(s.Mem, s.Size), v)
	case ir.OpZero:
		clear(m.at(s.Mem, s.Size))
	case ir.OpCopy:
		copy(m.at(s.Mem, s.Size), m.at(s.From, s.Size))
	case ir.OpAddress:
		give(m.address(s.Mem))
	case ir.OpRead:
		address := a + uint64(s.Imm)
		got := m.read(s.Space, address, s.Size)
		if len(got) < s.Size {
			return badMember(a, address)
		}
		give(number(got, s.Signed))
	case ir.OpReadMem:
		n := s.Size
		if s.B != ir.None {
			n = int(m.regs[s.B])
		}
		got := m.read(s.Space, a, n)
		if len(got) < n {
			return bad(a)
		}
		got = bytes.Clone(got)
		dst := m.at(s.Mem, s.Size)
		clear(dst)
		copy(dst, got)
	case ir.OpReadStr:
		text, ok := m.text(s.Space, a, int(s.Imm))
		if !ok {
			return bad(a)
		}
		setText(m.at(s.Mem, s.Size), text, int(s.Imm))
		give(uint64(len(text)))
	case ir.OpPoke:
		address := a + uint64(s.Imm)
		dst := m.poke(address, s.Size)
		if dst == nil {
			return badMember(a, address)
		}
		putNumber(dst, m.regs[s.B])
	case ir.OpBuiltin:
		give(m.builtin(s))
	case ir.OpBuiltinStr:
		setText(m.at(s.Mem, s.Size), m.builtinText(s.Which), s.Size-1)
	case ir.OpStrCompare:
		x, y := m.textAt(s.Mem), m.textAt(s.From)
		if x != y && x[:min(len(x), s.Size)] == y[:min(len(y), s.Size)] {
			panic(fmt.Sprintf("%q and %q do not differ within %d bytes", x, y, s.Size))
		}
		give(uint64(int64(bytes.Compare([]byte(x), []byte(y)))))
	case ir.OpCall:
		return -1, m.call(s)
	case ir.OpFind:
		give(0)
		if v := m.Tables[s.N][string(m.at(s.Mem, m.Program.Tables[s.N].Key.Size))]; v != nil {
			give(v.Address)
		}
	case ir.OpMake:
		give(m.make(s.N, string(m.at(s.Mem, m.Program.Tables[s.N].Key.Size))))
	case ir.OpDelete:
		delete(m.Tables[s.N], string(m.at(s.Mem, m.Program.Tables[s.N].Key.Size)))
	case ir.OpAggregate:
		m.aggregate(s)
	case ir.OpStack:
		give(m.stack(s))
	case ir.OpEmit:
		m.emit(uint32(s.N), bytes.Clone(m.at(s.Mem, m.Program.Records[s.N].Size)))
	case ir.OpExit:
		m.Exited = true
	case ir.OpSpeculate:
		m.speculations++
		give(m.speculations)
	case ir.OpAct:
		m.Acts = append(m.Acts, check.ActionKind(s.N))
		return to, m.act(s)
	case ir.OpFault:
		v := uint64(s.Imm)
		if s.A != ir.None {
			v = a
		}
		return -1, &fault{s.Fault, v}
	case ir.OpEnd, ir.OpRan:
	default:
		panic(fmt.Sprintf("step %d", s.Op))
	}
	return to, nil
}

// text reads a string of at most most bytes; it also ends at the end of the memory, if its start is
// readable.
func (m *Machine) text(space check.Space, address uint64, most int) (string, bool) {
	got := m.read(space, address, most)
	if got == nil && most > 0 {
		return "", false
	}
	if i := bytes.IndexByte(got, 0); i >= 0 {
		got = got[:i]
	}
	return string(got), true
}

// textAt returns the string at a place.
func (m *Machine) textAt(p ir.Mem) string {
	b := m.at(p, m.Program.StrSize)
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		panic(fmt.Sprintf("the string at %v has no end", p))
	}
	return string(b[:i])
}

func setText(dst []byte, s string, most int) {
	clear(dst)
	copy(dst[:most], s)
}

// make returns the address of an element's value.
func (m *Machine) make(table int, key string) uint64 {
	if m.Tables[table] == nil {
		m.Tables[table] = map[string]*Element{}
	}
	t := m.Tables[table]
	if v := t[key]; v != nil {
		return v.Address
	}
	if m.MaxElements > 0 && len(t) >= m.MaxElements {
		m.Drops[ir.DropDynamic]++
		return 0
	}
	v := &Element{Address: m.next, Data: make([]byte, m.Program.Tables[table].Value)}
	m.next += uint64(len(v.Data)+63) &^ 63
	m.values = append(m.values, v)
	t[key] = v
	return v.Address
}

// stack returns the number of the stack; the machine has one per thread and space.
func (m *Machine) stack(s *ir.Step) uint64 {
	key := fmt.Sprint(s.Space, m.TID, s.N)
	if m.stacks[key] == 0 {
		m.stacks[key] = uint64(len(m.stacks) + 1)
	}
	return m.stacks[key]
}

func (m *Machine) builtin(s *ir.Step) uint64 {
	switch s.Which {
	case check.BuiltinArg, check.BuiltinSite:
		return m.Args[s.N]
	case check.BuiltinCPU:
		return uint64(m.CPU)
	case check.BuiltinPID:
		return uint64(m.PID)
	case check.BuiltinTID:
		return uint64(m.TID)
	case check.BuiltinTimestamp, check.BuiltinVTimestamp, check.BuiltinWallTimestamp:
		m.Now++ // each reading differs, so that a second one shows
		return m.Now
	case check.BuiltinID:
		return uint64(m.Probe.ID)
	}
	return m.Numbers[s.Which]
}

func (m *Machine) builtinText(which check.BuiltinVar) string {
	switch which {
	case check.BuiltinExecname:
		return m.Execname
	case check.BuiltinProbeProv:
		return m.Probe.Provider
	case check.BuiltinProbeMod:
		return m.Probe.Module
	case check.BuiltinProbeFunc:
		return m.Probe.Function
	case check.BuiltinProbeName:
		return m.Probe.Name
	}
	return m.Texts[which]
}

// aggregate adds to an aggregation.
func (m *Machine) aggregate(s *ir.Step) {
	a := &m.Program.Aggs[s.N]
	key := string(m.at(s.Mem, a.Key.Size))
	weight := uint64(1)
	if s.B != ir.None {
		weight = m.regs[s.B]
	}
	var v uint64
	if s.A != ir.None {
		v = m.regs[s.A]
	}
	bucket := 0
	switch a.Agg.Func {
	case check.Quantize, check.Lquantize, check.Llquantize:
		bucket = a.Dist.Bucket(int64(v))
		if a.Sparse {
			key += string(binary.NativeEndian.AppendUint64(nil, uint64(bucket)))
			bucket = 0
		}
	}
	if m.Aggs[s.N] == nil {
		m.Aggs[s.N] = map[string][]byte{}
	}
	value := m.Aggs[s.N][key]
	if value == nil {
		if m.MaxKeys > 0 && len(m.Aggs[s.N]) >= m.MaxKeys {
			m.Drops[ir.DropAgg]++
			return
		}
		value = make([]byte, a.Value)
		m.Aggs[s.N][key] = value
	}
	word := func(n int) uint64 { return binary.NativeEndian.Uint64(value[8*n:]) }
	put := func(n int, v uint64) { binary.NativeEndian.PutUint64(value[8*n:], v) }
	switch a.Agg.Func {
	case check.Count:
		put(0, word(0)+weight)
	case check.Sum, check.Avg:
		put(0, word(0)+v)
		put(1, word(1)+1)
	case check.Min, check.Max:
		cond := ir.Lt
		if a.Agg.Func == check.Max {
			cond = ir.Gt
		}
		if word(1) == 0 || holds(v, word(0), cond, a.Agg.Signed) {
			put(0, v)
		}
		put(1, word(1)+1)
	case check.Stddev:
		put(0, word(0)+1)
		put(1, word(1)+v)
		abs := v
		if int64(v) < 0 {
			abs = -v
		}
		high, low := bits.Mul64(abs, abs)
		low, carry := bits.Add64(word(2), low, 0)
		high, _ = bits.Add64(word(3), high, carry)
		put(2, low)
		put(3, high)
	default:
		if a.Marked {
			put(0, word(0)+1)
			bucket++
		}
		put(bucket, word(bucket)+weight)
	}
}

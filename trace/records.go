package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/ir"

	"golang.org/x/sys/unix"
)

// A Record is the output of one execution of a clause: its actions and the values of their
// arguments.
type Record struct {
	Time    uint64 // ns of the monotonic clock
	CPU     int
	Thread  int
	Probe   *check.Probe
	Clause  *check.Clause
	Actions []ir.RecordAction

	session *Session
	raw     []byte
	most    int // the greatest length of a string, in bytes
}

// A Value is one value that a program wrote: an integer, a string, or bytes without conversion.
type Value struct {
	Type  check.Type
	Int   int64 // an integer with its sign, an address, or the number of a stack
	Bytes []byte
	Pid   uint32 // the process of a user address
}

// Value returns the value of argument arg of an action. Constants are not in the record; they are
// taken from the text.
func (r *Record) Value(action, arg int) Value {
	a := r.Actions[action]
	if f := a.Fields[arg]; f.Size > 0 {
		return FieldOf(r.raw, f)
	}
	switch x := a.Action.Args[arg].(type) {
	case *check.Const:
		return Value{Type: x.T, Int: x.Value}
	case *check.Text:
		return Value{Type: x.T, Bytes: []byte(x.Value[:min(len(x.Value), r.most)])}
	default:
		panic(fmt.Sprintf("argument %d of %T is in no record and is no constant", arg, x))
	}
}

// FieldOf reads one value of a tuple.
func FieldOf(raw []byte, f ir.TupleField) Value {
	b := raw[f.Offset : f.Offset+f.Size]
	v := Value{Type: f.Type}
	switch t := f.Type.(type) {
	case check.StringType:
		if end := bytes.IndexByte(b, 0); end >= 0 {
			b = b[:end]
		}
		v.Bytes = b
	case *check.Bytes, *check.Struct, *check.Array:
		v.Bytes = b
	case check.SymbolType:
		v.Int = number(b[:8], false)
		if len(b) >= 16 {
			v.Pid = binary.NativeEndian.Uint32(b[8:])
		}
	default:
		signed := false
		if i, ok := t.(*check.Int); ok {
			signed = i.Signed
		}
		v.Int = number(b, signed)
	}
	return v
}

func number(b []byte, signed bool) int64 {
	switch len(b) {
	case 1:
		if signed {
			return int64(int8(b[0]))
		}
		return int64(b[0])
	case 2:
		n := binary.NativeEndian.Uint16(b)
		if signed {
			return int64(int16(n))
		}
		return int64(n)
	case 4:
		n := binary.NativeEndian.Uint32(b)
		if signed {
			return int64(int32(n))
		}
		return int64(n)
	}
	return int64(binary.NativeEndian.Uint64(b))
}

// A FaultReport describes why a clause ended early.
type FaultReport struct {
	Time    uint64 // ns of the monotonic clock
	CPU     int
	Probe   *check.Probe
	Clause  *check.Clause
	From    int // the first byte of the faulty expression in the text
	To      int // behind its last byte
	Fault   ir.Fault
	Address uint64
	// Ends is true when the script ends: the clause ended before its exit(), and no other probe can
	// fire.
	Ends bool
}

// A delivery decodes records for a listener, and keeps the status of exit().
type delivery struct {
	session *Session
	to      Listener
	status  int
	held    *speculations // nil: nothing speculated yet
	alone   bool          // only BEGIN, END and ERROR have clauses, and Run waits for no process
	// over is true when an ERROR clause called exit(). Records that other clauses wrote after the
	// fault are then not reported.
	over bool
}

func (t *delivery) deliver(raw []byte) error {
	s := t.session
	n := binary.NativeEndian.Uint32(raw[8:])
	probe := s.programs.probes[binary.NativeEndian.Uint32(raw[12:])]
	if probe == nil {
		return fmt.Errorf(
			"a record names probe %d, which the script does not have",
			binary.NativeEndian.Uint32(raw[12:]),
		)
	}
	if n == ir.FaultRecord {
		return t.deliverFault(probe, raw)
	}
	if t.over && probe.Name != "END" && !isError(probe) {
		return nil
	}
	if int(n) >= len(s.script.IR.Records) {
		return fmt.Errorf("a record has kind %d; the script has %d", n, len(s.script.IR.Records))
	}
	kind := &s.script.IR.Records[n]
	if len(raw) < kind.Size {
		return fmt.Errorf("a record of kind %d has %d bytes, not %d", n, len(raw), kind.Size)
	}
	r := &Record{
		Time:    binary.NativeEndian.Uint64(raw),
		CPU:     int(binary.NativeEndian.Uint32(raw[16:])),
		Thread:  int(binary.NativeEndian.Uint32(raw[20:])),
		Probe:   probe,
		Clause:  s.script.Program.Clauses[kind.Clause],
		Actions: kind.Actions,
		session: s,
		raw:     raw,
		most:    s.script.IR.StrMost,
	}
	for i, a := range r.Actions {
		if a.Action.Action.Kind == check.Exit {
			t.status = int(r.Value(i, 0).Int)
			t.over = t.over || isError(probe)
		}
	}
	return t.deliverRecord(r)
}

// deliverFault fires ERROR for the fault in a record, and reports the fault and the records of the
// ERROR clauses.
func (t *delivery) deliverFault(probe *check.Probe, raw []byte) error {
	s := t.session
	if len(raw) < 48 {
		return fmt.Errorf("a record of a fault has %d bytes", len(raw))
	}
	clause := int(binary.NativeEndian.Uint32(raw[24:]))
	f := &FaultReport{
		Time:    binary.NativeEndian.Uint64(raw),
		CPU:     int(binary.NativeEndian.Uint32(raw[16:])),
		Probe:   probe,
		Clause:  s.script.Program.Clauses[clause],
		Fault:   ir.Fault(binary.NativeEndian.Uint32(raw[28:])),
		From:    int(binary.NativeEndian.Uint32(raw[32:])),
		To:      int(binary.NativeEndian.Uint32(raw[36:])),
		Address: binary.NativeEndian.Uint64(raw[40:]),
	}
	if t.over && probe.Name != "END" {
		return nil
	}
	if isError(probe) { // a fault of an ERROR clause fires no other
		return t.to.Fault(f)
	}
	// arg1 ... of ERROR: the probe, the clause, an offset, the kind, and the address.
	err := s.special("ERROR", 0, uint64(probe.ID), uint64(clause), 0, uint64(f.Fault), f.Address)
	if err != nil {
		return err
	}
	f.Ends = t.alone && probe.Name == "BEGIN" && exits(f.Clause.Body) && !s.programs.ended()
	if f.Ends {
		t.status = 1
		if err := s.programs.setState(gen.Draining); err != nil {
			return fmt.Errorf("stop the clauses: %w", err)
		}
	}
	if err := t.to.Fault(f); err != nil {
		return err
	}
	return t.deliverErrors()
}

// exits reports whether one of the statements is an exit().
func exits(list []check.Stmt) bool {
	return slices.ContainsFunc(list, func(s check.Stmt) bool {
		switch s := s.(type) {
		case *check.Record:
			return s.Action.Kind == check.Exit
		case *check.If:
			return exits(s.Then) || exits(s.Else)
		}
		return false
	})
}

func isError(p *check.Probe) bool { return p.Provider == "dtrace" && p.Name == "ERROR" }

// deliverErrors delivers the records that ERROR clauses have just written, before records that
// other clauses wrote after the fault.
func (t *delivery) deliverErrors() error {
	s := t.session
	if err := s.records.read(false); err != nil {
		return err
	}
	var now []record
	s.records.pending = slices.DeleteFunc(s.records.pending, func(r record) bool {
		p := s.programs.probes[binary.NativeEndian.Uint32(r.raw[12:])]
		if p == nil || !isError(p) {
			return false
		}
		now = append(now, r)
		return true
	})
	for _, r := range now {
		if err := t.deliver(r.raw); err != nil {
			return err
		}
	}
	return nil
}

// monotonic returns the time of CLOCK_MONOTONIC in ns, which is the clock of records.
func monotonic() uint64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) //nolint:errcheck // this clock is always there
	return uint64(t.Nano())
}

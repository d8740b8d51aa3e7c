package trace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"
	"culprit/trace/probe"

	"github.com/cilium/ebpf"
)

// A Loop is a loop of another front end over an associative array or an aggregation, the number of
// its elements, or the value of one. Its body is the clauses with its number (check.Clause.Loop),
// all at one probe that this process runs: BEGIN, END or a tick. The variables below are arrays
// with the key 0.
type Loop struct {
	Parent int // number of the loop that contains it, from 1; 0: none
	// the arrays that contain the parts of a value, all with the same keys; or one aggregation
	Maps         []string
	Aggregation  bool
	Keys, Values []string // the variables for the parts of a key and of a value
	Running      string   // the variable that is not 0 while the loop runs
	// the variable for the number of elements, or for the value of the element of an aggregation
	// whose key is in Keys; "" both: the body runs once for each element
	Length, Value string
}

// A part is a program of a firing that user space runs.
type part struct {
	program *ebpf.Program
	loop    int // the loop whose body it belongs to; 0: none
}

// parts divides units of clauses that user space runs where the body of a loop begins or ends.
func parts(p *check.Program, units []*Unit) []*Unit {
	var out []*Unit
	for _, u := range units {
		from := 0
		for i, n := range u.Clauses {
			if i > 0 && u.Probes[0].Site == check.SiteRun &&
				p.Clauses[n].Loop != p.Clauses[u.Clauses[i-1]].Loop {
				one := *u
				one.Clauses, one.Later = u.Clauses[from:i], from > 0
				out = append(out, &one)
				from = i
			}
		}
		u.Clauses, u.Later = u.Clauses[from:], from > 0
		out = append(out, u)
	}
	return out
}

// resetLocals removes the variables of clauses that were divided into parts, before one begins.
func (s *Session) resetLocals() error {
	for _, name := range s.script.locals {
		m, of := s.array(name)
		if m == nil {
			continue
		}
		if err := m.Delete(make([]byte, of.Key.Size)); err != nil &&
			!errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

// contains reports whether loop n is loop outer or in its body.
func (c *Compiled) contains(outer, n int) bool {
	for ; n != 0; n = c.loops[n-1].Parent {
		if n == outer {
			return true
		}
	}
	return false
}

// runParts runs the programs of a firing that are in the body of a loop; 0: in none.
func (s *Session) runParts(parts []part, in int, args []uint64) error {
	for len(parts) > 0 {
		next := parts[0].loop
		if next == in {
			var err error
			s.RunOn(func() { _, err = probe.RunOnce(parts[0].program, args...) })
			if err != nil {
				return err
			}
			parts = parts[1:]
			continue
		}
		for s.script.loops[next-1].Parent != in {
			next = s.script.loops[next-1].Parent
		}
		n := slices.IndexFunc(parts, func(p part) bool { return !s.script.contains(next, p.loop) })
		if n < 0 {
			n = len(parts)
		}
		if err := s.loop(&s.script.loops[next-1], next, parts[:n], args); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// readEach is how many turns of a loop run between two reads of the ring buffer, so that it does
// not overflow.
const readEach = 256

// loop runs the body of a loop for each element that the map has at its beginning and still has
// when it is due.
func (s *Session) loop(l *Loop, n int, body []part, args []uint64) error {
	if l.Length == "" && l.Value == "" && s.number(l.Running) == 0 {
		return nil
	}
	elements, err := s.loopElements(l)
	switch {
	case err != nil:
		return err
	case l.Length != "":
		return s.setVariable(l.Length, uint64(len(elements)))
	case l.Value != "":
		return s.setValue(l, elements)
	}
	for i, e := range elements {
		if ok, err := s.setElement(l, e); err != nil {
			return err
		} else if !ok {
			continue
		}
		if err := s.runParts(body, n, args); err != nil {
			return err
		}
		if s.number(l.Running) == 0 {
			return nil
		}
		if s.records.ring != nil && i%readEach == readEach-1 {
			if err := s.records.read(false); err != nil {
				return err
			}
		}
	}
	return s.setVariable(l.Running, 0)
}

// setValue sets the variable of a value to that of the element with the key; 0: there is none.
func (s *Session) setValue(l *Loop, elements []loopElement) error {
	want := make([]Value, len(l.Keys))
	for i, name := range l.Keys {
		one, err := s.Elements(name)
		if err != nil {
			return err
		}
		if len(one) > 0 {
			want[i] = one[0].Value
		}
	}
	i := slices.IndexFunc(elements, func(e loopElement) bool {
		for k, v := range fieldsOf(e.key, s.aggregate(l.Maps[0]).Of.Key.Fields) {
			if v.Int != want[k].Int || !bytes.Equal(v.Bytes, want[k].Bytes) {
				return false
			}
		}
		return true
	})
	if i < 0 {
		return s.setVariable(l.Value, 0)
	}
	return s.setVariable(l.Value, uint64(elements[i].value))
}

// aggregate returns an aggregation by its name; nil: there is none.
func (s *Session) aggregate(name string) *Aggregate {
	i := slices.IndexFunc(s.aggs.all, func(a *Aggregate) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return s.aggs.all[i]
}

// A loopElement is an element of a map: its key as it is stored and whole, and for an aggregation
// its value.
type loopElement struct {
	stored, key []byte
	value       int64
}

// loopElements returns the elements of a map, sorted by key.
func (s *Session) loopElements(l *Loop) (out []loopElement, err error) {
	var fields []ir.TupleField
	if l.Aggregation {
		fields, out, err = s.aggregated(l.Maps[0])
	} else {
		_, of := s.array(l.Maps[0])
		if of == nil {
			return nil, nil
		}
		fields = of.Key.Fields
		err = s.eachElement(l.Maps[0], func(stored, key, _ []byte) error {
			out = append(out, loopElement{stored: bytes.Clone(stored), key: bytes.Clone(key)})
			return nil
		})
	}
	slices.SortFunc(out, func(a, b loopElement) int { return compareFields(fields, a.key, b.key) })
	return out, err
}

// compareFields compares two keys: numbers by value, others by their bytes.
func compareFields(fields []ir.TupleField, a, b []byte) int {
	for _, f := range fields {
		x, y := FieldOf(a, f), FieldOf(b, f)
		n := cmp.Or(bytes.Compare(x.Bytes, y.Bytes), cmp.Compare(x.Int, y.Int))
		if i, ok := f.Type.(*check.Int); ok && !i.Signed {
			n = cmp.Compare(uint64(x.Int), uint64(y.Int))
		}
		if n != 0 {
			return n
		}
	}
	return 0
}

// aggregated returns the fields of an aggregation's keys and its elements: one number each.
func (s *Session) aggregated(name string) ([]ir.TupleField, []loopElement, error) {
	a := s.aggregate(name)
	if a == nil {
		return nil, nil, nil
	}
	if _, err := s.Aggregates([]*check.Aggregation{a.Of.Agg}); err != nil {
		return nil, nil, err
	}
	var out []loopElement
	for key, data := range a.rows {
		e := loopElement{key: []byte(key), value: data[0]}
		if a.Func == format.Avg {
			e.value = data[1] / max(data[0], 1)
		}
		out = append(out, e)
	}
	return a.Of.Key.Fields, out, nil
}

// setElement sets the variables of a loop to an element. It returns false when the map has the
// element no more.
func (s *Session) setElement(l *Loop, e loopElement) (ok bool, err error) {
	var fields []ir.TupleField
	if l.Aggregation {
		fields = s.aggregate(l.Maps[0]).Of.Key.Fields
		if err := s.setVariable(l.Values[0], uint64(e.value)); err != nil {
			return false, err
		}
	} else {
		for i, name := range l.Maps {
			m, of := s.array(name)
			if m == nil {
				continue
			}
			fields = of.Key.Fields
			value, err := m.LookupBytes(e.stored)
			if err != nil {
				return false, fmt.Errorf("read %s: %w", name, err)
			}
			if value == nil {
				return false, nil
			}
			if err := s.putVariable(l.Values[i], value); err != nil {
				return false, err
			}
		}
	}
	for i, name := range l.Keys {
		raw := e.key[fields[i].Offset : fields[i].Offset+fields[i].Size]
		if _, ok := fields[i].Type.(check.StringType); ok { // in variables 1 precedes a string
			raw = append(binary.NativeEndian.AppendUint64(nil, 1), raw...)
		}
		if err := s.putVariable(name, raw); err != nil {
			return false, err
		}
	}
	return true, nil
}

// number returns the value of a variable, 0 if it has none.
func (s *Session) number(name string) uint64 {
	m, of := s.array(name)
	if m == nil {
		return 0
	}
	value, err := m.LookupBytes(make([]byte, of.Key.Size))
	if err != nil || len(value) < 8 {
		return 0
	}
	return binary.NativeEndian.Uint64(value)
}

// setVariable sets a variable to a number.
func (s *Session) setVariable(name string, n uint64) error {
	return s.putVariable(name, binary.NativeEndian.AppendUint64(nil, n))
}

// putVariable sets a variable to the bytes of a value. A variable that no clause uses does not
// exist.
func (s *Session) putVariable(name string, value []byte) error {
	m, of := s.array(name)
	if m == nil {
		return nil
	}
	all := make([]byte, m.ValueSize())
	copy(all, value)
	if err := m.Put(make([]byte, of.Key.Size), all); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	return nil
}

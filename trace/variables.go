package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/symbol"

	"github.com/cilium/ebpf"
)

// An Element is an element of a global associative array.
type Element struct {
	Key   []Value
	Value Value
}

// array returns the map in the kernel of a global associative array and its layout; nil: no clause
// uses an array of that name.
func (s *Session) array(name string) (*ebpf.Map, *ir.AssocArray) {
	for i := range s.script.IR.Tables {
		if t := &s.script.IR.Tables[i]; t.Var.Name == name && t.Var.Home == check.Global {
			return s.programs.maps.Maps[gen.MapTable+strconv.Itoa(i)], t
		}
	}
	return nil, nil
}

// eachElement calls visit with the key in the map, the key and the value of each element of a
// global associative array.
func (s *Session) eachElement(name string, visit func(stored, key, value []byte) error) error {
	m, t := s.array(name)
	if m == nil {
		return nil
	}
	cut, long := s.script.kernel.CutKey(t.Key.Size)
	var failed error
	err := s.stacks.batches.each(m, 1, false, func(key []byte, values [][]byte) {
		whole := key
		if long {
			if whole = cut.Restore(key, s.stacks.keyPiece); whole == nil {
				failed = fmt.Errorf("parts of a key are missing")
				return
			}
		}
		if err := visit(key, whole, values[0]); err != nil {
			failed = err
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// Elements returns the elements of a global associative array at this moment, in no order. It
// returns none for a name that no clause uses, and fails when the map cannot be read.
func (s *Session) Elements(name string) ([]Element, error) {
	var out []Element
	_, t := s.array(name)
	err := s.eachElement(name, func(_, key, value []byte) error {
		e := Element{Key: fieldsOf(key, t.Key.Fields)}
		f := ir.TupleField{Type: t.Var.Type, Size: len(value)}
		switch of := t.Var.Type.(type) {
		case check.StringType: // follows whether it is assigned
			f.Offset, f.Size = 8, len(value)-8
		case *check.Bytes, *check.Struct, *check.Array:
			f.Size = int(of.Size())
		case check.SymbolType:
		default:
			f.Size = int(of.Size())
		}
		e.Value = FieldOf(append([]byte(nil), value...), f)
		out = append(out, e)
		return nil
	})
	return out, err
}

// fieldsOf returns the values of a key.
func fieldsOf(key []byte, fields []ir.TupleField) []Value {
	key = append([]byte(nil), key...)
	out := make([]Value, len(fields))
	for i, f := range fields {
		out[i] = FieldOf(key, f)
	}
	return out
}

// DeleteElements removes all elements of a global associative array. It fails when the map cannot
// be changed.
func (s *Session) DeleteElements(name string) error {
	m, _ := s.array(name)
	var keys [][]byte
	err := s.eachElement(name, func(stored, _, _ []byte) error {
		keys = append(keys, append([]byte(nil), stored...))
		return nil
	})
	for _, key := range keys {
		m.Delete(key) //nolint:errcheck // a clause may have removed it
	}
	return err
}

// ZeroElements sets all elements of a global associative array to 0. It fails when the map cannot
// be changed.
func (s *Session) ZeroElements(name string) error {
	m, _ := s.array(name)
	var keys [][]byte
	size := 0
	err := s.eachElement(name, func(stored, _, value []byte) error {
		keys, size = append(keys, append([]byte(nil), stored...)), len(value)
		return nil
	})
	for _, key := range keys {
		if e := m.Put(key, make([]byte, size)); e != nil && err == nil {
			err = fmt.Errorf("set %s to 0: %w", name, e)
		}
	}
	return err
}

// EachRow calls visit with the key and the data of each row of an aggregation, in no order. Data is
// that of format.AggregationRow. Call it after Aggregates.
func (a *Aggregate) EachRow(visit func(key []Value, data []int64)) {
	for key, data := range a.rows {
		visit(fieldsOf([]byte(key), a.Of.Key.Fields), data)
	}
}

// DeleteRow deletes the row of a key, if there is one.
func (a *Aggregate) DeleteRow(key []Value) {
	same := func(x, y Value) bool {
		return x.Int == y.Int && x.Pid == y.Pid && bytes.Equal(x.Bytes, y.Bytes)
	}
	for raw, data := range a.rows {
		if !slices.EqualFunc(fieldsOf([]byte(raw), a.Of.Key.Fields), key, same) {
			continue
		}
		delete(a.rows, raw)
		a.Rows = slices.DeleteFunc(a.Rows, func(r format.AggregationRow) bool {
			return &r.Data[0] == &data[0]
		})
		return
	}
}

// Places returns what is at the addresses of a stack, innermost first. A stack that is
// missing has a place whose name is the reason.
func (s *Session) Places(stack Value) []symbol.Place {
	id, most := s.stacks.cut(uint32(stack.Int))
	if id == 0 {
		return nil
	}
	places := s.stacks.placesOf(id)
	if most >= 0 && len(places) > most {
		places = places[:most]
	}
	return places
}

// Place returns what is at an address: of the kernel, or of the process of v for an address of a
// process.
func (s *Session) Place(v Value) symbol.Place {
	if t, ok := v.Type.(check.SymbolType); ok && t.Of == check.User {
		return s.symbols.userPlace(int(v.Pid), uint64(v.Int))
	}
	return s.symbols.kernel.Place(uint64(v.Int))
}

// ProbeOf returns the probe of the script with a number, nil without one.
func (s *Session) ProbeOf(id uint32) *check.Probe { return s.programs.probes[id] }

package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/ir"

	"github.com/cilium/ebpf"
)

// This file moves stacks out of the kernel while a session runs, so that its maps never fill up.
//
// A program looks up the ID of a stack in a map and puts it into a row or a record. Both happen
// within one execution. drainStacks therefore first replaces the maps of stacks: when that returns,
// no program holds an ID of the previous maps that it has not written yet. Then it reads those
// maps, and all rows and records. In these each ID becomes a number of the stackStore. After that
// no ID of the previous maps is in use, and it forgets them.

// stackIDs are the numbers in the stackStore of stacks by their IDs in the kernel.
type stackIDs struct {
	now    map[uint32]uint32 // of the maps that programs use now
	before map[uint32]uint32 // of the previous ones, while drainStacks runs
}

// stackFill is how full the maps of stacks are.
type stackFill struct {
	kept     bool          // stacks stay in the kernel, because variables may refer to them
	capacity uint64        // of one map
	drained  uint64        // IDs that were used when the maps were last drained
	checked  uint64        // IDs that were used at the last check
	next     time.Time     // when to check next
	every    time.Duration // between checks
}

const (
	stackCheckEach = 100 * time.Millisecond
	// stackCheckOften is stackCheckEach while many different stacks come.
	stackCheckOften = 10 * time.Millisecond
)

// openStacks installs the maps of stacks.
func (s *Session) openStacks(object *gen.Object) error {
	r := &s.stacks
	r.fill.kept = keepsStacks(s.script.Program)
	for i := 0; ; i++ {
		name := gen.MapStacks + strconv.Itoa(i)
		spec := object.Maps[name]
		if spec == nil {
			break
		}
		m := &replacedMap{what: "stacks", outer: r.maps[name], spec: spec.InnerMap}
		if err := m.open(s.programs.shrunk > 1 && !r.fill.kept); err != nil {
			return err
		}
		r.kernel = append(r.kernel, m)
		r.fill.capacity = uint64(spec.InnerMap.MaxEntries)
	}
	if r.kernel == nil {
		return nil
	}
	for _, kind := range s.script.IR.Records {
		var fields []ir.TupleField
		for _, a := range kind.Actions {
			for _, f := range a.Fields {
				if _, ok := f.Type.(check.StackType); ok && f.Size > 0 {
					fields = append(fields, f)
				}
			}
		}
		r.records = append(r.records, fields)
	}
	s.records.stacks = r
	return nil
}

// keepsStacks reports whether variables or keys of arrays may contain IDs of stacks. Those would
// refer to nothing when the stacks are moved out of the kernel, and not equal the ID of the same
// stack later.
func keepsStacks(p *check.Program) bool {
	if p.Cuts {
		return true
	}
	for _, v := range p.Vars {
		if v.Home == check.This {
			continue
		}
		for _, t := range append([]check.Type{v.Type}, v.Keys...) {
			if _, ok := t.(check.StackType); ok {
				return true
			}
		}
	}
	return false
}

func (s *stackReader) close() {
	for _, m := range s.kernel {
		m.close()
	}
}

// stored returns the number in the store of a stack, by its ID in the kernel or its number.
func (s *stackReader) stored(id uint32) uint32 {
	if id == 0 || id&s.store.bit != 0 {
		return id
	}
	for again := false; ; again = true {
		if n, ok := s.ids.now[id]; ok {
			return n
		}
		if n, ok := s.ids.before[id]; ok {
			return n
		}
		if again {
			s.ids.now[id] = lostStack | s.store.bit
			return lostStack | s.store.bit
		}
		s.eachStack(s.current(), false, s.take(s.ids.now))
	}
}

// stores reports whether stacks in keys become numbers of the store.
func (s *stackReader) stores() bool { return s.frames == nil || s.frames.kept }

// current returns the maps that programs use now.
func (s *stackReader) current() []*ebpf.Map {
	out := make([]*ebpf.Map, len(s.kernel))
	for i, m := range s.kernel {
		out[i] = m.inner
	}
	return out
}

// take returns a function that stores a stack and remembers its ID. When two stacks have the same
// ID, which happens only when the IDs of a kernel are used up, it is the ID of a lost stack.
func (s *stackReader) take(ids map[uint32]uint32) func(key []byte, id uint32) {
	return func(key []byte, id uint32) {
		n := 8
		for n+8 <= len(key) && binary.NativeEndian.Uint64(key[n:]) != 0 {
			n += 8
		}
		key = key[:n]
		for _, known := range [...]map[uint32]uint32{s.ids.now, s.ids.before} {
			number, ok := known[id]
			if !ok {
				continue
			}
			if one := s.store.stacks[number]; one == nil || one.bytes != string(key) {
				known[id], ids[id] = lostStack|s.store.bit, lostStack|s.store.bit
			}
			return
		}
		ids[id] = s.store.number(key)
	}
}

// storeKey replaces the IDs of stacks in a key by numbers of the store, and counts events of the
// stacks.
func (s *stackReader) storeKey(key []byte, fields []ir.TupleField, events uint64) {
	for _, f := range fields {
		id, most := s.cut(binary.NativeEndian.Uint32(key[f.Offset:]))
		n := s.stored(id)
		if one := s.store.stacks[n]; one != nil {
			one.events += events
		}
		if s.script.Program.Cuts {
			n |= uint32(most+1) << check.StackBits
		}
		binary.NativeEndian.PutUint32(key[f.Offset:], n)
	}
}

// storeRecord replaces the IDs of stacks in a record by numbers of the store.
func (s *stackReader) storeRecord(raw []byte) {
	n := binary.NativeEndian.Uint32(raw[8:])
	if int(n) >= len(s.records) || len(s.records[n]) == 0 ||
		len(raw) < s.script.IR.Records[n].Size {
		return
	}
	s.storeKey(raw, s.records[n], 0)
}

// swap replaces the maps of stacks and returns the previous ones, which no program uses any more.
// The caller empties them.
func (s *stackReader) swap() ([]*ebpf.Map, error) {
	done, err := replaceAll(s.kernel)
	var old []*ebpf.Map
	for i, m := range s.kernel {
		if done[i] {
			old = append(old, m.spare)
		}
	}
	return old, err
}

// drainsStacks reports whether the session moves stacks out of the kernel by drainStacks.
func (s *Session) drainsStacks() bool {
	r := &s.stacks
	return r.kernel != nil && !r.fill.kept && r.stores()
}

// checkStacks drains the maps of stacks when one of them may be a quarter full.
func (s *Session) checkStacks(now time.Time) error {
	f := &s.stacks.fill
	used, known := s.usedStackIDs()
	f.every = stackCheckEach
	if used-f.checked > f.capacity/16 {
		f.every = stackCheckOften
	}
	f.next, f.checked = now.Add(f.every), used
	if !known { // only stacks that are read are counted
		f.next = now.Add(time.Second)
	} else if used-f.drained < max(1, f.capacity/4) {
		return nil
	}
	if err := s.drainStacks(); err != nil {
		return fmt.Errorf("read stacks: %w", err)
	}
	f.drained = used
	return nil
}

// usedStackIDs returns how many IDs of stacks programs have used. It returns false where the kernel
// does not count them in one place.
func (s *Session) usedStackIDs() (uint64, bool) {
	m := s.stacks.maps[gen.MapNumber]
	var used uint64
	if !s.script.kernel.AtomicFetch || m == nil || m.Lookup(uint32(0), &used) != nil {
		return 0, false
	}
	return used, true
}

// drainStacks moves all stacks out of the kernel.
func (s *Session) drainStacks() error {
	r := &s.stacks
	old, err := r.swap()
	r.ids.before, r.ids.now = r.ids.now, map[uint32]uint32{}
	r.eachStack(old, true, r.take(r.ids.before))
	if err != nil { // old has only some: the IDs of the others stay valid
		maps.Copy(r.ids.now, r.ids.before)
		return err
	}
	var with []*Aggregate
	for _, a := range s.aggs.all {
		if len(a.stacks) > 0 {
			with = append(with, a)
		}
	}
	err = s.collect(with...)
	if s.records.ring != nil {
		err = errors.Join(err, s.records.readWritten())
	}
	r.ids.before = nil
	s.limitStacks()
	return err
}

// limitStacks discards stacks when there are too many.
func (s *Session) limitStacks() {
	r := &s.stacks
	if !s.drainsStacks() || !r.store.full() {
		return
	}
	used := map[uint32]bool{}
	for _, a := range s.aggs.all {
		for key := range a.rows {
			for _, f := range a.stacks {
				used[binary.NativeEndian.Uint32([]byte(key[f.Offset:f.Offset+4]))] = true
			}
		}
	}
	s.records.eachStack(func(n uint32) { used[n] = true })
	if r.store.discard(used) {
		for _, a := range s.aggs.all {
			a.mergeStacks()
		}
	}
	for _, ids := range [...]map[uint32]uint32{r.ids.now, r.ids.before} {
		maps.DeleteFunc(ids, func(_, n uint32) bool { return r.store.stacks[n] == nil })
	}
}

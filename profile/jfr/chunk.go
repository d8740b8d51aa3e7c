package jfr

import (
	"errors"
	"math"
	"strings"
	"unicode/utf16"
)

// A chunk is a part of a file that explains itself: events, the types of their fields, and
// constants, to which fields refer by type and key.
type chunk struct {
	header
	b       []byte
	at      int64 // position in the file
	file    *File
	handler *Handler
	charged int
	classes map[int64]*class
	byName  map[string]*class

	// Positions of constants by key.
	strings, stacks, methods, types, symbols, threads, frameTypes map[int64]int

	names    map[int64]*Method // by the key of a method
	kinds    map[int64]string  // of frames
	named    map[int64]*Thread
	resolved map[int64]*stack
	samples  map[int64]*eventReader // by the ID of the type; nil: not wanted
	others   map[string]int
}

// A stack is a list of frames, innermost first.
type stack struct {
	frames []Frame
	cut    bool
}

// The types of events that explain others.
const (
	metadataEvent   = 0
	checkpointEvent = 1
)

func (c *chunk) charge(n int) {
	c.charged += n
	c.handler.Charge(n)
}

// events calls each with the type of each event and a cursor at its fields. It returns the position
// of the first byte that is no complete event.
func (c *chunk) events(each func(kind int64, start int, r *cursor) error) (int, error) {
	at := headerSize
	for at < len(c.b) {
		r := cursor{c: c, at: at, end: len(c.b)}
		size := r.int()
		if r.err != nil || size <= 0 || size > int64(len(c.b)-at) || int(size) < r.at-at {
			return at, nil
		}
		r.end = at + int(size)
		kind := r.long(8)
		if r.err != nil {
			return at, nil
		}
		if err := each(kind, at, &r); err != nil {
			return at, err
		}
		at += int(size)
	}
	return at, nil
}

// read reads the events of a chunk.
func (c *chunk) read() error {
	err := c.explain()
	if err != nil {
		var wrong *Error
		if c.file.Cut && errors.As(err, &wrong) { // what explains the events was not written
			c.file.Unread += len(c.b) - headerSize
			return nil
		}
		return err
	}
	c.resolved, c.named, c.kinds = map[int64]*stack{}, map[int64]*Thread{}, map[int64]string{}
	c.names, c.samples, c.others = map[int64]*Method{}, map[int64]*eventReader{}, map[string]int{}
	end, err := c.events(func(kind int64, _ int, r *cursor) error {
		if kind == metadataEvent || kind == checkpointEvent {
			return nil
		}
		return c.event(kind, r)
	})
	if err != nil {
		return err
	}
	if end < len(c.b) && !c.file.Cut {
		return &Error{c.at + int64(end), "no event begins here, in the middle of a chunk"}
	}
	c.file.Unread += len(c.b) - end
	for name, n := range c.others {
		c.handler.Other(name, n)
	}
	return nil
}

// explain reads the types and the constants. The last event of the types counts.
func (c *chunk) explain() error {
	metadata := 0
	_, err := c.events(func(kind int64, start int, _ *cursor) error {
		if kind == metadataEvent {
			metadata = start
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.header.metadata != 0 && c.header.metadata < int64(len(c.b)) {
		metadata = int(c.header.metadata)
	}
	if metadata == 0 {
		return &Error{c.at, "a chunk without the types of its events"}
	}
	r := cursor{c: c, at: metadata, end: len(c.b)}
	size := r.int()
	if size <= 0 || size > int64(len(c.b)-metadata) {
		return &Error{c.at + int64(metadata), "the types of the events are cut off"}
	}
	r.end = metadata + int(size)
	if kind := r.long(8); kind != metadataEvent {
		return &Error{c.at + int64(metadata), "the types of the events do not begin here"}
	}
	if err := c.metadata(&r); err != nil {
		return err
	}
	return c.constants()
}

// constants reads the positions of the constants.
//
//	time long, duration long, delta long, mask byte, n int,
//	n x { type long, count int, count x { key long, value } }
func (c *chunk) constants() error {
	c.strings, c.stacks, c.methods = map[int64]int{}, map[int64]int{}, map[int64]int{}
	c.types, c.symbols, c.threads = map[int64]int{}, map[int64]int{}, map[int64]int{}
	c.frameTypes = map[int64]int{}
	of := map[string]map[int64]int{
		"java.lang.String": c.strings, "jdk.types.StackTrace": c.stacks,
		"jdk.types.Method": c.methods, "java.lang.Class": c.types, "jdk.types.Symbol": c.symbols,
		"java.lang.Thread": c.threads, "jdk.types.FrameType": c.frameTypes,
	}
	_, err := c.events(func(kind int64, _ int, r *cursor) error {
		if kind != checkpointEvent {
			return nil
		}
		r.long(8)
		r.long(8)
		r.long(8)
		r.byte()
		for range r.count() {
			id := r.long(8)
			k := c.classes[id]
			if k == nil && r.err == nil {
				r.fail("constants of an unknown type %d", id)
			}
			n := r.count()
			if r.err != nil {
				return r.err
			}
			pool := of[k.name]
			for range n {
				key := r.long(8)
				if r.err != nil {
					return r.err
				}
				if pool != nil {
					if _, ok := pool[key]; !ok {
						c.charge(constantBytes)
					}
					pool[key] = r.at
				}
				k.skip(r)
			}
		}
		return r.err
	})
	return err
}

// constantBytes is what the position of a constant takes, with its part of the map.
const constantBytes = 48

// chars reads code units of UTF-16.
func (r *cursor) chars() string {
	n := r.count()
	r.c.charge(2 * n)
	units := make([]uint16, 0, n)
	for range n {
		units = append(units, uint16(r.long(2)))
	}
	return string(utf16.Decode(units))
}

// constant returns a cursor at a constant; false: there is none.
func (c *chunk) constant(pool map[int64]int, key int64) (cursor, bool) {
	at, ok := pool[key]
	return cursor{c: c, at: at, end: len(c.b)}, ok
}

// fieldsOf calls visit with each field of a constant. A field that visit does not read is passed.
func (c *chunk) fieldsOf(k *class, r *cursor, visit func(f *field) bool) {
	for i := range k.fields {
		f := &k.fields[i]
		if !visit(f) {
			f.skip(r)
		}
		if r.err != nil {
			return
		}
	}
}

// key reads the key of a constant; -1 when the field has none.
func (f *field) key(r *cursor) int64 {
	if !f.constant || f.list {
		f.skip(r)
		return -1
	}
	return r.long(8)
}

// string reads the text of a field; "" when it has none.
func (f *field) string(r *cursor) string {
	switch {
	case f.list:
	case f.constant && f.of != nil && f.of.kind == text:
		constant, ok := r.c.constant(r.c.strings, r.long(8))
		if !ok {
			return ""
		}
		return constant.text(1)
	case f.constant && f.of != nil && f.of.name == "jdk.types.Symbol":
		return r.c.symbol(r.long(8))
	case !f.constant && f.of.kind == text:
		return r.text(0)
	}
	f.skip(r)
	return ""
}

// symbol returns the text of a symbol.
func (c *chunk) symbol(key int64) (s string) {
	r, ok := c.constant(c.symbols, key)
	k := c.byName["jdk.types.Symbol"]
	if !ok || k == nil {
		return ""
	}
	c.fieldsOf(k, &r, func(f *field) bool {
		if f.name == "string" && !f.constant {
			s = f.string(&r)
			return true
		}
		return false
	})
	return s
}

// nanoseconds converts a value of a field's unit.
func (c *chunk) nanoseconds(v float64, unit string) (float64, bool) {
	switch unit {
	case "TICKS":
		return v * 1e9 / float64(c.hz), true
	case "NANOSECONDS":
		return v, true
	case "MICROSECONDS":
		return v * 1e3, true
	case "MILLISECONDS":
		return v * 1e6, true
	case "SECONDS":
		return v * 1e9, true
	}
	return v, false
}

// dotted returns the name of a class as Java's stack traces have it: A$$Lambda$7/0x7f10 for the
// hidden class A$$Lambda$7+0x7f10/1106681476.
func dotted(name string) string {
	name, address, hidden := strings.Cut(name, "+0x")
	name = strings.ReplaceAll(name, "/", ".")
	if hidden {
		address, _, _ = strings.Cut(address, "/")
		name += "/0x" + address
	}
	return name
}

// clampLine returns a line number, 0 for none.
func clampLine(v int64) int { return int(min(max(0, v), math.MaxInt32)) }

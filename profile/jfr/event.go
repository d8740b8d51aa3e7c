package jfr

import (
	"cmp"
	"math"
	"slices"
)

// A Sample is an event with a stack.
type Sample struct {
	Event  string // the name of the type, such as jdk.ExecutionSample
	Thread *Thread
	Frames []Frame // innermost first
	Cut    bool    // outer frames are missing
	Values []Value // the numbers of the event, and its duration
}

// A Value is a number of an event.
type Value struct {
	Name   string
	Unit   string // ns, bytes or ""
	Amount float64
}

// A Thread is the thread of an event.
type Thread struct {
	Name   string // "": unknown
	Number int64  // of Java, or else of the operating system; 0: unknown
}

// A Frame is a frame of a stack.
type Frame struct {
	Method *Method
	Line   int    // 0: unknown
	Kind   string // such as Interpreted, JIT compiled, Inlined, Native, Kernel; "": unknown
}

// A Method is a method, or the function of another language.
type Method struct {
	Class string // with its package, by dots; "": none
	Name  string
}

// The bytes that a frame, a name and a thread take, with their parts of maps.
const (
	frameBytes  = 2 * 40
	nameBytes   = 160
	maxJavaName = 1 << 12 // bytes of a name that are kept
)

// An eventReader reads events of one type.
type eventReader struct {
	of     *class
	wanted bool
	sample Sample
}

// maxSampleValues is how many numbers of an event are passed on.
const maxSampleValues = 32

// event reads an event.
func (c *chunk) event(id int64, r *cursor) error {
	e, ok := c.samples[id]
	if !ok {
		e = c.eventReader(id)
		c.samples[id] = e
		c.charge(nameBytes)
	}
	switch {
	case e == nil:
		return nil
	case e.of.name == "jdk.DataLoss":
		c.dataLoss(e.of, r)
		return nil
	case !e.wanted:
		if c.hasStack(e.of, r) {
			c.others[e.of.name]++
		}
		return nil
	}
	return c.sample(e, r)
}

// eventReader returns the reader of a type; nil when its events have no stack.
func (c *chunk) eventReader(id int64) *eventReader {
	k := c.classes[id]
	if k == nil {
		return nil
	}
	s := k.field("stackTrace")
	if k.name != "jdk.DataLoss" &&
		(s == nil || !s.constant || s.list || s.of == nil || s.of.name != "jdk.types.StackTrace") {
		return nil
	}
	return &eventReader{of: k, wanted: c.handler.Wants(k.name), sample: Sample{Event: k.name}}
}

// hasStack reports whether an event has a stack.
func (c *chunk) hasStack(k *class, r *cursor) bool {
	for i := range k.fields {
		if f := &k.fields[i]; f.name == "stackTrace" {
			_, ok := c.stacks[f.key(r)]
			return ok && r.err == nil
		}
		k.fields[i].skip(r)
	}
	return false
}

func (c *chunk) dataLoss(k *class, r *cursor) {
	c.fieldsOf(k, r, func(f *field) bool {
		if f.name != "amount" {
			return false
		}
		if v, ok := f.number(r); ok && v > 0 && v < math.MaxInt64/2 {
			c.file.Lost = min(c.file.Lost+int64(v), math.MaxInt64/2)
		}
		return true
	})
}

// sample reads an event that is wanted. Events without a stack have no frames.
func (c *chunk) sample(e *eventReader, r *cursor) error {
	s := &e.sample
	s.Thread, s.Frames, s.Cut, s.Values = nil, nil, false, s.Values[:0]
	failed := false
	c.fieldsOf(e.of, r, func(f *field) bool {
		switch {
		case f.name == "stackTrace":
			if st := c.stack(f.key(r)); st != nil {
				s.Frames, s.Cut = st.frames, st.cut
			}
		case f.name == "sampledThread", f.name == "eventThread" && s.Thread == nil:
			if f.of != nil && f.of.name == "java.lang.Thread" {
				s.Thread = c.thread(f.key(r))
				return true
			}
			return false
		case f.name == "failed" && !f.constant && !f.list && f.of.kind == flag:
			failed = r.byte() != 0 // jdk.CPUTimeSample
		case f.constant, f.list, f.of.kind == structured, f.of.kind == flag, f.of.kind == text,
			f.unit == "TIMESTAMP", len(s.Values) == maxSampleValues:
			return false
		default:
			v, _ := f.number(r)
			unit := ""
			if ns, ok := c.nanoseconds(v, f.unit); ok {
				v, unit = ns, "ns"
			} else if f.unit == "BYTES" {
				unit = "bytes"
			}
			s.Values = append(s.Values, Value{f.name, unit, v})
		}
		return true
	})
	if r.err != nil {
		return r.err
	}
	if failed {
		return nil
	}
	return c.handler.Sample(s)
}

// stack returns the stack of a key; nil: there is none.
func (c *chunk) stack(key int64) *stack {
	if s, ok := c.resolved[key]; ok {
		return s
	}
	c.charge(nameBytes)
	c.resolved[key] = nil
	r, ok := c.constant(c.stacks, key)
	k := c.byName["jdk.types.StackTrace"]
	if !ok || k == nil {
		return nil
	}
	s := &stack{}
	c.fieldsOf(k, &r, func(f *field) bool {
		switch {
		case f.name == "truncated" && !f.constant && !f.list && f.of.kind == flag:
			s.cut = r.byte() != 0
		case f.name == "frames" && f.list && !f.constant && f.of.name == "jdk.types.StackFrame":
			n := r.count()
			c.charge(frameBytes * n)
			s.frames = make([]Frame, 0, n)
			for range n {
				if r.err != nil {
					break
				}
				s.frames = append(s.frames, c.frame(f.of, &r))
			}
		default:
			return false
		}
		return true
	})
	if r.err != nil {
		return nil
	}
	c.resolved[key] = s
	return s
}

// frame reads a frame.
func (c *chunk) frame(k *class, r *cursor) (out Frame) {
	c.fieldsOf(k, r, func(f *field) bool {
		switch f.name {
		case "method":
			out.Method = c.method(f.key(r))
		case "lineNumber":
			v, _ := f.number(r)
			out.Line = clampLine(int64(v))
		case "type":
			out.Kind = c.frameKind(f, r)
		default:
			return false
		}
		return true
	})
	if out.Method == nil {
		out.Method = &Method{Name: "[unknown]"}
	}
	return out
}

// frameKind reads the kind of a frame, which is a constant or a text.
func (c *chunk) frameKind(f *field, r *cursor) string {
	if !f.constant || f.of == nil || f.of.name != "jdk.types.FrameType" {
		return f.string(r)
	}
	key := r.long(8)
	if s, ok := c.kinds[key]; ok {
		return s
	}
	constant, ok := c.constant(c.frameTypes, key)
	name := ""
	if ok {
		c.fieldsOf(f.of, &constant, func(f *field) bool {
			if name == "" {
				name = clip(f.string(&constant))
				return true
			}
			return false
		})
	}
	c.charge(nameBytes + len(name))
	c.kinds[key] = name
	return name
}

// method returns the method of a key; nil: there is none.
func (c *chunk) method(key int64) *Method {
	if m, ok := c.names[key]; ok {
		return m
	}
	c.charge(nameBytes)
	c.names[key] = nil
	r, ok := c.constant(c.methods, key)
	k := c.byName["jdk.types.Method"]
	if !ok || k == nil {
		return nil
	}
	m := &Method{}
	c.fieldsOf(k, &r, func(f *field) bool {
		switch f.name {
		case "type":
			m.Class = c.className(f.key(&r))
		case "name":
			m.Name = clip(f.string(&r))
		default:
			return false
		}
		return true
	})
	if r.err != nil || m.Name == "" && m.Class == "" {
		return nil
	}
	c.charge(len(m.Name) + len(m.Class))
	c.names[key] = m
	return m
}

// className returns the name of a class.
func (c *chunk) className(key int64) (name string) {
	r, ok := c.constant(c.types, key)
	k := c.byName["java.lang.Class"]
	if !ok || k == nil {
		return ""
	}
	c.fieldsOf(k, &r, func(f *field) bool {
		if f.name != "name" {
			return false
		}
		name = dotted(clip(f.string(&r)))
		return true
	})
	return name
}

// thread returns the thread of a key; nil: there is none.
func (c *chunk) thread(key int64) *Thread {
	if t, ok := c.named[key]; ok {
		return t
	}
	c.charge(nameBytes)
	c.named[key] = nil
	r, ok := c.constant(c.threads, key)
	k := c.byName["java.lang.Thread"]
	if !ok || k == nil {
		return nil
	}
	java, system, numbers := "", "", [2]int64{}
	c.fieldsOf(k, &r, func(f *field) bool {
		switch f.name {
		case "javaName":
			java = clip(f.string(&r))
		case "osName":
			system = clip(f.string(&r))
		case "javaThreadId", "osThreadId":
			v, _ := f.number(&r)
			numbers[slices.Index([]string{"javaThreadId", "osThreadId"}, f.name)] = int64(v)
		default:
			return false
		}
		return true
	})
	if r.err != nil {
		return nil
	}
	t := &Thread{Name: cmp.Or(java, system), Number: cmp.Or(max(0, numbers[0]), numbers[1])}
	c.charge(len(t.Name))
	c.named[key] = t
	return t
}

// clip returns a name, or the start of a very long one.
func clip(s string) string { return s[:min(len(s), maxJavaName)] }

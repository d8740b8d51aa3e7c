package profile

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// A Sampled is a stack of this machine's sampler. Frames are in DTrace's form, module`name+0x1f,
// innermost first.
type Sampled struct {
	Process      string
	Roots        []string // names of the outermost frames; nil: Process
	User, Kernel []string
	State        string // of waits: the thread's state, or the kind of lock; "": no wait
	Waker        *Waker // the thread that ended the wait; nil: unknown
	Count        int64  // samples, or waits
	Amount       float64
	Times        []SampleTime // of some samples; empty: unknown
}

// A SampleTime is when a thread was sampled.
type SampleTime struct {
	At  float64 // ns
	TID int
}

// SampleTimes describe the times of samples.
type SampleTimes struct {
	Usual float64 // ns between two samples of a CPU
	Left  int64   // samples without a time for which there was no space
}

// A Waker is the thread that ended a wait.
type Waker struct {
	Process      string
	User, Kernel []string
}

// FromSamples returns a profile of stacks: below each process its own functions, then the kernel's.
// For waits the state and the waker follow. A function without a name is named after its file. If
// samples have times, the profile has a timeline, by thread.
func FromSamples(stacks iter.Seq[Sampled], times SampleTimes) *Tree {
	b := NewBuilder()
	timer := &timer{threads: map[string]uint32{}, samples: true, usual: times.Usual}
	var path []uint32
	var text []byte
	add := func(lines []string, of Kind) {
		for _, line := range slices.Backward(lines) {
			module, name, found := strings.Cut(line, "`")
			if !found {
				module, name = "", line
			}
			if i := strings.LastIndex(name, "+0x"); i > 0 &&
				!strings.HasSuffix(name, "]") { // not of [program+0x1240]
				name = name[:i]
			}
			kind, nameless := of, strings.HasPrefix(name, "0x")
			switch {
			case nameless && module != "":
				name = "[" + module + "]"
			case nameless:
				name = "[unknown]"
			case kind == Code && strings.HasSuffix(name, "_[i]"):
				kind = Inlined
			case kind == Code && module == "" && !isRemark(name):
				kind = JIT
			}
			text = append(append(text[:0], name...), module...)
			path = append(path, b.Function(text[:len(name)], text[len(name):], kind))
		}
	}
	samples := int64(0)
	for s := range stacks {
		path = path[:0]
		for _, name := range s.Roots {
			path = append(path, b.Function([]byte(name), nil, Process))
		}
		if len(s.Roots) == 0 {
			path = append(path, b.Function([]byte(s.Process), nil, Process))
		}
		add(s.User, Code)
		add(s.Kernel, Kernel)
		if s.State != "" {
			path = append(path, b.Function([]byte("["+s.State+"]"), nil, Kernel))
		}
		if w := s.Waker; w != nil {
			path = append(path, b.Function([]byte("woken by "+w.Process), nil, Process))
			add(w.User, Code)
			add(w.Kernel, Kernel)
		}
		node := b.Stack(path, s.Amount)
		timer.addSamples(s.Process, node, s.Times)
		samples += s.Count
	}
	t := b.Tree()
	t.Samples = float64(samples)
	if t.Times = timer.timeline(nil); t.Times != nil {
		t.Times.Left += int(times.Left)
	}
	return t
}

// isRemark reports whether a frame is a remark rather than a function: [unknown], [caller may be
// missing].
func isRemark(name string) bool {
	return strings.HasPrefix(name, "[") || strings.HasPrefix(name, "(")
}

// addSamples records samples of a stack, whose innermost function is node.
func (t *timer) addSamples(process string, node int32, all []SampleTime) {
	var key string
	thread, of := uint32(0), -1
	for _, s := range all {
		if s.TID != of || key == "" {
			of, key = s.TID, process+" "+strconv.Itoa(s.TID)
			thread = t.thread(key, []byte(key))
		}
		t.add(Moment{Thread: thread, Node: node, Kept: -1, At: s.At, Amount: 1})
	}
}

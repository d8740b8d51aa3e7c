package gen

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// The kernel's flags of maps (include/uapi/linux/bpf.h).
const (
	flagNoPrealloc = 1 << 0 // BPF_F_NO_PREALLOC
	flagReadOnly   = 1 << 7 // BPF_F_RDONLY_PROG
)

// nesting is how many firings within one another have memory, where nobody says it: task, softirq, interrupt, NMI.
const nesting = 4

// deepest is how many frames the kernel gives at most, unless kernel.perf_event_max_stack says otherwise.
const deepest = 127

// nestingMost is how many of them programs look for, whatever the map has.
const nestingMost = 8

// layout is where in the maps that ir knows of gen has things of its own.
//
//	scratch of one firing:  | u64: taken | u64: its number among those of a CPU | u64: numbers given | ir's Scratch | registers | u64 | text | stack | walk | key that is cut | room for copies to end in |
//	literals:               | ir's Literals | zeroes |
type layout struct {
	spill, words, text, stack, walk, long, scratch int   // offsets in scratch, and its size
	frames                                         int   // most of any stack
	stacks                                         []int // of each map of stacks, the most frames
	zeroes, literals                               int   // offset in literals, and its size
	globals                                        int   // bytes of the globals; twice what they are, where copies may end in them
	needs                                          needs
	aggs                                           []AggPlace
}

// scratchHeader is what stands before ir's Scratch: whether it is taken, and what fresh makes numbers of.
const (
	scratchSlot   = 8
	scratchCount  = 16
	scratchHeader = 24
)

// A needs is what of the maps a program uses.
type needs struct {
	scratch, globals, self, literals, ring, stacks, frames, unwind, text, spec, running, long bool
}

// machineRegs are those that keep their values through calls; r9 is where the scratch memory lies.
//
// table: a constant that Go has no word for
var machineRegs = []asm.Register{asm.R6, asm.R7, asm.R8}

// The stack of a program, from its top: each is 8 bytes. Functions that it calls have the rest.
const (
	slotCtx   = -8
	slotTime  = -16 // the time of the clause
	slotSelf  = -24 // where the thread's variables are
	slotRow   = -32 // at which of several probes the program is
	slotZero  = -40 // the key 0
	slotTemp  = -56 // 16 bytes, for arguments of helpers
	slotHold  = -72 // 2 values of a step, across calls
	slotOther = -80 // 1: a system call of a 32-bit process, whose arguments are in other registers
	slotRegs  = slotOther
	slotLimit = -512 + 160
)

func round8(n int) int { return (n + 7) &^ 7 }

// lay finds out what a program needs and where it all lies.
func lay(p *ir.Program, k Kernel) layout {
	l := layout{aggs: AggPlaces(p)}
	n := &l.needs
	zeroes, spilled, copies := p.StrSize, 0, false
	for _, f := range p.Clauses {
		_, _, s := allocate(f, machineRegs, slotRegs, slotLimit)
		spilled = max(spilled, s)
		for _, b := range f.Blocks {
			for i := range b.Steps {
				s := &b.Steps[i]
				n.scratch = n.scratch || inScratch(p, s)
				if k.cutsKey(p, s) {
					n.long, n.scratch = true, true
				}
				n.unwind = n.unwind || k.Unwind && usesUserFrames(s)
				for _, m := range [...]ir.Mem{s.Mem, s.From, s.From2} {
					switch m.Base {
					case ir.InGlobals:
						n.globals = true
					case ir.InSelf:
						n.self, n.literals = true, true
						zeroes = max(zeroes, p.Self+p.StrSize)
					case ir.InLiteral:
						n.literals = true
					}
				}
				switch s.Op {
				case ir.OpStack:
					n.stacks, n.frames = true, true
					l.frames = max(l.frames, s.N+bit(k.Unwind && s.Space == check.User)) // and an Ending
				case ir.OpEmit, ir.OpFault, ir.OpRead, ir.OpReadMem, ir.OpReadStr:
					n.ring = true
				case ir.OpPoke:
					n.ring = true
					n.globals = n.globals || p.Globals > 0
				case ir.OpBuiltin:
					switch s.Which {
					case check.BuiltinArg:
						n.ring = n.ring || mayFault(f.Clause.Probes, s.N)
					case check.BuiltinVTimestamp:
						n.running = true
					case check.BuiltinStackDepth, check.BuiltinUStackDepth:
						n.frames = true
						l.frames = max(l.frames, deepest)
					case check.BuiltinCaller, check.BuiltinUCaller:
						n.frames = true
						l.frames = max(l.frames, 2)
					case check.BuiltinFrame, check.BuiltinUFrame:
						n.frames = true
						l.frames = max(l.frames, min(s.N+1, deepest))
					}
				case ir.OpMake:
					n.literals = true
					zeroes = max(zeroes, p.Tables[s.N].Value)
				case ir.OpAggregate:
					n.literals = true
					zeroes = max(zeroes, p.Aggs[s.N].Value)
				case ir.OpAct:
					n.text, n.ring = true, true
				case ir.OpBuiltinStr:
					n.text = n.text || s.Which == check.BuiltinExecargs
				case ir.OpSpeculate:
					n.spec = true
				case ir.OpCall:
					n.text, n.ring = true, true
					copies = copies || s.Sub == check.SubBcopy
				}
			}
		}
	}
	n.scratch = n.scratch || spilled > 0
	if n.stacks {
		if !k.LongKeys && l.frames > pieceFrames {
			l.frames = (l.frames + pieceFrames - 1) / pieceFrames * pieceFrames
		}
		l.stacks = stackClasses(l.frames, k)
		n.literals = true
		zeroes = max(zeroes, 8*l.frames)
	}
	at := scratchHeader + round8(p.Scratch)
	l.spill = at
	at += spilled
	l.words = at
	at += 8
	l.text = at
	if n.text {
		at += textRoom(p)
	}
	l.stack = at
	if n.frames {
		at += stackRoom(l.frames)
	}
	l.walk = at
	if n.unwind {
		at += walkState
	}
	l.long = at
	if n.long {
		at += maxKey
	}
	// The verifier takes the start of a copy and its length for unrelated.
	l.scratch = max(at, scratchHeader+2*p.This, scratchHeader+p.Alloca.Off+2*p.Alloca.Size)
	l.globals = round8(max(8, p.Globals))
	if copies {
		n.globals = n.globals || p.Globals > 0
		l.globals *= 2
	}
	l.zeroes = round8(len(p.Literals))
	l.literals = l.zeroes + round8(zeroes)
	return l
}

// mayFault says whether an argument of a probe may be in memory of a process.
func mayFault(probes []*check.Probe, n int) bool {
	return slices.ContainsFunc(probes, func(p *check.Probe) bool {
		if p.Operands == nil {
			return p.Site == check.SiteUprobe && n >= 6
		}
		return n < len(p.Operands) && p.Operands[n].Kind == check.OperandMemory || mayFault(p.Also, n)
	})
}

// Maps gives the maps of a program.
func Maps(p *ir.Program, k Kernel, lim Limits) (*Object, error) {
	l := lay(p, k)
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&lim.Ring, 4<<20)
	if lim.AggKeys <= 0 && len(p.Aggs) > mostAggMaps {
		lim.AggKeys = 1 << 16 * mostAggMaps / len(p.Aggs) // they share the memory that the most of them take
	}
	def(&lim.AggKeys, 1<<16)
	def(&lim.Dynamic, 1<<16)
	def(&lim.Stacks, 1<<14)
	def(&lim.Nesting, nesting)
	def(&lim.Code, 1<<12)
	def(&lim.Rows, 1<<17)
	lim.shrink()
	o := &Object{Maps: map[string]*ebpf.MapSpec{}}
	add := func(name string, m ebpf.MapSpec) {
		m.Name = "culprit_" + name
		o.Maps[name] = &m
	}
	hash := func(m ebpf.MapSpec) ebpf.MapSpec {
		if k.NoPrealloc {
			m.Flags |= flagNoPrealloc
		}
		return m
	}
	one := func(size, flags int) ebpf.MapSpec {
		return ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(size), MaxEntries: 1, Flags: uint32(flags)}
	}
	add(MapState, one(16, 0))
	add(MapDrops, ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(ir.DropCount)})
	if l.needs.ring {
		if !k.RingBuffer {
			return nil, fmt.Errorf("a ring buffer for records: %w", measure.ErrUnsupported)
		}
		size := max(4096, lim.Ring)
		if size&(size-1) != 0 {
			size = 1 << bits.Len(uint(size))
		}
		add(MapRing, ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: uint32(size)})
	}
	if l.needs.globals {
		add(MapGlobals, one(l.globals, 0))
	}
	if l.needs.running {
		add(MapRunning, ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 24, MaxEntries: 1})
	}
	if l.needs.spec {
		add(MapSpec, one(8*p.Speculations(), mmapable))
	}
	if l.needs.literals {
		m := one(l.literals, flagReadOnly)
		m.Contents = []ebpf.MapKV{{Key: uint32(0), Value: append(append([]byte(nil), p.Literals...), make([]byte, l.literals-len(p.Literals))...)}}
		add(MapLiterals, m)
	}
	if l.needs.self {
		size := uint32(round8(max(8, p.Self)))
		if k.TaskStorage {
			add(MapSelf, taskStorage(size))
		} else {
			add(MapSelf, hash(ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: size, MaxEntries: uint32(lim.Dynamic)}))
		}
	}
	if l.needs.scratch {
		add(MapScratch, ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: uint32(l.scratch), MaxEntries: uint32(lim.Nesting)})
	}
	if l.needs.stacks {
		for i, frames := range l.stacks {
			add(MapStacks+strconv.Itoa(i), hash(ebpf.MapSpec{Type: ebpf.Hash, KeySize: uint32(8 + 8*frames), ValueSize: 4, MaxEntries: uint32(lim.Stacks)}))
		}
	}
	if l.needs.long {
		add(MapLong, hash(ebpf.MapSpec{Type: ebpf.Hash, KeySize: maxKey, ValueSize: 4, MaxEntries: uint32(lim.AggKeys)}))
	}
	if l.needs.stacks || l.needs.long {
		add(MapNumber, one(8, 0))
	}
	if l.needs.unwind {
		unwindMaps(add, lim)
	}
	for i, t := range p.Tables {
		add(MapTable+strconv.Itoa(i), hash(ebpf.MapSpec{Type: ebpf.Hash, KeySize: k.keyBytes(tableKey(p, i)), ValueSize: uint32(round8(max(8, t.Value))), MaxEntries: uint32(lim.Dynamic)}))
	}
	for i, a := range p.Aggs {
		at := l.aggs[i]
		if m := o.Maps[at.Map]; m != nil {
			m.MaxEntries = at.Index + 1
			continue
		}
		inner := ebpf.MapSpec{Name: "culprit_" + at.Map, Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: uint32(a.Value), MaxEntries: 1}
		if a.Key.Size > 0 {
			// All elements are there from the start: where interrupts are off, as in the scheduler, the kernel can make only one or
			// two as they are needed. A map per CPU would take a third of a second for that, a map with the CPU in its key a millisecond.
			inner = ebpf.MapSpec{Name: inner.Name, Type: ebpf.Hash, KeySize: k.keyBytes(aggKey(a.Key.Size)), ValueSize: uint32(a.Value), MaxEntries: uint32(lim.AggKeys)}
			if a.Sparse {
				inner.MaxEntries *= 2
			}
		}
		// Inner maps stand in it from the start. User space puts another in the place of one to read it at rest.
		add(at.Map, ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: &inner})
	}
	return o, nil
}

// shrink makes the limits smaller where Shrink says so.
func (l *Limits) shrink() {
	for _, v := range []*int{&l.Ring, &l.AggKeys, &l.Dynamic, &l.Stacks, &l.Code, &l.Rows} {
		*v = max(*v/max(1, l.Shrink), min(*v, leastEntries))
	}
}

// leastEntries is how many entries a map keeps however little memory there is.
const leastEntries = 64

// Bytes estimates how many bytes of kernel memory the maps take on a machine with so many CPUs.
func (o *Object) Bytes(cpus int) uint64 {
	var sum uint64
	for _, m := range o.Maps {
		sum += mapBytes(m, cpus)
	}
	return sum
}

// mapBytes estimates what a map takes: elements, what stands around each (struct htab_elem), and whole pages. A map of maps is
// taken for two inner maps an entry, one that is written and one that is read.
func mapBytes(m *ebpf.MapSpec, cpus int) uint64 {
	const element, bucket, page = 48, 16, 4096
	n, key, value := uint64(m.MaxEntries), uint64(m.KeySize+7)&^7, uint64(m.ValueSize+7)&^7
	bytes := n * value
	switch m.Type {
	case ebpf.Hash:
		bytes = n * (element + key + value + bucket)
	case ebpf.PerCPUArray:
		bytes = n * value * uint64(cpus)
	case ebpf.RingBuf:
		bytes = n + 3*page
	case ebpf.ArrayOfMaps:
		bytes = 2 * n * mapBytes(m.InnerMap, cpus)
	}
	return (bytes/page + 1) * page
}

// mostAggMaps is how many aggregations have a map each. A program may refer to 64 maps, the kernel's MAX_USED_MAPS, of which the others
// are a dozen.
const mostAggMaps = 40

// An AggPlace is where an aggregation is kept: a map, and the number of its inner map there.
type AggPlace struct {
	Map   string
	Index uint32
}

// AggPlaces gives the places of all aggregations. Where there are many, those whose keys and values are as long as one another's are in
// one map.
func AggPlaces(p *ir.Program) []AggPlace {
	type shape struct {
		key, value int
		sparse     bool
	}
	last := map[shape]AggPlace{}
	out := make([]AggPlace, len(p.Aggs))
	for i := range p.Aggs {
		a := &p.Aggs[i]
		at := AggPlace{Map: MapAgg + strconv.Itoa(i)}
		if len(p.Aggs) > mostAggMaps {
			s := shape{a.Key.Size, a.Value, a.Sparse}
			if before, ok := last[s]; ok {
				at = AggPlace{before.Map, before.Index + 1}
			}
			last[s] = at
		}
		out[i] = at
	}
	return out
}

// mmapable is the kernel's BPF_F_MMAPABLE: user space writes single words of the map, without a race with the kernel's side.
const mmapable = 1 << 10

// taskStorage is a map that gives each thread a value. The kernel wants to know its types.
func taskStorage(size uint32) ebpf.MapSpec {
	word := &btf.Int{Name: "unsigned int", Size: 4, Encoding: btf.Unsigned}
	byte := &btf.Int{Name: "unsigned char", Size: 1, Encoding: btf.Unsigned}
	return ebpf.MapSpec{
		Type: ebpf.TaskStorage, KeySize: 4, ValueSize: size, Flags: flagNoPrealloc,
		Key: word, Value: &btf.Struct{Name: "self", Size: size, Members: []btf.Member{{Name: "bytes", Type: &btf.Array{Index: word, Type: byte, Nelems: size}}}},
	}
}

// distribution says that a function counts in buckets.
func distribution(f check.AggFunc) bool {
	return f == check.Quantize || f == check.Lquantize || f == check.Llquantize
}

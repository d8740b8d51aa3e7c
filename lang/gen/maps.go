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

// The kernel's map flags (include/uapi/linux/bpf.h).
const (
	flagNoPrealloc = 1 << 0 // BPF_F_NO_PREALLOC
	flagReadOnly   = 1 << 7 // BPF_F_RDONLY_PROG
)

// nesting is the default number of nested firings with memory: task, softirq, interrupt, NMI.
const nesting = 4

// deepest is the highest depth of a stack, unless kernel.perf_event_max_stack differs.
const deepest = 127

// nestingMost is the highest number of areas that programs search, whatever the map's size.
const nestingMost = 8

// layout is the placement of gen's own data in ir's maps.
//
//	scratch of a firing: | u64: taken | u64: index of the area | u64: numbers used | ir's Scratch
//	                     | spilled registers | u64 | text | stack | walk | key to cut | padding |
//	literals:            | ir's Literals | zeroes |
type layout struct {
	spill, words, text, stack, walk, long, scratch int   // offsets in scratch, and its size
	frames                                         int   // highest depth of any stack
	stacks                                         []int // highest depth per map of stacks
	zeroes, literals                               int   // offset in literals, and its size
	// bytes of the globals, including padding for copies
	globals int
	needs   needs
	aggs    []AggPlace
}

// scratchHeader is the size of the words before ir's Scratch: whether it is taken, and the words
// that fresh uses.
const (
	scratchSlot   = 8
	scratchCount  = 16
	scratchHeader = 24
)

// A needs is the maps that a program uses.
type needs struct {
	scratch, globals, self, literals, ring, stacks, frames, unwind, text, spec, running, long bool
}

// machineRegs keep their values through calls; r9 is the address of the scratch memory.
//
// table: a constant that Go can't express
var machineRegs = []asm.Register{asm.R6, asm.R7, asm.R8}

// The stack of a program, from its top, in slots of 8 bytes. Called functions use the rest.
const (
	slotCtx   = -8
	slotTime  = -16 // the time of the clause
	slotSelf  = -24 // the address of the thread's variables
	slotRow   = -32 // the row of the current probe, of several
	slotZero  = -40 // the key 0
	slotTemp  = -56 // 16 bytes, for arguments of helpers
	slotHold  = -72 // two values of a step, across calls
	slotOther = -80 // 1: a system call of a 32-bit process, whose arguments are in other registers
	slotRegs  = slotOther
	slotBegan = -88 // with -x cost: the time at which the clause began
	slotRan   = -96 // with -x cost: 1 if the clause's predicate holds
	slotLimit = -512 + 160
)

func round8(n int) int { return (n + 7) &^ 7 }

// lay computes the needs and the layout of a program.
func lay(p *ir.Program, k Kernel) layout {
	l := layout{aggs: AggPlaces(p)}
	n := &l.needs
	zeroes, spilled, copies := p.StrSize, 0, false
	for _, f := range p.Clauses {
		_, _, s := allocate(f, machineRegs, firstSlot(p), slotLimit)
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
					// and an Ending
					l.frames = max(l.frames, s.N+bit(k.Unwind && s.Space == check.User))
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
		at += textBytes(p)
	}
	l.stack = at
	if n.frames {
		at += stackBytes(l.frames)
	}
	l.walk = at
	if n.unwind {
		at += walkState
	}
	l.long = at
	if n.long {
		at += maxKey
	}
	// The verifier treats the start and the length of a copy as unrelated.
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

// mayFault reports whether an argument of a probe may be in user memory.
func mayFault(probes []*check.Probe, n int) bool {
	return slices.ContainsFunc(probes, func(p *check.Probe) bool {
		if p.Operands == nil {
			return p.Site == check.SiteUprobe && n >= 6
		}
		return n < len(p.Operands) && p.Operands[n].Kind == check.OperandMemory ||
			mayFault(p.Also, n)
	})
}

// Maps returns the maps of a script. The error wraps measure.ErrUnsupported when the kernel lacks a
// kind of map.
func Maps(p *ir.Program, k Kernel, lim Limits) (*Object, error) {
	l := lay(p, k)
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&lim.Ring, 4<<20)
	if lim.AggKeys <= 0 && len(p.Aggs) > mostAggMaps {
		// they share the memory of the highest number of maps
		lim.AggKeys = 1 << 16 * mostAggMaps / len(p.Aggs)
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
		return ebpf.MapSpec{
			Type:       ebpf.Array,
			KeySize:    4,
			ValueSize:  uint32(size),
			MaxEntries: 1,
			Flags:      uint32(flags),
		}
	}
	add(MapState, one(16, 0))
	add(
		MapDrops,
		ebpf.MapSpec{
			Type:       ebpf.PerCPUArray,
			KeySize:    4,
			ValueSize:  8,
			MaxEntries: uint32(ir.DropCount),
		},
	)
	if p.CountsCosts() {
		add(MapCost, costMap(p))
	}
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
		add(
			MapRunning,
			ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 24, MaxEntries: 1},
		)
	}
	if l.needs.spec {
		add(MapSpec, one(8*p.Speculations(), mmapable))
	}
	if l.needs.literals {
		m := one(l.literals, flagReadOnly)
		m.Contents = []ebpf.MapKV{
			{
				Key: uint32(0),
				Value: append(
					append([]byte(nil), p.Literals...),
					make([]byte, l.literals-len(p.Literals))...),
			},
		}
		add(MapLiterals, m)
	}
	if l.needs.self {
		size := uint32(round8(max(8, p.Self)))
		if k.TaskStorage {
			add(MapSelf, taskStorage(size))
		} else {
			add(MapSelf, hash(ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: size,
				MaxEntries: uint32(lim.Dynamic)}))
		}
	}
	if l.needs.scratch {
		add(
			MapScratch,
			ebpf.MapSpec{
				Type:       ebpf.PerCPUArray,
				KeySize:    4,
				ValueSize:  uint32(l.scratch),
				MaxEntries: uint32(lim.Nesting),
			},
		)
	}
	if l.needs.stacks {
		for i, frames := range l.stacks {
			name := MapStacks + strconv.Itoa(i)
			inner := hash(ebpf.MapSpec{
				Name:       "culprit_" + name,
				Type:       ebpf.Hash,
				KeySize:    uint32(8 + 8*frames),
				ValueSize:  4,
				MaxEntries: uint32(lim.Stacks),
			})
			add(name, replaceable(inner))
		}
	}
	if l.needs.long {
		add(
			MapLong,
			hash(
				ebpf.MapSpec{
					Type:       ebpf.Hash,
					KeySize:    maxKey,
					ValueSize:  4,
					MaxEntries: uint32(lim.AggKeys),
				},
			),
		)
	}
	if l.needs.stacks || l.needs.long {
		add(MapNumber, one(8, 0))
	}
	if l.needs.unwind {
		unwindMaps(add, lim)
	}
	for i, t := range p.Tables {
		most := uint32(lim.Dynamic)
		if t.Var.Single() {
			most = 2 // the kernel may add an element before it frees the old one
		}
		add(
			MapTable+strconv.Itoa(i),
			hash(
				ebpf.MapSpec{
					Type:       ebpf.Hash,
					KeySize:    k.keyBytes(tableKey(p, i)),
					ValueSize:  uint32(round8(max(8, t.Value))),
					MaxEntries: most,
				},
			),
		)
	}
	for i, a := range p.Aggs {
		at := l.aggs[i]
		if m := o.Maps[at.Map]; m != nil {
			m.MaxEntries = at.Index + 1
			continue
		}
		inner := ebpf.MapSpec{
			Name:       "culprit_" + at.Map,
			Type:       ebpf.PerCPUArray,
			KeySize:    4,
			ValueSize:  uint32(a.Value),
			MaxEntries: 1,
		}
		if a.Key.Size > 0 {
			// Preallocated: with interrupts disabled, as in the scheduler, the kernel can allocate
			// only one or two elements on demand. A map per CPU would take a third of a second to
			// create, a map with the CPU in its key a millisecond.
			inner = ebpf.MapSpec{
				Name:       inner.Name,
				Type:       ebpf.Hash,
				KeySize:    k.keyBytes(aggKey(a.Key.Size)),
				ValueSize:  uint32(a.Value),
				MaxEntries: uint32(lim.AggKeys),
			}
			if a.Sparse {
				inner.MaxEntries *= 2
			}
		}
		add(at.Map, replaceable(inner))
	}
	return o, nil
}

// replaceable returns an array of one inner map. The inner map is in it from the start. User space
// replaces it to read it while no program writes to it.
func replaceable(inner ebpf.MapSpec) ebpf.MapSpec {
	return ebpf.MapSpec{
		Type:       ebpf.ArrayOfMaps,
		KeySize:    4,
		ValueSize:  4,
		MaxEntries: 1,
		InnerMap:   &inner,
	}
}

// shrink divides the limits by Shrink.
func (l *Limits) shrink() {
	for _, v := range []*int{&l.Ring, &l.AggKeys, &l.Dynamic, &l.Stacks, &l.Code, &l.Rows} {
		*v = max(*v/max(1, l.Shrink), min(*v, leastEntries))
	}
}

// leastEntries is the lowest number of entries of a map.
const leastEntries = 64

// Bytes estimates the kernel memory of the maps in bytes, for a number of CPUs.
func (o *Object) Bytes(cpus int) uint64 {
	var sum uint64
	for _, m := range o.Maps {
		sum += mapBytes(m, cpus)
	}
	return sum
}

// mapBytes estimates the size of a map: elements with their struct htab_elem, rounded up to pages.
// A map of maps counts as two inner maps per entry, one written and one read.
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

// mostAggMaps is the highest number of aggregations with a map each. A program may refer to 64 maps
// (MAX_USED_MAPS), of which the others are a dozen.
const mostAggMaps = 40

// An AggPlace is the location of an aggregation: a map, and the index of its inner map.
type AggPlace struct {
	Map   string
	Index uint32
}

// AggPlaces returns the locations of all aggregations. When there are many, those with equal sizes
// of keys and values share a map.
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

// mmapable is the kernel's BPF_F_MMAPABLE: user space can write single words of the map without a
// race.
const mmapable = 1 << 10

// taskStorage returns a map with a value per thread. The kernel requires its types.
func taskStorage(size uint32) ebpf.MapSpec {
	word := &btf.Int{Name: "unsigned int", Size: 4, Encoding: btf.Unsigned}
	byte := &btf.Int{Name: "unsigned char", Size: 1, Encoding: btf.Unsigned}
	return ebpf.MapSpec{
		Type: ebpf.TaskStorage, KeySize: 4, ValueSize: size, Flags: flagNoPrealloc,
		Key: word,
		Value: &btf.Struct{
			Name: "self",
			Size: size,
			Members: []btf.Member{
				{Name: "bytes", Type: &btf.Array{Index: word, Type: byte, Nelems: size}},
			},
		},
	}
}

// distribution reports whether a function counts in buckets.
func distribution(f check.AggFunc) bool {
	return f == check.Quantize || f == check.Lquantize || f == check.Llquantize
}

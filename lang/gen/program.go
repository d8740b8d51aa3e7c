package gen

import (
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// A builder generates one program.
type builder struct {
	emitter
	p       *ir.Program
	k       Kernel
	lay     layout
	probes  []*check.Probe
	clauses []int
	site    check.Site
	arm     bool

	record    bool // the context is perf's record of raw_syscalls:sys_enter or sys_exit
	numbering numbering
	// otherPID is the offset of the thread's ID in task_struct, if the probe is not about the
	// current thread.
	otherPID int

	code     Code
	leave    label // the end of the program, without scratch memory to release
	table    table // of several probes
	routines routines
	current  clauseState
}

// routines are the functions of a program besides its entry.
type routines struct {
	subs      []sub    // called functions, generated at the end
	later     []func() // generate other code at the end
	callbacks int      // number of functions that helpers call
	callers   []reach
	analyzed  bool // callers is computed
}

// clauseState is the state of the clause that is being generated.
type clauseState struct {
	f        *ir.Func
	locs     []loc
	pointers []bool // registers that may contain pointers tracked by the verifier
	flow     flow   // what is available here
	end      label
	ends     flow // at end
}

// A sub is a function of the program.
type sub struct {
	name  string
	at    label
	make  func()
	first int // first instruction
}

// describe adds the types of the functions, which the kernel requires when helpers call some of
// them.
func (b *builder) describe() {
	i32 := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	annotate := func(first int, name string) {
		proto := &btf.FuncProto{Return: i32}
		b.ins[first] = btf.WithFuncMetadata(
			b.ins[first], &btf.Func{Name: name, Type: proto, Linkage: btf.StaticFunc},
		)
	}
	annotate(0, "culprit")
	for i, s := range b.routines.subs {
		annotate(s.first, fmt.Sprint("f", i))
	}
}

// A tri is on which of the ways to a step a value is available.
type tri uint8

const (
	never  tri = 1
	always tri = 2
)

// A flow is the values available at a place of the program. Each is computed at its first use, so
// that a probe whose predicate is false does not pay for it. At a join it is the union over the
// ways.
type flow struct {
	scratch tri // r9; 0 in it: not yet
	time    tri // slotTime
	self    tri // slotSelf; 0 in it: not yet, or the thread has no variables
}

func (f *flow) join(g flow) {
	f.scratch |= g.scratch
	f.time |= g.time
	f.self |= g.self
}

func (f flow) reached() bool { return f.scratch != 0 }

func (w *Generator) builder(probes []*check.Probe, clauses []int) (*builder, error) {
	if len(probes) == 0 || len(clauses) == 0 {
		panic("gen: a program without probes or clauses")
	}
	p, k := w.p, w.k
	b := &builder{
		p:       p,
		k:       k,
		lay:     w.lay,
		probes:  probes,
		clauses: clauses,
		site:    probes[0].Site,
		arm:     k.Arch == "arm64",
	}
	for _, pr := range probes {
		if pr.Site != b.site {
			panic("gen: probes of one program have one site")
		}
	}
	if len(probes) > 1 && b.site == check.SiteRun {
		panic("gen: probes of SiteRun must be assembled one by one")
	}
	if k.Arch != "" && k.Arch != "amd64" && k.Arch != "arm64" {
		return nil, fmt.Errorf("code for %s: %w", k.Arch, measure.ErrUnsupported)
	}
	if b.other() {
		var err error
		if b.otherPID, err = b.offset("task_struct", "pid"); err != nil {
			return nil, err
		}
	}
	if err := b.learnNumbers(); err != nil {
		return nil, err
	}
	if b.k.Unwind {
		if _, err := b.offset("task_struct", "mm"); err != nil {
			return nil, err
		}
	}
	b.record = b.wantsRecord()
	if b.lay.scratch > maxScratch {
		return nil, fmt.Errorf("%d bytes of memory a firing: %w", b.lay.scratch, ErrTooLarge)
	}
	return b, nil
}

// maxScratch is the largest value of a per-CPU map: the kernel's PCPU_MIN_UNIT_SIZE.
const maxScratch = 32 << 10

// manyClauses is how many clauses a program has at most whose code is for speed of execution. That
// of others is for speed of loading, which takes the kernel more than twice as long for
// twice as many clauses.
const manyClauses = 32

// many reports whether the program has many clauses.
func (b *builder) many() bool { return len(b.clauses) > manyClauses }

// build generates the program:
//
//	identify the probe; if it is none of ours: leave
//	for each clause: if the script's state allows it: the steps
//	release the scratch memory
//	leave
//	functions
func (b *builder) build() (*Code, error) {
	b.leave = b.label()
	b.target()
	b.store(asm.R10, slotCtx, asm.R1, 8)
	b.movImm(asm.R9, 0)
	if b.usesZeroKey() {
		b.storeImm(asm.R10, slotZero, 0, 8, asm.R0)
	}
	if b.lay.needs.self {
		b.storeImm(asm.R10, slotSelf, 0, 8, asm.R0)
	}
	if err := b.identify(); err != nil {
		return nil, err
	}
	b.current.flow = flow{never, never, never}
	if b.many() && b.lay.needs.scratch {
		b.scratch()
	}
	for _, n := range b.clauses {
		if err := b.clause(b.p.Clauses[n]); err != nil {
			return nil, err
		}
	}
	b.at.From, b.at.To = 0, 0
	b.release()
	b.bind(b.leave)
	b.movImm(asm.R0, 0)
	b.exit()
	for len(b.routines.later) > 0 {
		later := b.routines.later
		b.routines.later = nil
		for _, f := range later {
			f()
		}
	}
	for i := 0; i < len(b.routines.subs); i++ { // one may call another
		b.bind(b.routines.subs[i].at)
		b.routines.subs[i].first = len(b.ins)
		b.routines.subs[i].make()
	}
	if b.routines.callbacks > 0 {
		b.describe()
	}
	if err := b.resolve(); err != nil {
		return nil, err
	}
	b.code.Instructions, b.code.Origins = b.ins, b.places
	return &b.code, nil
}

// usesZeroKey reports whether the key 0 of a map is looked up.
func (b *builder) usesZeroKey() bool {
	for _, n := range b.clauses {
		for _, bl := range b.p.Clauses[n].Blocks {
			for i := range bl.Steps {
				if s := &bl.Steps[i]; s.Op == ir.OpAggregate ||
					s.Op == ir.OpBuiltin && s.Which == check.BuiltinVTimestamp {
					return true
				}
			}
		}
	}
	return false
}

// usesTime reports whether a clause reads the time.
func usesTime(f *ir.Func) bool {
	for _, bl := range f.Blocks {
		for i := range bl.Steps {
			if s := &bl.Steps[i]; s.Op == ir.OpEmit ||
				s.Op == ir.OpBuiltin &&
					(s.Which == check.BuiltinTimestamp || s.Which == check.BuiltinVTimestamp) {
				return true
			}
		}
	}
	return false
}

// function returns the label of a function, which is generated once.
func (b *builder) function(name string, make func()) label {
	for _, s := range b.routines.subs {
		if s.name == name {
			return s.at
		}
	}
	s := sub{name: name, at: b.label(), make: make}
	b.routines.subs = append(b.routines.subs, s)
	return s.at
}

// target sets the program type.
func (b *builder) target() {
	c := &b.code
	switch b.site {
	case check.SiteRun, check.SiteRawTracepoint:
		c.Type = ebpf.RawTracepoint
	case check.SiteSyscallEntry, check.SiteSyscallReturn:
		c.Type = ebpf.RawTracepoint
		switch {
		case b.record:
			c.Type = ebpf.TracePoint
		case b.k.TypedRaw:
			c.Type, c.Attach, c.AttachTo = ebpf.Tracing, ebpf.AttachTraceRawTp, "sys_enter"
			if b.site == check.SiteSyscallReturn {
				c.AttachTo = "sys_exit"
			}
		}
	case check.SiteTracepointBTF:
		c.Type, c.Attach = ebpf.Tracing, ebpf.AttachTraceRawTp
	case check.SiteFentry:
		c.Type, c.Attach = ebpf.Tracing, ebpf.AttachTraceFEntry
	case check.SiteFexit:
		c.Type, c.Attach = ebpf.Tracing, ebpf.AttachTraceFExit
	case check.SitePerfEvent:
		c.Type = ebpf.PerfEvent
	case check.SiteTracepoint:
		c.Type = ebpf.TracePoint
	default:
		c.Type = ebpf.Kprobe
	}
}

// clause generates one clause.
func (b *builder) clause(f *ir.Func) error {
	b.current.f = f
	b.at = f.Clause.At
	b.current.end = b.label()
	b.current.ends = flow{}
	past := b.current.end // costs of a clause that the state forbids are not counted
	if b.p.CountsCosts() {
		past = b.label()
	}
	if want, always := b.state(); !always {
		b.mapValue(asm.R1, MapState, 0)
		b.load(asm.R1, asm.R1, 0, 8, false)
		b.current.ends.join(b.current.flow)
		// The fall-through is the way past the clause: the verifier follows it first, and allows
		// 8,192 others to return to (BPF_COMPLEXITY_LIMIT_JMP_SEQ), which a thousand clauses would
		// exceed.
		runs := b.label()
		b.ifImm(asm.JEq, asm.R1, want, runs, asm.R0)
		b.jump(past)
		b.bind(runs)
	}
	if b.p.CountsCosts() {
		b.beginCost()
	}
	if b.current.flow.time = never; usesTime(f) {
		b.storeImm(asm.R10, slotTime, 0, 8, asm.R0)
	}
	b.current.locs, _, _ = allocate(f, machineRegs, firstSlot(b.p), slotLimit)
	b.current.pointers = pointersOf(f)
	labels := make([]label, len(f.Blocks))
	flows := make([]flow, len(f.Blocks))
	for i := range labels {
		labels[i] = b.label()
	}
	flows[0] = b.current.flow
	for i, block := range f.Blocks {
		if !flows[i].reached() {
			continue
		}
		b.bind(labels[i])
		b.current.flow = flows[i]
		for j := range block.Steps {
			s := &block.Steps[j]
			if s.At.To > s.At.From {
				b.at = s.At
			}
			switch s.Op {
			case ir.OpJump:
				flows[s.To].join(b.current.flow)
				if s.To != i+1 {
					b.jump(labels[s.To])
				}
			case ir.OpBranch:
				flows[s.To].join(b.current.flow)
				flows[s.Else].join(b.current.flow)
				if s.To == i+1 {
					b.branch(s, negate(s.Cond), labels[s.Else])
				} else {
					b.branch(s, s.Cond, labels[s.To])
					if s.Else != i+1 {
						b.jump(labels[s.Else])
					}
				}
			case ir.OpEnd:
				b.current.ends.join(b.current.flow)
				if i < len(f.Blocks)-1 || j < len(block.Steps)-1 {
					b.jump(b.current.end)
				}
			case ir.OpFault:
				b.current.ends.join(b.current.flow)
				b.fault(s)
			default:
				if err := b.step(s); err != nil {
					return err
				}
			}
		}
	}
	b.bind(b.current.end)
	if b.p.CountsCosts() {
		b.endCost(f)
		b.bind(past)
	}
	b.current.flow = b.current.ends
	return nil
}

// state returns the state that the script must have for the probe's clauses.
func (b *builder) state() (want int64, always bool) {
	if pr := b.probes[0]; pr.Provider == "dtrace" {
		switch pr.Name {
		case "BEGIN":
			return Inactive, false
		case "END":
			return Draining, false
		case "ERROR":
			return 0, true
		}
	}
	return Active, false
}

// scratch ensures that r9 is the address of the scratch memory of this firing. It changes r0 to r5.
func (b *builder) scratch() {
	if b.current.flow.scratch == always {
		return
	}
	had := b.label()
	if b.current.flow.scratch != never {
		b.ifImm(asm.JNE, asm.R9, 0, had, asm.R0)
	}
	b.callSub(b.function("claim", b.makeClaim))
	b.ifImm(asm.JEq, asm.R0, 0, b.leave, asm.R1)
	b.mov(asm.R9, asm.R0)
	b.bind(had)
	b.current.flow.scratch = always
}

// makeClaim makes the function that claims scratch memory for a firing: the first free area of the
// CPU. The atomic exchange also works when another program preempts this one. It zeroes this->. It
// returns 0, counted as a loss, when all areas are taken.
func (b *builder) makeClaim() {
	got, none := b.label(), b.label()
	for n := range nestingMost {
		next := b.label()
		b.storeImm(asm.R10, -8, int64(n), 8, asm.R0)
		b.mapPtr(asm.R1, MapScratch)
		b.mov(asm.R2, asm.R10)
		b.aluImm(asm.Add, asm.R2, -8, asm.R0)
		b.call(asm.FnMapLookupElem)
		b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
		if b.k.AtomicFetch {
			b.movImm(asm.R1, 1)
			b.atomic(asm.Xchg, asm.R0, 0, asm.R1)
		} else {
			b.load(asm.R1, asm.R0, 0, 8, false)
			b.storeImm(asm.R0, 0, 1, 8, asm.R2)
			b.storeImm(asm.R0, scratchSlot, int64(n), 8, asm.R2)
		}
		b.ifImm(asm.JEq, asm.R1, 0, got, asm.R2)
		b.bind(next)
	}
	b.bind(none)
	b.drop(ir.DropNested)
	b.movImm(asm.R0, 0)
	b.exit()
	b.bind(got)
	b.zeroFill(asm.R0, scratchHeader, round8(b.p.This))
	b.exit()
}

// release releases the scratch memory.
func (b *builder) release() {
	if b.current.flow.scratch == never || !b.current.flow.reached() {
		return
	}
	if b.current.flow.scratch != always {
		b.ifImm(asm.JEq, asm.R9, 0, b.leave, asm.R0)
	}
	b.storeImm(asm.R9, 0, 0, 8, asm.R0)
}

// zeroFill writes size zeroes, a multiple of 8, at base. For large sizes it changes r1 to r3.
func (b *builder) zeroFill(base asm.Register, off, size int) {
	const most = 64 // words written without a loop
	if size/8 <= most {
		for i := 0; i < size; i += 8 {
			b.storeImm(base, off+i, 0, 8, asm.R1)
		}
		return
	}
	again := b.label()
	b.mov(asm.R1, base)
	b.aluImm(asm.Add, asm.R1, int64(off), asm.R2)
	b.movImm(asm.R2, 0)
	const stride = 16
	n := size / 8 / stride
	b.bind(again)
	for i := range stride {
		b.storeImm(asm.R1, 8*i, 0, 8, asm.R3)
	}
	b.aluImm(asm.Add, asm.R1, 8*stride, asm.R3)
	b.aluImm(asm.Add, asm.R2, 1, asm.R3)
	b.ifImm(asm.JLT, asm.R2, int64(n), again, asm.R3)
	for i := n * stride * 8; i < size; i += 8 {
		b.storeImm(asm.R1, i-n*stride*8, 0, 8, asm.R3)
	}
}

// time leaves the time of the clause in r0.
func (b *builder) time() {
	if b.current.flow.time == always {
		b.load(asm.R0, asm.R10, slotTime, 8, false)
		return
	}
	had := b.label()
	if b.current.flow.time != never {
		b.load(asm.R0, asm.R10, slotTime, 8, false)
		b.ifImm(asm.JNE, asm.R0, 0, had, asm.R1)
	}
	b.call(asm.FnKtimeGetNs)
	b.store(asm.R10, slotTime, asm.R0, 8)
	b.bind(had)
	b.current.flow.time = always
}

// drop counts a loss, inline or in a function.
func (b *builder) drop(d ir.Drop) {
	b.movImm(asm.R1, int64(d))
	b.callSub(b.function("drop", func() {
		none := b.label()
		b.store(asm.R10, -8, asm.R1, 8)
		b.mapPtr(asm.R1, MapDrops)
		b.mov(asm.R2, asm.R10)
		b.aluImm(asm.Add, asm.R2, -8, asm.R0)
		b.call(asm.FnMapLookupElem)
		b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
		b.movImm(asm.R1, 1)
		b.atomic(asm.AddAtomic, asm.R0, 0, asm.R1)
		b.bind(none)
		b.movImm(asm.R0, 0)
		b.exit()
	}))
}

// fault writes the fault record and ends the clause.
func (b *builder) fault(s *ir.Step) {
	if s.A != ir.None {
		b.getNumber(asm.R3, s.A)
	} else {
		b.movImm(asm.R3, s.Imm)
	}
	b.faultAt(s.Fault)
}

// faultAt is fault with the address in r3.
func (b *builder) faultAt(f ir.Fault) {
	b.movImm(asm.R1, int64(uint64(f)<<32|uint64(uint32(b.current.f.Clause.Index))))
	b.movImm(asm.R2, int64(uint64(uint32(b.at.To))<<32|uint64(uint32(b.at.From))))
	b.probeID(asm.R4)
	b.callSub(b.function("fault", b.makeFault))
	b.jump(b.current.end)
}

// faultOf ends the clause with a fault whose address or size is in r.
func (b *builder) faultOf(f ir.Fault, r ir.Reg) {
	b.getNumber(asm.R3, r)
	b.current.ends.join(b.current.flow)
	b.faultAt(f)
}

// makeFault makes the function that writes ir's fault record: r1 clause and kind, r2 position, r3
// address, r4 probe.
func (b *builder) makeFault() {
	const at = -48
	kept := b.label()
	b.storeImm(asm.R10, at+8, ir.FaultRecord, 4, asm.R0)
	b.store(asm.R10, at+12, asm.R4, 4)
	b.store(asm.R10, at+24, asm.R1, 8)
	b.store(asm.R10, at+32, asm.R2, 8)
	b.store(asm.R10, at+40, asm.R3, 8)
	b.call(asm.FnKtimeGetNs)
	b.store(asm.R10, at, asm.R0, 8)
	b.call(asm.FnGetSmpProcessorId)
	b.store(asm.R10, at+16, asm.R0, 4)
	b.ids()
	b.store(asm.R10, at+20, asm.R0, 4)
	b.mapPtr(asm.R1, MapRing)
	b.mov(asm.R2, asm.R10)
	b.aluImm(asm.Add, asm.R2, at, asm.R0)
	b.movImm(asm.R3, 48)
	b.movImm(asm.R4, 0)
	b.call(asm.FnRingbufOutput)
	b.ifImm(asm.JEq, asm.R0, 0, kept, asm.R1)
	b.drop(ir.DropRecord)
	b.bind(kept)
	b.movImm(asm.R0, 0)
	b.exit()
}

package trace

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"culprit/kernel/bpf"
	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/measure"
	"culprit/symbol"
	"culprit/trace/probe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// A Session is a script in the kernel: its maps and programs, and what they are attached to. All of
// it hangs on file descriptors of this process. It is used by one goroutine.
type Session struct {
	Budget Budget // the most that it may take; 0: no bound. Count must have been asked for

	script    *Compiled
	maps      *ebpf.Collection
	runs      []run // what is run by hand, in the order of the text
	ring      *ringbuf.Reader
	aggs      []*Aggregate
	probes    map[uint32]*check.Probe
	kernel    *symbol.Kernel
	processes *symbol.Processes
	// processes whose addresses are to have names when they have ended
	known    []int
	unwinder *unwinder // nil: user stacks are not walked by tables
	// of the script's commands; nil: there are none, or they can't be followed
	follower   *follower
	pointers   string                  // why they follow frame pointers although that was not asked for; "": they don't
	stacks     map[uint32]format.Value // by id, once they were looked up
	raw        map[uint32][]uint64     // those that were read, and are not
	inlining   time.Duration           // CPU time of looking for inlined functions
	frames     *frames                 // of stacks, in place of both; nil: stacks are text
	batches    batches                 // to read stacks
	attached   *probe.Attachment
	detached   bool
	off        sync.WaitGroup          // until it is
	helpers    []*bpf.Link             // of programs besides those of the probes
	late       []record                // drained, and too young to be delivered
	drops      [ir.DropMissed][]uint64 // by CPU, as last reported
	missed     uint64                  // firings that the kernel left out, as last reported
	tooLate    uint64                  // ticks that were left out since the last report
	pass       uint64                  // number of the last delivery of records
	delivering bool                    // it goes on
	watching   bool                    // the clauses of attached programs run, or did
	over       bool                    // no clause runs any more but by hand
	resting    chan error              // of the programs that still run then; nil: none does
	counting   io.Closer               // of what programs take; nil: not asked for
	spent      []Cost                  // at the last look
	OnStart    func()                  // called when the clauses run; nil: nothing
	RunOn      func(func())            // runs what is run by hand
	// done each second by the goroutine that runs the session; nil: nothing
	EachSecond func() error
	// what is to be done between two looks, by the goroutine that runs the session
	asks chan func()
	cut  time.Time // up to when the last gathering went
	// looks one after the other that found more than the budget
	overBudget    int
	maxOverBudget int    // how many of them are borne
	pieces        pieces // of stacks, where keys can't be long
	// pieces of keys by number, as gen.MapLong had them when it was read last
	long map[uint32][]byte
	// how many times smaller maps are than usual; 0, 1: the usual size
	shrunk  int
	release func() // returns the memory of the maps to the script's pool
}

// A run is a program that is run by hand.
type run struct {
	probe   *check.Probe
	program *ebpf.Program
	every   time.Duration // of a tick; 0: BEGIN, END, ERROR
	next    time.Time
}

// Load brings a script into the kernel: nothing runs yet. The caller closes the session. Where
// locked memory is limited and the limit counts (kernel.MemoryLimit), maps have less room, down to
// a small part of the usual; Shrunk tells.
func Load(c *Compiled, env *probe.Env) (*Session, error) {
	return shrinking(
		c.limits,
		func(l gen.Limits) (*Session, error) { return load(c, env, l) },
		func() uint64 {
			object, err := gen.Maps(c.IR, c.kernel, c.limits)
			if err != nil {
				return 0
			}
			return object.Bytes(c.kernel.CPUs)
		},
	)
}

// load is Load with limits.
func load(c *Compiled, env *probe.Env, limits gen.Limits) (s *Session, err error) {
	object, err := gen.Maps(c.IR, c.kernel, limits)
	if err != nil {
		return nil, err
	}
	release, err := c.memory.take(object.Bytes(c.kernel.CPUs))
	if err != nil {
		return nil, err
	}
	spec := &ebpf.CollectionSpec{
		Maps:     maps.Clone(object.Maps),
		Programs: map[string]*ebpf.ProgramSpec{},
	}
	for name, m := range spec.Maps {
		// what is made as a pattern, and thrown away, may be smaller
		if m.InnerMap != nil && m.InnerMap.Type == ebpf.Hash {
			m, small := *m, *m.InnerMap
			m.InnerMap, small.MaxEntries = &small, 1
			spec.Maps[name] = &m
		}
	}
	for i, u := range c.Units {
		maps.Copy(spec.Maps, u.Code.Maps)
		// The instructions are given to the kernel under a licence that lets them call what tracing
		// needs.
		program := &ebpf.ProgramSpec{
			Name:         "culprit_d",
			Type:         u.Code.Type,
			AttachType:   u.Code.Attach,
			AttachTo:     u.Code.AttachTo,
			Instructions: u.Code.Instructions,
			License:      "GPL",
		}
		env.Fit(program, u.Probes)
		spec.Programs[programName(i)] = program
	}
	for i, h := range c.helpers {
		spec.Programs[helperName(i)] = &ebpf.ProgramSpec{
			Name:         "culprit_help",
			Type:         h.Type,
			Instructions: h.Instructions,
			License:      "GPL",
		}
	}
	s = &Session{
		script:    c,
		batches:   batches{},
		probes:    map[uint32]*check.Probe{},
		kernel:    env.KernelSymbols(),
		processes: symbol.NewProcesses(env.Root()),
		RunOn:     func(f func()) { f() },
		stacks:    map[uint32]format.Value{},
		asks:      make(chan func()),
		shrunk:    limits.Shrink,
		release:   release,
	}
	if c.kernel.Namespace != nil {
		s.processes.Inside()
	}
	err = bpf.Locking(env.Root(), func() (err error) {
		s.maps, err = ebpf.NewCollectionWithOptions(
			spec, ebpf.CollectionOptions{Cache: env.Types().Cache()},
		)
		return err
	})
	if err != nil {
		release()
		return nil, c.rejected(err)
	}
	loaded := s // returns of an error set s to nil before they come here
	defer func() {
		if err != nil {
			loaded.Close()
		}
	}()
	for i, at := range gen.AggPlaces(c.IR) {
		a, err := newAggregate(&c.IR.Aggs[i], object.Maps[at.Map], s.maps.Maps[at.Map], at.Index, s)
		if err != nil {
			return nil, err
		}
		s.aggs = append(s.aggs, a)
	}
	if m := s.maps.Maps[gen.MapRing]; m != nil {
		if s.ring, err = ringbuf.NewReader(m); err != nil {
			return nil, fmt.Errorf("read the ring buffer: %w", err)
		}
	}
	if err := s.set(gen.Inactive); err != nil {
		return nil, fmt.Errorf("hold the clauses back: %w", err)
	}
	for i, h := range c.helpers {
		link, err := probe.AttachTracepoint(s.maps.Programs[helperName(i)], h.AttachTo, 0)
		if err != nil {
			return nil, fmt.Errorf("attach to tracepoint %s: %w", h.AttachTo, err)
		}
		s.helpers = append(s.helpers, link)
	}
	var placed []probe.Placed
	for i, u := range c.Units {
		program := s.maps.Programs[programName(i)]
		for _, p := range u.Probes {
			s.probes[p.ID] = p
		}
		if u.Probes[0].Site == check.SiteRun {
			s.runs = append(
				s.runs,
				run{
					probe:   u.Probes[0],
					program: program,
					every:   time.Duration(env.Every(u.Probes[0])),
				},
			)
			continue
		}
		placed = append(placed, probe.Placed{Program: program, Probes: u.Probes, CPU: u.CPU})
	}
	if s.attached, err = env.Attach(placed); err != nil {
		return nil, err
	}
	s.known = env.KnownProcesses()
	s.openMappedFiles()
	if s.unwinder, err = newUnwinder(env.Root(), s.maps.Maps, func(pid int) {
		s.processes.OpenMappedFiles(pid) //nolint:errcheck // one that can't be looked into has no names, which is reported
	}); err != nil {
		return nil, err
	}
	s.pointers = pointers(c, env, s.unwinder)
	s.PreloadUnwindTables(s.known)
	if len(env.Started) > 0 && namesUser(c.Program.Text) {
		s.follower = newFollower(env.Root(), env.Started, s.processes, s.unwinder)
	}
	return s, nil
}

func helperName(n int) string { return fmt.Sprint("helper", n) }

func programName(unit int) string { return fmt.Sprint("unit", unit) }

// Program returns the checked script.
func (s *Session) Program() *check.Program { return s.script.Program }

// Aggregations returns all aggregations of the script. It reads nothing from the kernel.
func (s *Session) Aggregations() []*Aggregate { return s.aggs }

// Attachment returns what was attached, and what could not be.
func (s *Session) Attachment() *probe.Attachment { return s.attached }

// PreloadUnwindTables loads the unwind tables of processes before there is a sample of them.
func (s *Session) PreloadUnwindTables(pids []int) {
	if s.unwinder == nil {
		return
	}
	for _, pid := range pids {
		s.unwinder.loadProcess(pid, 0)
	}
}

// Close takes everything out of the kernel. It may be called twice.
func (s *Session) Close() {
	s.detach()
	s.off.Wait()
	s.follower.close()
	s.unwinder.close()
	s.unwinder = nil
	_ = s.rest() // what it came to matters no more
	for _, a := range s.aggs {
		a.close()
	}
	if s.ring != nil {
		s.ring.Close() //nolint:errcheck // nothing was written
	}
	if s.maps != nil {
		s.maps.Close()
	}
	s.release()
	s.processes.Close() //nolint:errcheck // its files were read from
}

// openMappedFiles opens the files that the processes of the script have mapped since the last call.
func (s *Session) openMappedFiles() {
	s.follower.catchUp()
	for _, pid := range s.known {
		s.processes.OpenMappedFiles(pid) //nolint:errcheck // one that can't be read has no names, which is reported
	}
}

// detach begins to take all programs off: where they are in processes that takes the kernel 20 to
// 40 ms, in which there is other work to do.
func (s *Session) detach() {
	if s.counting != nil {
		s.counting.Close() //nolint:errcheck // the kernel stops counting when the process ends
		s.counting = nil
	}
	if s.detached {
		return
	}
	s.detached = true
	attached, helpers := s.attached, s.helpers
	s.off.Go(func() {
		attached.Close() //nolint:errcheck // the kernel lets go of it when the process ends
		for _, h := range helpers {
			h.Close() //nolint:errcheck // the same
		}
	})
}

// set sets which clauses may run.
func (s *Session) set(state uint64) error {
	return s.maps.Maps[gen.MapState].Put(
		uint32(0), [2]uint64{state, uint64(time.Now().UnixNano()) - monotonic()},
	)
}

// ended reports whether exit() was called.
func (s *Session) ended() bool {
	var state [2]uint64
	return s.maps.Maps[gen.MapState].Lookup(uint32(0), &state) == nil && state[0] == gen.Draining
}

// fire runs the clauses of a probe that is run by hand.
func (s *Session) fire(r *run, args ...uint64) error {
	var err error
	s.RunOn(func() { _, err = probe.RunOnce(r.program, args...) })
	if err != nil {
		return fmt.Errorf("run %v: %w", r.probe, err)
	}
	return nil
}

// ownPlace returns an address in this program.
func ownPlace() uint64 { return uint64(reflect.ValueOf(monotonic).Pointer()) }

// special fires BEGIN, END or ERROR, if the script has it.
func (s *Session) special(name string, args ...uint64) error {
	for i := range s.runs {
		if r := &s.runs[i]; r.every == 0 && r.probe.Name == name {
			return s.fire(r, args...)
		}
	}
	return nil
}

// A Listener receives what a session sees, in the order in which it happened. An error that a
// method returns ends the session.
type Listener interface {
	// Record receives what one execution of a clause wrote. The record is valid until Record
	// returns.
	Record(*Record) error
	// Fault receives the fault that ended a clause early.
	Fault(*FaultReport) error
	// Drops receives how many events of a kind were lost on a CPU since the last call.
	Drops(kind ir.Drop, cpu int, n uint64) error
	// Pause is called when all that was read is delivered.
	Pause() error
	// End is called once, after the last record. Aggregates returns what is left then.
	End() error
}

// How often a session looks, unless its options say otherwise.
const (
	drainEach  = 100 * time.Millisecond
	statusEach = time.Second
)

// Run runs the script until it exits, the context ends, or over is closed, and calls the listener.
// It returns the status of exit(). It fails when a program cannot be run or the kernel's maps
// cannot be read; the error is an *ErrBudget when the script was over its budget.
func (s *Session) Run(
	ctx context.Context, l Listener, over <-chan struct{},
) (status int, failed error) {
	d := &delivery{
		session: s,
		to:      l,
		alone: over == nil && !s.attached.HasLinks() &&
			!slices.ContainsFunc(s.runs, func(r run) bool { return r.every > 0 }),
	}
	defer func() { status = d.status }()
	if s.HasOption("destructive") {
		// Before its first program, Go makes a process to see what the kernel can: the script is
		// not to see that one.
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Release() //nolint:errcheck // nothing is held
		}
	}
	if err := s.special("BEGIN"); err != nil {
		return 0, err
	}
	if !s.ended() {
		if err := s.set(gen.Active); err != nil {
			return 0, fmt.Errorf("let the clauses run: %w", err)
		}
		s.watching = s.attached.HasLinks()
		if s.OnStart != nil {
			s.OnStart()
		}
		var budget *ErrBudget
		if err := s.wait(ctx, d, over); errors.As(err, &budget) { // its data is still reported
			defer func() { failed = errors.Join(failed, budget) }()
		} else if err != nil {
			return 0, err
		}
	}
	if err := s.missing(d); err != nil {
		return 0, err
	}
	if err := s.set(gen.Draining); err != nil { // first: it is a while until all are off
		return 0, fmt.Errorf("stop the clauses: %w", err)
	}
	s.finish()
	s.detach()
	if s.ring != nil {
		s.off.Wait() // what runs still may write
	}
	// so that what END does comes after all that was before it
	if err := s.drain(d, true); err != nil {
		return 0, err
	}
	if err := s.special("END"); err != nil {
		return 0, err
	}
	if err := s.drain(d, true); err != nil {
		return 0, err
	}
	if err := s.lost(d); err != nil {
		return 0, err
	}
	return 0, l.End()
}

// wait runs the ticks and drains until the end.
func (s *Session) wait(ctx context.Context, d *delivery, over <-chan struct{}) error {
	now := time.Now()
	// longer than a second would only lose more
	each := time.Duration(check.OptionSpan(s.script.Program.Options.All["switchrate"]))
	each = min(max(cmp.Or(each, drainEach), time.Millisecond), time.Second)
	drain, status := now.Add(each), now.Add(statusEach)
	s.startTicks(now)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !s.ended() {
		next := drain
		if r := s.nextTick(); r != nil && r.next.Before(next) {
			next = r.next
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return s.endTicks(d)
		case <-over:
			return s.endTicks(d)
		case f := <-s.asks:
			f()
		case <-timer.C:
		}
		now = time.Now()
		switch fired, err := s.ticks(now); {
		case err != nil:
			return err
		case fired > 0:
			drain = now // what a tick prints is printed at once
		}
		if !drain.After(now) {
			if err := s.drain(d, false); err != nil {
				return err
			}
			drain = now.Add(each)
		}
		if !status.After(now) {
			if err := errors.Join(s.lost(d), s.missing(d)); err != nil {
				return err
			}
			s.openMappedFiles()
			if s.EachSecond != nil {
				if err := s.EachSecond(); err != nil {
					return err
				}
			}
			if err := s.afford(measure.Span(now.Sub(status) + statusEach)); err != nil {
				return err
			}
			status = now.Add(statusEach)
		}
	}
	return nil
}

// missing reports the firings and ticks that were left out since the last call. The counts can be
// read as long as programs are attached.
func (s *Session) missing(d *delivery) error {
	if err := s.skipped(d); err != nil {
		return err
	}
	m := s.attached.Missed()
	sum := m.Nested + m.Returns
	if sum <= s.missed {
		return nil
	}
	n := sum - s.missed
	s.missed = sum
	return d.to.Drops(ir.DropMissed, 0, n)
}

// lost reports what was dropped since the last call.
func (s *Session) lost(d *delivery) error {
	if err := d.held.lost(d.to); err != nil {
		return err
	}
	m := s.maps.Maps[gen.MapDrops]
	if m == nil {
		return nil
	}
	for kind := range ir.DropMissed {
		var each []uint64
		if err := m.Lookup(uint32(kind), &each); err != nil {
			return fmt.Errorf("read what was dropped: %w", err)
		}
		if s.drops[kind] == nil {
			s.drops[kind] = make([]uint64, len(each))
		}
		for cpu, sum := range each {
			if n := sum - s.drops[kind][cpu]; n > 0 {
				s.drops[kind][cpu] = sum
				if err := d.to.Drops(kind, cpu, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// A record is what one clause wrote, as it lies in the ring.
type record struct {
	time uint64
	cpu  uint32
	raw  []byte
}

// settle is how long a record may take from its time stamp to the ring: younger ones wait for the
// next look, so that those of other CPUs are delivered before them.
const settle = 2 * time.Millisecond

// drain reads the ring and delivers the records by time and CPU. With all, no clause runs any more
// and no record waits for older ones.
func (s *Session) drain(d *delivery, all bool) error {
	if s.ring == nil {
		return nil
	}
	until := monotonic()
	if err := s.read(all); err != nil {
		return err
	}
	s.follower.catchUp() // names are asked for
	slices.SortStableFunc(s.late, func(a, b record) int {
		if a.time != b.time {
			if a.time < b.time {
				return -1
			}
			return 1
		}
		return int(a.cpu) - int(b.cpu)
	})
	n := len(s.late)
	if !all {
		n, _ = slices.BinarySearchFunc(s.late, until-uint64(settle), func(r record, t uint64) int {
			if r.time < t {
				return -1
			}
			return 1
		})
		n = s.whole(n)
	}
	ready := slices.Clone(s.late[:n]) // an ERROR clause may make drain read on
	s.late = slices.Delete(s.late, 0, n)
	s.pass++
	s.delivering = true
	defer func() { s.delivering = false }()
	for _, r := range ready {
		if err := d.deliver(r.raw); err != nil {
			return err
		}
	}
	return d.to.Pause()
}

// whole returns how many of the first n late records can be delivered so that no firing is
// delivered in parts. printa() and clear() of one firing then see the same values.
func (s *Session) whole(n int) int {
	type source struct{ cpu, thread, probe uint32 }
	of := func(r *record) source {
		return source{
			r.cpu,
			binary.NativeEndian.Uint32(r.raw[20:]),
			binary.NativeEndian.Uint32(r.raw[12:]),
		}
	}
	later := map[source]int{} // the clause of the first record that is too young
	for i := n; i < len(s.late); i++ {
		r := &s.late[i]
		if _, have := later[of(r)]; !have {
			later[of(r)] = s.clause(r.raw)
		}
	}
	for i := n - 1; i >= 0 && len(later) > 0; i-- {
		r := &s.late[i]
		next, have := later[of(r)]
		if !have {
			continue
		}
		if c := s.clause(r.raw); c < next { // the clauses of a firing run in their order
			later[of(r)], n = c, i
		} else {
			delete(later, of(r))
		}
	}
	return n
}

// clause returns the number of the clause that wrote a record; 0 where the record is of no kind
// that there is.
func (s *Session) clause(raw []byte) int {
	switch n := binary.NativeEndian.Uint32(raw[8:]); {
	case n == ir.FaultRecord && len(raw) >= 28:
		return int(binary.NativeEndian.Uint32(raw[24:]))
	case int(n) < len(s.script.IR.Records):
		return s.script.IR.Records[n].Clause
	}
	return 0
}

// atOnce is how many records one look takes at most: a script that writes without end must not keep
// what runs it from all else.
const atOnce = 1 << 16

// read takes what is in the ring, without waiting. All: also beyond atOnce, when nothing writes any
// more.
func (s *Session) read(all bool) error {
	s.ring.SetDeadline(time.Unix(0, 0)) // what is there, and no waiting
	var r ringbuf.Record
	for n := 0; all || n < atOnce; n++ {
		if err := s.ring.ReadInto(&r); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil
			}
			return fmt.Errorf("read the ring buffer: %w", err)
		}
		if len(r.RawSample) < ir.RecordHeader {
			return fmt.Errorf("a record of %d bytes is shorter than its head", len(r.RawSample))
		}
		s.late = append(
			s.late,
			record{
				binary.NativeEndian.Uint64(r.RawSample),
				binary.NativeEndian.Uint32(r.RawSample[16:]),
				slices.Clone(r.RawSample),
			},
		)
	}
	return nil
}

// Aggregates reads aggregations and returns them with all that was added until now, or until the
// current delivery of records began. It fails when a map cannot be read.
func (s *Session) Aggregates(of []*check.Aggregation) ([]*Aggregate, error) {
	all := make([]*Aggregate, len(of))
	for i, a := range of {
		all[i] = s.aggs[a.ID]
	}
	s.follower.catchUp()
	return all, s.collect(all...)
}

// rejected makes the verifier's words those of the script: the line of D that made the instruction
// which it did not take.
func (c *Compiled) rejected(err error) error {
	var v *ebpf.VerifierError
	if !errors.As(err, &v) {
		return fmt.Errorf("bring the script into the kernel: %w", err)
	}
	for i, u := range c.Units {
		if !strings.Contains(err.Error(), programName(i)+":") {
			continue
		}
		at := -1
		for _, line := range v.Log {
			var n int
			if _, err := fmt.Sscanf(line, "%d: (", &n); err == nil {
				at = n
			}
		}
		for _, p := range slices.Backward(u.Code.Origins) {
			if p.First <= at && p.At.To > p.At.From {
				text := c.Program.Text[p.At.From:p.At.To]
				return fmt.Errorf(
					"the kernel's verifier did not take what %q at %v came to: %w", text,
					u.Probes[0], err,
				)
			}
		}
		return fmt.Errorf(
			"the kernel's verifier did not take what the clauses at %v came to: %w", u.Probes[0],
			err,
		)
	}
	return fmt.Errorf("the kernel's verifier did not take the script: %w", err)
}

package trace

import (
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"culprit/kernel/bpf"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/trace/probe"

	"github.com/cilium/ebpf"
)

// A Session is a script in the kernel: its maps and programs, and what they are attached to. All of
// it hangs on file descriptors of this process. It is used by one goroutine.
type Session struct {
	Budget     Budget       // the most that the script may take; 0: no limit. It needs CountCosts
	OnStart    func()       // called when the clauses run; nil: nothing
	RunOn      func(func()) // calls a function that runs BEGIN, END, ERROR or a tick
	EachSecond func() error // called each second by the goroutine that runs the session; or nil

	script   *Compiled
	programs programs
	attached attachments
	symbols  symbols
	stacks   stackReader
	aggs     aggregates
	records  recordQueue
	losses   lossCounts
	costs    costMeter
	// calls of other goroutines, which the one that runs the session executes between two drains
	calls chan func()
}

// programs are the maps and programs of a session.
type programs struct {
	maps   *ebpf.Collection
	runs   []run                   // programs that no probe of the kernel runs, in text order
	probes map[uint32]*check.Probe // by ID
	// release returns the memory of the maps to the pool of the script.
	release func()
	shrunk  int // how many times smaller maps are than usual; 0, 1: usual size
}

// A run is the programs that culprit itself executes, because no probe of the kernel does.
type run struct {
	probe *check.Probe
	parts []part        // in their order; several only if the clauses contain loops
	every time.Duration // of a tick; 0: BEGIN, END, ERROR
	next  time.Time     // when the tick is due
}

// attachments are the links of a session's programs to the kernel.
type attachments struct {
	probes    *probe.Attachment
	helpers   []*bpf.Link    // of programs that serve no probe of the script
	detached  bool           // detach was called
	detaching sync.WaitGroup // done when all is off
}

// A costMeter compares the run time of a session's programs with its budget.
type costMeter struct {
	counting   io.Closer // ends counting; nil: CountCosts was not called
	spent      []Cost    // at the last check
	overBudget int       // consecutive checks that found more than the budget
	// how many of these are tolerated
	maxOverBudget int
}

// Program returns the checked script.
func (s *Session) Program() *check.Program { return s.script.Program }

// Aggregations returns all aggregations of the script. It reads nothing from the kernel.
func (s *Session) Aggregations() []*Aggregate { return s.aggs.all }

// Attachment returns what was attached, and what could not be.
func (s *Session) Attachment() *probe.Attachment { return s.attached.probes }

// Close takes everything out of the kernel. It may be called twice.
func (s *Session) Close() {
	s.detach()
	s.attached.detaching.Wait()
	s.symbols.follower.close()
	s.symbols.recorder.close()
	s.symbols.recorder = nil
	s.symbols.unwinder.close()
	s.symbols.unwinder = nil
	_ = s.aggs.waitIdle() // an error no longer matters
	for _, a := range s.aggs.all {
		a.kernel.close()
	}
	s.stacks.close()
	if s.records.ring != nil {
		s.records.ring.Close() //nolint:errcheck // nothing was written
	}
	if s.programs.maps != nil {
		s.programs.maps.Close()
	}
	if s.programs.release != nil {
		s.programs.release()
	}
	s.symbols.processes.Close() //nolint:errcheck // its files were read from
}

// detach starts to detach all programs. The kernel needs 20 to 40 ms for those in processes, so
// this goroutine goes on meanwhile.
func (s *Session) detach() {
	if s.costs.counting != nil {
		//nolint:errcheck // the kernel stops counting when the process ends
		s.costs.counting.Close()
		s.costs.counting = nil
	}
	s.attached.detach()
}

func (a *attachments) detach() {
	if a.detached {
		return
	}
	a.detached = true
	probes, helpers := a.probes, a.helpers
	a.detaching.Go(func() {
		probes.Close() //nolint:errcheck // the kernel detaches when the process ends
		for _, h := range helpers {
			h.Close() //nolint:errcheck // the same
		}
	})
}

// setState sets which clauses may run.
func (p *programs) setState(state uint64) error {
	return p.maps.Maps[gen.MapState].Put(
		uint32(0), [2]uint64{state, uint64(time.Now().UnixNano()) - monotonic()},
	)
}

// ended reports whether exit() was called.
func (p *programs) ended() bool {
	var state [2]uint64
	return p.maps.Maps[gen.MapState].Lookup(uint32(0), &state) == nil && state[0] == gen.Draining
}

// fire executes the programs of a probe that the kernel does not run.
func (s *Session) fire(r *run, args ...uint64) error {
	var err error
	if len(r.parts) > 1 {
		err = s.resetLocals()
	}
	if err == nil {
		err = s.runParts(r.parts, 0, args)
	}
	if err != nil {
		return fmt.Errorf("run %v: %w", r.probe, err)
	}
	return nil
}

// ownPlace returns an address in this program.
func ownPlace() uint64 { return uint64(reflect.ValueOf(monotonic).Pointer()) }

// special fires BEGIN, END or ERROR, if the script has it.
func (s *Session) special(name string, args ...uint64) error {
	for i := range s.programs.runs {
		if r := &s.programs.runs[i]; r.every == 0 && r.probe.Name == name {
			return s.fire(r, args...)
		}
	}
	return nil
}

// A Listener receives what a session reads, in the order in which it happened. An error that a
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
	// End is called once, after the last record. Aggregates returns the final rows then.
	End() error
}

// StopClauses stops all clauses; the session ends when it next reads the kernel's state. It may be
// called while Run runs. It fails when the map of the state cannot be written.
func (s *Session) StopClauses() error { return s.programs.setState(gen.Draining) }

package trace

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"culprit/kernel"
	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/lang/syntax"
	"culprit/measure"
)

// A Profile is how CPUs are sampled: by a program in D that counts stacks in the kernel.
type Profile struct {
	Hz     int    // samples a second of each CPU
	CPUs   []int  // none: all
	PIDs   []int  // none: all
	Kernel bool   // samples within the kernel alone, with its stack
	User   bool   // samples outside the kernel alone, with the process's stack
	ByCPU  bool   // stacks are told apart by CPU
	Unwind string // how stacks of processes are walked: auto, fp, tables; "": auto
}

// A Sampled is a stack and how often it was seen.
type Sampled struct {
	Process string
	PID     int
	CPU     int      // -1 unless they are told apart
	Kernel  []string // frames as DTrace prints them, the innermost first
	User    []string
	Count   int64
}

// A Profiled is what was sampled.
type Profiled struct {
	Stacks []Sampled
	Took   measure.Span // by the clock, while samples were taken
	Loss   []measure.Loss
	Notes  []string // what may mislead
}

// ProfileFrames is how many frames the kernel gives of a stack: perf_event_max_stack as it usually is, which is also the most that
// a stack of D may have.
const ProfileFrames = 127

// profileStacks is how many different stacks there is room for in the kernel, of the kernel and of processes each.
const profileStacks = 32768

// text gives the program.
func (p *Profile) text() string {
	var terms []string
	any := func(name string, values []int) {
		var each []string
		for _, v := range values {
			each = append(each, fmt.Sprintf("%s == %d", name, v))
		}
		if len(each) > 0 {
			terms = append(terms, "("+strings.Join(each, " || ")+")")
		}
	}
	any("cpu", p.CPUs)
	any("pid", p.PIDs)
	stacks := fmt.Sprintf("stack(%d), ustack(%d)", ProfileFrames, ProfileFrames)
	switch {
	case p.Kernel && !p.User:
		terms = append(terms, "arg0 != 0")
		stacks = fmt.Sprintf("stack(%d)", ProfileFrames)
	case p.User && !p.Kernel:
		terms = append(terms, "arg0 == 0")
		stacks = fmt.Sprintf("ustack(%d)", ProfileFrames)
	}
	predicate := ""
	if len(terms) > 0 {
		predicate = " /" + strings.Join(terms, " && ") + "/"
	}
	keys := "execname, pid, "
	if p.ByCPU {
		keys += "cpu, "
	}
	// The tick has what was counted taken out of the kernel, and given names while the processes are still there.
	return fmt.Sprintf("profile-%d%s { @[%s%s] = count(); } tick-1s { trace(0); }", p.Hz, predicate, keys, stacks)
}

// Run samples until the context ends.
func (p *Profile) Run(ctx context.Context) (*Profiled, error) {
	env := NewEnv(kernel.Root{})
	defer env.Close()
	c, err := Compile(Script{Text: p.text(), Mode: syntax.Mode{Last: syntax.PartName}, Options: check.Options{All: map[string]string{"unwind": cmp.Or(p.Unwind, "auto")}, Words: macros()}}, env, gen.Limits{Stacks: profileStacks})
	if err != nil {
		return nil, err
	}
	s, err := Load(c, env)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for _, skipped := range s.Attachment().Skipped {
		return nil, fmt.Errorf("sample by %v: %w", skipped.Probe, skipped.Err)
	}
	s.acquaint(p.PIDs)
	l := &profiling{session: s, lost: map[string]uint64{}}
	began, ended := time.Time{}, make(chan time.Time, 1)
	s.begun = func() { began = time.Now() }
	defer context.AfterFunc(ctx, func() { ended <- time.Now() })()
	if _, err := s.Run(ctx, l, nil); err != nil {
		return nil, err
	}
	out := &Profiled{Took: measure.Span((<-ended).Sub(began))}
	all, err := s.Aggregates(c.Program.Aggs)
	if err != nil {
		return nil, err
	}
	for _, row := range all[0].Rows {
		one := Sampled{CPU: -1, Process: row.Key[0].Text, PID: int(row.Key[1].Num), Count: row.Data[0]}
		rest := row.Key[2:]
		if p.ByCPU {
			one.CPU, rest = int(rest[0].Num), rest[1:]
		}
		if p.Kernel || !p.User {
			one.Kernel, rest = rest[0].Frames, rest[1:]
		}
		if p.User || !p.Kernel {
			one.User = rest[0].Frames
		}
		out.Stacks = append(out.Stacks, one)
	}
	for _, why := range slices.Sorted(maps.Keys(l.lost)) {
		out.Loss = append(out.Loss, measure.Loss{Reason: why, Events: l.lost[why]})
	}
	out.Notes = slices.Concat(s.kernel.Notes(), s.processes.Notes(), s.unwinder.notes())
	return out, nil
}

// profiling gathers what a profile counts, and what was lost of it.
type profiling struct {
	session *Session
	lost    map[string]uint64
}

// Record takes what was counted out of the kernel, each second.
func (p *profiling) Record(*Record) error {
	_, err := p.session.Aggregates(p.session.script.Program.Aggs)
	return err
}

// Fault counts a sample that could not be taken.
func (p *profiling) Fault(f *FaultReport) error {
	p.lost[format.Fault(f.Fault).String()]++
	return nil
}

// Drops counts what was lost. A stack that had no room is counted as a sample without one.
func (p *profiling) Drops(kind ir.Drop, _ int, n uint64) error {
	p.lost[map[ir.Drop]string{ir.DropAgg: "more different stacks in a second than there is room for", ir.DropStack: "no room for another stack: its samples have none",
		ir.DropNested: "a sample was taken while another one was", ir.DropMissed: "a sample was due while another one was taken"}[kind]] += n
	return nil
}

// Pause has nothing to do.
func (p *profiling) Pause() error { return nil }

// End has nothing to do: the rows are asked for when all is over.
func (p *profiling) End() error { return nil }

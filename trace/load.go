package trace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"culprit/kernel/bpf"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/symbol"
	"culprit/trace/probe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// Load loads a script into the kernel and attaches it; no clause runs yet. It fails when the
// verifier rejects a program or a map cannot be created; a probe that cannot be attached is no
// error (Attachment). The caller closes the session.
//
// Where a limit of locked memory applies (bpf.MemoryLimit), maps are smaller, down to a small part
// of the usual size; Shrunk reports it.
func Load(c *Compiled, env *probe.Env) (*Session, error) {
	return LoadUntil(context.Background(), c, env)
}

// LoadUntil is Load that returns the error of ctx when ctx ends before the kernel has loaded the
// programs, which takes seconds for a script of thousands of lines. The kernel may go on loading
// until the process ends; the result is closed.
func LoadUntil(ctx context.Context, c *Compiled, env *probe.Env) (*Session, error) {
	return shrinking(
		c.limits,
		func(l gen.Limits) (*Session, error) { return load(ctx, c, env, l) },
		func() uint64 {
			object, err := gen.Maps(c.IR, c.kernel, c.limits)
			if err != nil {
				return 0
			}
			return object.Bytes(c.kernel.CPUs)
		},
	)
}

// load is LoadUntil with limits.
func load(
	ctx context.Context, c *Compiled, env *probe.Env, limits gen.Limits,
) (s *Session, err error) {
	object, err := gen.Maps(c.IR, c.kernel, limits)
	if err != nil {
		return nil, err
	}
	release, err := c.memory.take(object.Bytes(c.kernel.CPUs))
	if err != nil {
		return nil, err
	}
	s = newSession(c, env, limits)
	s.programs.release = release
	spec := collectionSpec(c, env, object)
	type result struct {
		maps *ebpf.Collection
		err  error
	}
	loaded, root, cache := make(chan result, 1), env.Root(), env.Types().Cache()
	go func() {
		var r result
		r.err = bpf.Locking(root, func() (err error) {
			r.maps, err = ebpf.NewCollectionWithOptions(
				spec, ebpf.CollectionOptions{Cache: cache},
			)
			return err
		})
		loaded <- r
	}()
	select {
	case r := <-loaded:
		if r.err != nil {
			release()
			return nil, c.rejected(r.err)
		}
		s.programs.maps = r.maps
	case <-ctx.Done(): // the kernel does not stop for a signal: cilium/ebpf tries again
		go func() {
			if r := <-loaded; r.err == nil {
				r.maps.Close()
			}
			release()
		}()
		s.symbols.processes.Close() //nolint:errcheck // its files were read from
		return nil, ctx.Err()
	}
	s.stacks.maps = s.programs.maps.Maps
	made := s // returns of an error set s to nil before they come here
	defer func() {
		if err != nil {
			made.Close()
		}
	}()
	if err := s.openMaps(object); err != nil {
		return nil, err
	}
	if err := s.attach(env); err != nil {
		return nil, err
	}
	if err := s.startUnwinding(env); err != nil {
		return nil, err
	}
	return s, nil
}

func newSession(c *Compiled, env *probe.Env, limits gen.Limits) *Session {
	s := &Session{
		script:   c,
		programs: programs{probes: map[uint32]*check.Probe{}, shrunk: limits.Shrink},
		symbols: symbols{
			kernel:    env.KernelSymbols(),
			processes: symbol.NewProcessesOf(env.Root(), env.Files),
		},
		RunOn: func(f func()) { f() },
		calls: make(chan func()),
	}
	s.stacks = stackReader{
		script:  c,
		symbols: &s.symbols,
		batches: batches{},
		store:   newStackStore(c.Program.StoredStack()),
		ids:     stackIDs{now: map[uint32]uint32{}},
	}
	if c.kernel.Namespace != nil {
		s.symbols.processes.Inside()
	}
	return s
}

// collectionSpec returns the maps and programs of a script as the kernel loads them. Programs have
// a license that allows the helper functions of tracing.
func collectionSpec(c *Compiled, env *probe.Env, object *gen.Object) *ebpf.CollectionSpec {
	spec := &ebpf.CollectionSpec{
		Maps:     maps.Clone(object.Maps),
		Programs: map[string]*ebpf.ProgramSpec{},
	}
	for name, m := range spec.Maps {
		// The inner map is only a pattern, which is closed after use, so it may be small.
		if m.InnerMap != nil && m.InnerMap.Type == ebpf.Hash {
			m, small := *m, *m.InnerMap
			m.InnerMap, small.MaxEntries = &small, 1
			spec.Maps[name] = &m
		}
	}
	for i, u := range c.Units {
		maps.Copy(spec.Maps, u.Code.Maps)
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
	return spec
}

// openMaps prepares the loaded maps: it creates the aggregations, opens the ring buffer, and
// disables all clauses.
func (s *Session) openMaps(object *gen.Object) error {
	c, loaded := s.script, s.programs.maps.Maps
	for i, at := range gen.AggPlaces(c.IR) {
		a, err := newAggregate(&c.IR.Aggs[i], object.Maps[at.Map], loaded[at.Map], at.Index, s)
		if err != nil {
			return err
		}
		s.aggs.all = append(s.aggs.all, a)
	}
	if err := s.openStacks(object); err != nil {
		return err
	}
	if m := loaded[gen.MapRing]; m != nil {
		var err error
		if s.records.ring, err = ringbuf.NewReader(m); err != nil {
			return fmt.Errorf("read the ring buffer: %w", err)
		}
		s.records.policy = newBufferPolicy(s.script.Program.Options.All)
	}
	if err := s.programs.setState(gen.Inactive); err != nil {
		return fmt.Errorf("disable the clauses: %w", err)
	}
	return nil
}

// attach attaches the loaded programs.
func (s *Session) attach(env *probe.Env) error {
	c, loaded := s.script, s.programs.maps.Programs
	for i, h := range c.helpers {
		link, err := probe.AttachTracepoint(loaded[helperName(i)], h.AttachTo, 0)
		if err != nil {
			return fmt.Errorf("attach to tracepoint %s: %w", h.AttachTo, err)
		}
		s.attached.helpers = append(s.attached.helpers, link)
	}
	var placed []probe.Placed
	for i, u := range c.Units {
		program := loaded[programName(i)]
		for _, p := range u.Probes {
			s.programs.probes[p.ID] = p
		}
		if u.Probes[0].Site == check.SiteRun {
			one := part{program, c.Program.Clauses[u.Clauses[0]].Loop}
			if u.Later {
				last := &s.programs.runs[len(s.programs.runs)-1]
				last.parts = append(last.parts, one)
				continue
			}
			s.programs.runs = append(s.programs.runs, run{
				probe: u.Probes[0],
				parts: []part{one},
				every: time.Duration(env.Every(u.Probes[0])),
			})
			continue
		}
		placed = append(placed, probe.Placed{Program: program, Probes: u.Probes, CPU: u.CPU})
	}
	var err error
	s.attached.probes, err = env.Attach(placed)
	return err
}

// startUnwinding prepares for stacks and names of processes: those that the script names, and the
// commands that it starts.
func (s *Session) startUnwinding(env *probe.Env) (err error) {
	c, names := s.script, &s.symbols
	if len(env.Started) == 0 && namesUser(c.Program.Text) {
		names.recorder = newRecorder(env.Root(), names.processes)
	}
	names.known = env.KnownProcesses()
	names.openMappedFiles()
	names.unwinder, err = newUnwinder(env.Root(), env.Files, s.programs.maps.Maps, func(pid int) {
		//nolint:errcheck // addresses of a process that can't be read have no names, as reported
		names.processes.OpenMappedFiles(pid)
	}, names.recorder, names.processes)
	if err != nil {
		return err
	}
	names.pointers = pointers(c, env, names.unwinder)
	s.PreloadUnwindTables(names.known)
	if len(env.Started) > 0 && namesUser(c.Program.Text) {
		names.follower = newFollower(env.Root(), env.Started, names.processes, names.unwinder)
	}
	return nil
}

func helperName(n int) string { return fmt.Sprint("helper", n) }

func programName(unit int) string { return fmt.Sprint("unit", unit) }

// rejected returns an error of loading that names the script's text: the line of D whose
// instruction the verifier rejected.
func (c *Compiled) rejected(err error) error {
	var v *ebpf.VerifierError
	if many := c.tooMany(err); many != nil {
		return many
	}
	if !errors.As(err, &v) {
		return fmt.Errorf("load the script into the kernel: %w", err)
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
					"the kernel's verifier rejected the code of %q at %v: %w",
					text, u.Probes[0], err,
				)
			}
		}
		return fmt.Errorf(
			"the kernel's verifier rejected the code of the clauses at %v: %w", u.Probes[0], err,
		)
	}
	return fmt.Errorf("the kernel's verifier rejected the script: %w", err)
}

// tooMany returns the error of loading a program that has too many clauses for one program, or nil
// if err is another one.
func (c *Compiled) tooMany(err error) error {
	for i, u := range c.Units {
		n := len(u.Clauses)
		if n <= mostClauses || !strings.Contains(err.Error(), programName(i)+":") {
			continue
		}
		return fmt.Errorf(
			"%d clauses at %v are more than the kernel can load in one program "+
				"(clauses at system calls, tracepoints and ticks are divided into several "+
				"if they use no this->): %w",
			n, u.Probes[0], err,
		)
	}
	return nil
}

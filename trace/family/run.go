package family

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/probe"
)

// A familyRun is a running program of a family.
type familyRun struct {
	text    string
	source  *trace.Source
	stop    context.CancelFunc
	readers int
	ended   time.Time // guarded by Family.mu; zero: it runs
}

const (
	// familyString is the size of strings in these programs, with the final 0. Addresses have at
	// most 46 bytes, names of devices 32 and of threads 16.
	familyString = 48
	// maxKeys is how many keys of an aggregation fit between two readings, on each CPU.
	maxKeys = 1 << 15
	// familyGather is how often the kernel's maps are read at least.
	familyGather = 2 * time.Second
	// familyRest is how long a program over its budget is suspended.
	familyRest = 10 * time.Minute
)

// errRested means that a suspended program may be started again.
var errRested = errors.New("the suspension has ended")

// enter adds a reader to the program of queries, which it starts for the first reader.
func (f *Family) enter(queries []measure.Query) (*familyRun, error) {
	f.start.Lock()
	defer f.start.Unlock()
	env := probe.NewEnv(kernel.Root{})
	defer env.Close() //nolint:errcheck // only read
	env.Files = f.Files
	self := 0
	// In a PID namespace the kernel itself knows this process by another ID.
	if !feature.InPIDNamespace(env.Root()) {
		self = os.Getpid()
	}
	p, err := f.program(queries, self)
	if err != nil {
		return nil, err
	}
	f.dropOptional(p.tree, env)
	key := p.key()
	f.mu.Lock()
	if r := f.running[key]; r != nil && !f.over(r) {
		defer f.mu.Unlock()
		r.readers++
		return r, nil
	} else if r != nil {
		f.settle(r)
	}
	f.mu.Unlock()
	source, err := f.load(p, env)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &familyRun{text: key, source: source, stop: stop, readers: 1}
	go func() {
		source.Live(ctx) //nolint:errcheck // Err returns it
		f.mu.Lock()
		defer f.mu.Unlock()
		r.ended = time.Now()
	}()
	select {
	case <-source.Begun():
	case <-source.Ended():
	}
	// The kernel's types that the compiler read are garbage now: tens of megabytes.
	time.AfterFunc(time.Second, debug.FreeOSMemory)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[key] = r
	return r, nil
}

// key identifies a program by its text and its statistics: programs of the same text can differ in
// fixed fields.
func (p *familyProgram) key() string {
	var b strings.Builder
	b.WriteString(syntax.Print(p.tree))
	for _, s := range p.stats {
		fmt.Fprintf(&b, "%s %q\n", s.stat.ID, s.fixed)
	}
	return b.String()
}

// load loads a program into the kernel. It fails with a measure.Denied that names the missing
// capability, or with measure.ErrUnsupported.
func (f *Family) load(p *familyProgram, env *probe.Env) (*trace.Source, error) {
	if err := feature.RawTracepoints.Have(env.Root()); errors.Is(err, measure.ErrDenied) {
		return nil, probe.MissingRight(env.Root(), "use BPF", err)
	}
	if err := f.missing(p.tree, env); err != nil {
		return nil, err
	}
	s, err := trace.NewLimitedSource(
		f.file,
		trace.Script{Text: syntax.Print(p.tree), Mode: syntax.Mode{Last: syntax.PartName},
			Options: check.Options{
				StrSize: familyString,
				All:     map[string]string{"switchrate": "1s"},
			}},
		f.budget,
		gen.Limits{Ring: 64 << 10, AggKeys: maxKeys, Dynamic: maxKeys},
		env,
		io.Discard,
	)
	if err != nil {
		return nil, err
	}
	for _, skipped := range s.Attachment().Skipped {
		s.Close()
		return nil, skipped.Err
	}
	var definitions []trace.Definition
	for _, st := range p.stats {
		words := map[string]func(string) string{}
		for field, n := range f.words {
			words[field] = n.word
		}
		definitions = append(definitions, trace.Definition{
			Stat: st.stat, Aggregation: aggregationOf(st.stat.ID), Words: words, Fixed: st.fixed,
		})
	}
	if err := s.Define(definitions); err != nil {
		s.Close()
		return nil, fmt.Errorf("statistics of %s.d: %w", f.file, err)
	}
	s.GatherEvery(familyGather)
	return s, nil
}

// leave removes a reader from a run, which it stops after the last reader.
func (f *Family) leave(r *familyRun) {
	f.start.Lock()
	defer f.start.Unlock()
	f.mu.Lock()
	r.readers--
	over := r.readers == 0
	f.mu.Unlock()
	if !over {
		return
	}
	r.stop()
	<-r.source.Ended()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(r)
}

// over reports whether a run has ended and its suspension too. f.mu is locked.
func (f *Family) over(r *familyRun) bool {
	return !r.ended.IsZero() && time.Since(r.ended) > f.rest
}

// settle adds the cost of a run that has ended to the past cost. f.mu is locked.
func (f *Family) settle(r *familyRun) {
	if f.running[r.text] != r {
		return // it was added already
	}
	delete(f.running, r.text)
	for _, st := range r.source.Stats() {
		f.past[st.ID] += r.source.Cost(st.ID)
	}
	f.outside += r.source.ExternalCost()
}

// Cost implements measure.Meter.
func (f *Family) Cost(id measure.StatID) measure.Span {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.past[id]
	for _, r := range f.running {
		all += r.source.Cost(id)
	}
	return all
}

// ExternalCost implements measure.Outsider.
func (f *Family) ExternalCost() measure.Span {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.outside
	for _, r := range f.running {
		all += r.source.ExternalCost()
	}
	return all
}

// Run implements measure.Source. When the family can't be measured, each batch has an empty
// interval and a note with the reason. It fails when sink does.
func (f *Family) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	if len(queries) == 0 {
		<-ctx.Done()
		return nil
	}
	for {
		r, err := f.enter(queries)
		if err != nil {
			return trace.RunUnavailable(ctx, f.stats, queries, sink, f.why(err))
		}
		err = f.follow(ctx, r, queries, sink)
		f.leave(r)
		if !errors.Is(err, errRested) {
			return err
		}
	}
}

// follow reads a run until the context ends. It returns errRested when the run was over its budget
// and the suspension has ended.
func (f *Family) follow(
	ctx context.Context, r *familyRun, queries []measure.Query, sink measure.Sink,
) error {
	cost := r.source.ExternalCost()
	live := queries[0].Over.Start == 0 // the cost of recorded statistics is recorded itself
	return r.source.Run(ctx, queries, measure.SinkFunc(func(batches []*measure.Batch) error {
		f.mu.Lock()
		again := f.over(r)
		f.mu.Unlock()
		if again {
			return errRested
		}
		for _, b := range batches {
			if b.Over.Span() <= 0 {
				b.Notes = []string{f.halted(r, b.Notes)}
			}
		}
		now := r.source.ExternalCost()
		if live && len(batches) > 0 {
			b := batches[0]
			if over := b.Over.Span(); over > 0 {
				if share := float64(now-cost) / float64(over); share > notedCost {
					b.Notes = append(b.Notes, fmt.Sprintf(
						"measuring %s statistics uses more than %s %% of one CPU", f.file,
						costBucket(share),
					))
				}
				cost = now
			}
		}
		return sink.Accept(batches)
	}))
}

// halted returns a note on why a run measured nothing: that it is suspended, or its own notes.
func (f *Family) halted(r *familyRun, notes []string) string {
	select {
	case <-r.source.Ended():
		var over *trace.ErrBudget
		if errors.As(r.source.Err(), &over) {
			return fmt.Sprintf(
				"measuring %s statistics used %.1f %% of one CPU, "+
					"more than the budget of %.3g %%: they are suspended for %.3g minutes",
				f.file, 100*over.Share, 100*float64(over.Budget), f.rest.Minutes(),
			)
		}
	default:
	}
	return strings.Join(notes, "; ")
}

// notedCost is the share of one CPU from which on a note reports the cost of measuring.
const notedCost = 0.01

// costBucket rounds a CPU share to 1, 5, 20 or 50 %, so the note changes rarely.
func costBucket(share float64) string {
	bucket := 1
	for _, step := range []int{5, 20, 50} {
		if 100*share > float64(step) {
			bucket = step
		}
	}
	return strconv.Itoa(bucket)
}

// why returns a note on why a family can't be measured here.
func (f *Family) why(err error) string {
	var ds syntax.Diagnostics
	if errors.As(err, &ds) && len(ds) > 0 { // its position is in a text that users don't see
		why := ds[0].Message
		if ds[0].Code == check.NoProbe {
			why += ": this kernel lacks it, or has not loaded the module that has it"
		}
		return fmt.Sprintf("%s statistics can't be measured here: %s", f.file, why)
	}
	return fmt.Sprintf("%s statistics can't be measured here: %v", f.file, err)
}

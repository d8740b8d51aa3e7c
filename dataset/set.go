package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"culprit/measure"
)

// Set contains the datasets of a recording machine. It runs them, creates and ends them, accounts
// their cost, and answers queries from their data. Safe for concurrent use.
type Set struct {
	catalogue atomic.Pointer[Catalogue] // of the current sources
	archive   Archive
	started   measure.Time
	late      atomic.Uint64  // ticks
	running   sync.WaitGroup // sources
	budget    budget         // used by the goroutine that enforces it, once Run is called
	meters    []meter        // set before Run
	continued chan struct{}  // has an element after SIGCONT

	// one change of the datasets at a time; taken before the recorders' mutexes and mu
	life sync.Mutex

	mu   sync.Mutex // guards the fields below
	sets []measure.Dataset
	// the statistics of catalogue, and those of datasets that no source measures any more
	readable       *Catalogue
	folders        map[uint32]*datasetFolder
	recorders      map[measure.Span]*recorder
	ctx            context.Context // of Run; nil: not running
	recordedBefore measure.Time    // the newest tick of an earlier run
	newest         measure.Time    // of this run; 0: none yet
	tickRecorded   chan struct{}   // closed at the next tick
	ended          bool
	problems       map[string]string // current problems, by subject
	gapLogged      measure.Time      // the tick after the newest gap in the audit log
	accounting     accounting
}

// accounting contains the cumulative costs of a Set. CPU time is in nanoseconds.
type accounting struct {
	samples  []usageSample                   // oldest first
	recorded float64                         // of all datasets
	reading  map[measure.StatID]measure.Span // of reading, when account last ran
	// The part of the cost of reading that is not CPU time of this process.
	external         measure.Span
	externalBySource map[measure.Source]measure.Span // when account last ran
	unrecorded       float64                         // of statistics that no dataset records
	processes        []func() measure.Span           // CPU time of other processes; set before Run
}

// NewSet returns the set of the archive's datasets. It creates those default queries that this
// archive has never had: all of them in a new archive, none that a user destroyed. Nothing is
// recorded before Run. The error is the archive's, or a *measure.Diagnostic for an invalid default.
func NewSet(c *Catalogue, a Archive, defaults []string) (*Set, error) {
	s := &Set{
		archive:      a,
		started:      now(),
		continued:    make(chan struct{}, 1),
		folders:      map[uint32]*datasetFolder{},
		recorders:    map[measure.Span]*recorder{},
		tickRecorded: make(chan struct{}),
		problems:     map[string]string{},
		accounting: accounting{
			reading:          map[measure.StatID]measure.Span{},
			externalBySource: map[measure.Source]measure.Span{},
		},
	}
	s.catalogue.Store(c)
	s.refresh()
	for _, d := range s.sets {
		s.recordedBefore = max(s.recordedBefore, a.Held(d.ID).Over.End)
	}
	if err := s.createDefaults(defaults); err != nil {
		return nil, fmt.Errorf("make the default datasets: %w", err)
	}
	if err := s.resumeSuspended(); err != nil {
		return nil, fmt.Errorf("read the changes of the datasets: %w", err)
	}
	return s, nil
}

// Run records until the context ends, and then waits until the tick in progress is recorded. Call
// it once. Health reports problems.
func (s *Set) Run(ctx context.Context) {
	s.life.Lock()
	s.mu.Lock()
	s.ctx = ctx
	s.sample()
	s.mu.Unlock()
	s.apply()
	s.life.Unlock()
	if s.budget.share > 0 {
		s.running.Go(func() { s.enforceBudget(ctx) })
	}
	<-ctx.Done()
	s.life.Lock() // a change in progress starts its sources before this
	s.mu.Lock()
	s.ended = true
	close(s.tickRecorded)
	s.mu.Unlock()
	s.life.Unlock()
	s.running.Wait()
}

func (s *Set) context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ctx
}

// refresh reads the descriptions again.
func (s *Set) refresh() {
	sets := s.archive.Datasets()
	readable := s.sourceCatalogue().with(sets)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets, s.readable = sets, readable
	for id := range s.folders {
		if !slices.ContainsFunc(
			sets, func(d measure.Dataset) bool { return d.ID == id && s.records(d) },
		) {
			delete(s.folders, id)
		}
	}
	for _, d := range sets {
		if s.records(d) && s.folders[d.ID] == nil {
			s.folders[d.ID] = newDatasetFolder(d)
		}
	}
}

// records reports whether the dataset is to be recorded and can be.
func (s *Set) records(d measure.Dataset) bool {
	return d.State == measure.Recording && d.Query.Step > 0 &&
		sameMeaning(d, s.sourceCatalogue().Stat(d.Query.Stat))
}

// apply makes the recorders record what the descriptions say. s.life is held.
func (s *Set) apply() {
	s.refresh()
	s.mu.Lock()
	ctx := s.ctx
	if ctx == nil {
		s.mu.Unlock()
		return
	}
	work := map[*recorder][]*datasetFolder{}
	for _, r := range s.recorders {
		work[r] = nil
	}
	for _, d := range s.sets {
		k := s.folders[d.ID]
		if k == nil {
			continue
		}
		r := s.recorders[d.Query.Step]
		if r == nil {
			r = &recorder{
				gaps: newGaps(),
				set:  s,
				step: d.Query.Step,
				last: floor(max(s.recordedBefore, s.newest), d.Query.Step),
			}
			s.recorders[d.Query.Step] = r
		}
		work[r] = append(work[r], k)
	}
	s.mu.Unlock()
	for r, keepers := range work {
		r.change(ctx, keepers)
	}
}

// finishTick notifies waiting readers of a tick and adds up its cost.
func (s *Set) finishTick(at measure.Time, keepers []*datasetFolder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at > s.newest && !s.ended {
		s.newest = at
		close(s.tickRecorded)
		s.tickRecorded = make(chan struct{})
	}
	for _, k := range keepers {
		k.total.cost += k.cpuTime
		s.accounting.recorded += k.cpuTime
		k.total.samples += uint64(k.rows)
	}
	s.sample()
}

// Tick waits for a tick later than after and returns the planned end of the newest one, a multiple
// of its step. It returns at once when there is one; ticks of an earlier run don't count. A slow
// caller misses ticks and never delays the recording. The error is the context's, or says that the
// recording has ended.
func (s *Set) Tick(ctx context.Context, after measure.Time) (measure.Time, error) {
	for {
		s.mu.Lock()
		newest, ended, recorded := s.newest, s.ended, s.tickRecorded
		s.mu.Unlock()
		if newest > after {
			return newest, nil
		}
		if ended {
			return 0, errEnded
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-recorded:
		}
	}
}

// NewestTick returns the planned end of the newest tick of this run; 0 before the first one.
func (s *Set) NewestTick() measure.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

var errEnded = errors.New("the recording has ended")

// Ask implements measure.Reader with the archive's data. The error is a *measure.Diagnostic for an
// invalid query, or the archive's.
func (s *Set) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	known := s.readableCatalogue()
	if err := known.Check(q); err != nil {
		return nil, err
	}
	a, err := s.archive.Ask(ctx, q)
	if err == nil {
		warn(a, known.Stat(q.Stat).Overcounts(q))
	}
	return a, err
}

// warn adds a caveat unless the answer has it.
func warn(a *measure.Answer, note string) {
	if note != "" && !slices.Contains(a.Notes, note) {
		a.Notes = append(slices.Clip(a.Notes), note)
	}
}

func (s *Set) readableCatalogue() *Catalogue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readable
}

// Stats lists the statistics that can be queried, sorted: those of the sources, and those recorded
// by a program that measured more. Don't modify the result.
func (s *Set) Stats() []measure.Stat { return s.readableCatalogue().Stats() }

// Parse parses a query and checks it. The error is a *measure.Diagnostic.
func (s *Set) Parse(sentence string) (measure.Query, error) {
	return s.readableCatalogue().Parse(sentence)
}

// Datasets lists the datasets, by ID.
func (s *Set) Datasets() []measure.Dataset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sets)
}

// Held describes what the archive contains of a dataset; zero for an unknown one.
func (s *Set) Held(id uint32) measure.Stored {
	if _, err := s.find(id); err != nil {
		return measure.Stored{}
	}
	return s.archive.Held(id)
}

// setProblem sets the current problem of a subject; "" when there is none.
func (s *Set) setProblem(about, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if what == "" {
		delete(s.problems, about)
	} else {
		s.problems[about] = what
	}
}

// sourceCatalogue returns the statistics of the current sources. A catalogue never changes; it is
// replaced.
func (s *Set) sourceCatalogue() *Catalogue { return s.catalogue.Load() }

// AddSource adds a source. Datasets of its statistics are recorded again.
func (s *Set) AddSource(source measure.Source) {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	for _, st := range source.Stats() {
		delete(s.accounting.reading, st.ID)
	}
	s.mu.Unlock()
	s.catalogue.Store(s.sourceCatalogue().plus(source))
	s.apply()
}

// RemoveSource removes a source. Its datasets stay, as if a program without these statistics ran.
func (s *Set) RemoveSource(source measure.Source) {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	s.account()
	delete(s.accounting.externalBySource, source)
	s.mu.Unlock()
	s.catalogue.Store(s.sourceCatalogue().minus(source))
	s.apply()
}

// with returns the catalogue with the statistics and fields of datasets that no source measures any
// more.
func (c *Catalogue) with(sets []measure.Dataset) *Catalogue {
	all, changed := slices.Clone(c.stats), false
	for _, d := range sets {
		i := slices.IndexFunc(all, func(st measure.Stat) bool { return st.ID == d.Stat.ID })
		if i < 0 {
			all, changed = append(all, d.Stat), true
			continue
		}
		for _, f := range d.Stat.Fields {
			if _, at := all[i].Field(f.Name); at < 0 && slices.Contains(d.Query.By, f.Name) {
				all[i].Fields, changed = append(slices.Clip(all[i].Fields), f), true
			}
		}
	}
	if !changed {
		return c
	}
	slices.SortFunc(
		all, func(a, b measure.Stat) int { return strings.Compare(string(a.ID), string(b.ID)) },
	)
	more := &Catalogue{sources: c.sources, owner: c.owner, stats: all}
	for _, st := range all {
		more.names = append(more.names, string(st.ID))
	}
	return more
}

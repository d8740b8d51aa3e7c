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

// Set is the datasets of a machine that records: it keeps them running, lets them be made and ended, says what each
// costs, and answers from what they hold. Safe for several goroutines.
type Set struct {
	catalogue atomic.Pointer[Catalogue] // what is measured here now
	archive   Archive
	started   measure.Time
	late      atomic.Uint64  // ticks
	running   sync.WaitGroup // sources
	budget    budget         // of the goroutine that keeps within it, once Run is called
	meters    []meter        // set before Run

	life sync.Mutex // one change of the datasets at a time; taken before the recorders' and mu

	mu               sync.Mutex // guards all below
	sets             []measure.Dataset
	readable         *Catalogue // the catalogue's statistics, and those of datasets that the sources know no more
	folders          map[uint32]*datasetFolder
	recorders        map[measure.Span]*recorder
	ctx              context.Context // of Run; nil: not running
	recordedBefore   measure.Time    // the newest tick that the archive had before this run
	newest           measure.Time    // of this run; 0: none yet
	tickRecorded     chan struct{}   // closed at the next tick
	ended            bool
	problems         map[string]string               // what is wrong now, by what it is about
	samples          []usageSample                   // at what recording costs, oldest first
	recordedCPU      float64                         // nanoseconds of CPU time that all datasets have cost
	readCost         map[measure.StatID]measure.Span // what reading had cost at the newest look
	externalCost     measure.Span                    // of what that cost, what was no time of this process
	externalBySource map[measure.Source]measure.Span // by source, at the newest look
	unrecordedCost   float64                         // nanoseconds that sources have cost whose statistics nobody records
}

// NewSet makes the set of the datasets that the archive describes. Of the default sentences, those that no earlier program
// has made here become datasets: all of them on a new archive; none that somebody has destroyed. Nothing is recorded before Run.
func NewSet(c *Catalogue, a Archive, defaults []string) (*Set, error) {
	s := &Set{archive: a, started: now(), folders: map[uint32]*datasetFolder{}, recorders: map[measure.Span]*recorder{},
		tickRecorded: make(chan struct{}), problems: map[string]string{}, readCost: map[measure.StatID]measure.Span{}, externalBySource: map[measure.Source]measure.Span{}}
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

// Run records until the context ends, and then waits until the tick under way is kept. It is called once. What goes wrong meanwhile
// is told by Health.
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
	s.life.Lock() // a change under way starts its sources before this
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

// refresh reads the descriptions anew.
func (s *Set) refresh() {
	sets := s.archive.Datasets()
	readable := s.sourceCatalogue().with(sets)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets, s.readable = sets, readable
	for id := range s.folders {
		if !slices.ContainsFunc(sets, func(d measure.Dataset) bool { return d.ID == id && s.records(d) }) {
			delete(s.folders, id)
		}
	}
	for _, d := range sets {
		if s.records(d) && s.folders[d.ID] == nil {
			s.folders[d.ID] = newDatasetFolder(d)
		}
	}
}

// records says whether the dataset is to be recorded and can be.
func (s *Set) records(d measure.Dataset) bool {
	return d.State == measure.Recording && d.Query.Step > 0 && sameMeaning(d, s.sourceCatalogue().Stat(d.Query.Stat))
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
			r = &recorder{set: s, step: d.Query.Step, last: floor(max(s.recordedBefore, s.newest), d.Query.Step)}
			s.recorders[d.Query.Step] = r
		}
		work[r] = append(work[r], k)
	}
	s.mu.Unlock()
	for r, keepers := range work {
		r.change(ctx, keepers)
	}
}

// tell tells those who wait that a tick is there to be asked for, and adds up what it took.
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
		s.recordedCPU += k.cpuTime
		k.total.samples += uint64(k.rows)
	}
	s.sample()
}

// Tick waits until a tick later than after is there to be asked for, and gives the newest: its planned end, a multiple of its step.
// At once when there is one; ticks of an earlier run are none. The error is the context's, or says that the recording has ended. Who is slow misses ticks, and
// never holds the recording up.
func (s *Set) Tick(ctx context.Context, after measure.Time) (measure.Time, error) {
	for {
		s.mu.Lock()
		newest, ended, told := s.newest, s.ended, s.tickRecorded
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
		case <-told:
		}
	}
}

var errEnded = errors.New("the recording has ended")

// Ask implements measure.Reader: from what the archive holds.
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

// warn adds a note, once.
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

// Stats lists what can be asked, sorted: what is measured here, and what was recorded by a program that measured more. The slice must
// not be changed.
func (s *Set) Stats() []measure.Stat { return s.readableCatalogue().Stats() }

// Parse reads and checks a sentence; a *measure.Diagnostic where it is wrong.
func (s *Set) Parse(sentence string) (measure.Query, error) {
	return s.readableCatalogue().Parse(sentence)
}

// Datasets lists the datasets, by ID.
func (s *Set) Datasets() []measure.Dataset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sets)
}

// Held says what there is of a dataset; zero for one that is not known.
func (s *Set) Held(id uint32) measure.Stored {
	if _, err := s.find(id); err != nil {
		return measure.Stored{}
	}
	return s.archive.Held(id)
}

// say sets what is wrong about something; "" when it is well.
func (s *Set) setProblem(about, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if what == "" {
		delete(s.problems, about)
	} else {
		s.problems[about] = what
	}
}

// measures gives what is measured here now. It never changes: another takes its place.
func (s *Set) sourceCatalogue() *Catalogue { return s.catalogue.Load() }

// AddSource adds what a source measures to what can be recorded. Datasets of its statistics go on being recorded.
func (s *Set) AddSource(source measure.Source) {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	for _, st := range source.Stats() {
		delete(s.readCost, st.ID)
	}
	s.mu.Unlock()
	s.catalogue.Store(s.sourceCatalogue().plus(source))
	s.apply()
}

// RemoveSource takes away what a source measures. Datasets of its statistics are as those that a program of another version has left.
func (s *Set) RemoveSource(source measure.Source) {
	s.life.Lock()
	defer s.life.Unlock()
	s.mu.Lock()
	s.account()
	delete(s.externalBySource, source)
	s.mu.Unlock()
	s.catalogue.Store(s.sourceCatalogue().minus(source))
	s.apply()
}

// with gives the catalogue with the statistics and fields of datasets that its sources measure no more.
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
	slices.SortFunc(all, func(a, b measure.Stat) int { return strings.Compare(string(a.ID), string(b.ID)) })
	more := &Catalogue{sources: c.sources, owner: c.owner, stats: all}
	for _, st := range all {
		more.names = append(more.names, string(st.ID))
	}
	return more
}

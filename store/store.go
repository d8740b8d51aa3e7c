// Package store is the embedded archive: it keeps batches, tick after tick, and answers questions from them. The newest minutes are
// in memory as columns and on disk as frames; what is older is on disk as column segments and rollups, inside Pebble, which keeps
// the bytes safe. It knows nothing of sources and views, measures nothing, and never guesses: a tick that it has not is a gap.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"culprit/measure"
)

// Options say how an archive is kept. The zero value is good for a server.
type Options struct {
	KeepTicks   measure.Span // how long what was recorded stays in its own step; 0: 7 days
	KeepMinutes measure.Span // how long rollups of a minute stay; 0: 14 days
	KeepHours   measure.Span // how long rollups of an hour stay; 0: 90 days
	Size        int64        // bytes on disk at most, the oldest goes first; 0: 2 GB
	Rows        int          // rows of a dataset in one tick at most, what is above is a Loss; 0: 20,000
	Memory      int          // bytes that the newest ticks may take in memory; 0: 32 MB
	KeepOld     bool         // when the disk is full, leave out the newest; else the oldest makes room

	fs    vfs.FS           // nil: the machine's
	clock func() time.Time // nil: the machine's

	retryAfter time.Duration // until Pebble is opened anew when it has given up, at least; 0: 5 seconds
}

func (o Options) filled() Options {
	fill(&o.KeepTicks, 7*24*60*measure.Minute)
	fill(&o.KeepMinutes, 14*24*60*measure.Minute)
	fill(&o.KeepHours, 90*24*60*measure.Minute)
	fill(&o.Size, 2<<30)
	fill(&o.Rows, 20000)
	fill(&o.Memory, 32<<20)
	fill(&o.retryAfter, 5*time.Second)
	if o.fs == nil {
		o.fs = vfs.Default
	}
	if o.clock == nil {
		o.clock = time.Now
	}
	return o
}

func fill[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// Store is an archive that is open. Safe for several goroutines.
type Store struct {
	options Options
	dir     string
	disk    *disk
	codec   codec
	cache   cache
	buffers sync.Pool // of *gatherRoom
	limits  limits

	mu                 sync.RWMutex // guards all below; taken before disk.mu
	sets               map[uint32]*set
	ofStat             map[measure.StatID][]*set // the same by statistic
	nextDataset        uint32                    // the ID of the next dataset
	window             *window
	closedWindows      []*window // closed, and not yet on disk as segments
	nextFrame          uint64    // of the next frame
	framer             framer
	closed             bool
	newest             measure.Time // tick
	distrustClockUntil measure.Time // until the newest tick is past this, the clock is not believed and nothing is let go of
	requested          uint64       // how often the clerk was called
	finished           uint64       // until which call all is done
	started            uint64
	finishedChanged    *sync.Cond // of mu: rested has changed
	documents          int64      // bytes of documents, when they were last counted
	undescribed        []entry    // of datasets whose description is damaged: they stay where they are

	wake          chan struct{}
	jobs          chan func()   // for the clerk, each after all that is closed is on disk
	compactorDone chan struct{} // the clerk has gone

	// The clerk's own.
	builder      builder
	logCheckedAt measure.Time // when retainLog last looked, by the newest tick
	lastID       uint64       // of a segment
	stale        []entry      // left by a crash, to be erased
}

// set is a dataset.
type set struct {
	desc        measure.Dataset
	stack       []bool         // of each field: it holds stacks
	rows        int            // in the newest tick
	pendingLoss []measure.Loss // to be told with the next tick
	index       [3][]entry     // of each resolution, by start; a list is never changed in place
}

func newSet(d measure.Dataset) *set {
	s := &set{desc: d, stack: make([]bool, len(d.Query.By))}
	for i, name := range d.Query.By {
		f, _ := d.Stat.Field(name)
		s.stack[i] = f.Type == measure.Stack
	}
	return s
}

func (d *set) step() measure.Span {
	if d.desc.Query.Step > 0 {
		return d.desc.Query.Step
	}
	return measure.Second
}

// windowSpan is the time that a window holds before it becomes segments.
const windowSpan = 5 * measure.Minute

// slotOf gives which span of time a tick belongs to: (slot*span, (slot+1)*span].
func slotOf(at measure.Time, span measure.Span) int64 {
	n := int64(at) - 1
	s := n / int64(span)
	if n < 0 && n%int64(span) != 0 {
		s--
	}
	return s
}

// Open opens the archive in a directory, which it makes when there is none. Only one process may have it open.
func Open(dir string, o Options) (*Store, error) {
	return open(dir, o, false)
}

// OpenReadOnly opens an archive to ask it. It needs no right to write, and several may read at a time. It refuses while another process
// records in it, and says which.
func OpenReadOnly(dir string) (*Store, error) {
	return open(dir, Options{}, true)
}

func open(dir string, o Options, readOnly bool) (*Store, error) {
	s := &Store{limits: limits{maxValuesBeforeTop, maxValues}, options: o.filled(), dir: dir, sets: map[uint32]*set{}, ofStat: map[measure.StatID][]*set{}, nextDataset: 1,
		wake: make(chan struct{}, 1), jobs: make(chan func()), compactorDone: make(chan struct{})}
	s.finishedChanged = sync.NewCond(&s.mu)
	d, err := openDisk(dir, s.options, readOnly)
	if err != nil {
		return nil, err
	}
	s.disk = d
	s.framer.codec, s.builder.codec, s.builder.nextID = &s.codec, &s.codec, s.segmentID
	if err := s.load(); err != nil {
		close(s.compactorDone)
		d.close(s.compactorDone)
		return nil, err
	}
	if readOnly {
		close(s.compactorDone)
	} else {
		go s.compact()
		s.requestWork()
	}
	return s, nil
}

// call gives the clerk something to do; mu may be held.
func (s *Store) requestWork() {
	s.requested++
	s.wakeCompactor()
}

// Settle waits until all that was appended is on disk, and all that can be done with it is done.
func (s *Store) Settle() {
	s.disk.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.requestWork()
	for want := s.requested; s.finished < want; {
		s.finishedChanged.Wait()
	}
}

// Close writes what is not on disk yet and lets the archive go.
func (s *Store) Close() error {
	s.mu.RLock()
	closed := s.closed
	s.mu.RUnlock()
	if closed {
		return nil
	}
	if !s.disk.readOnly {
		// A write that failed may show at the next sync only; then the newest minutes become segments from memory.
		s.disk.settle()
		if s.disk.writeError() == nil {
			if err := s.disk.sync(); err != nil {
				s.disk.giveUp(err)
			}
		}
		if s.disk.missesFrames() {
			s.Settle()
		}
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cache.close()
	return s.disk.close(s.compactorDone)
}

var errClosed = errors.New("the archive is closed")

// Datasets lists the descriptions that were saved, by ID.
func (s *Store) Datasets() []measure.Dataset {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []measure.Dataset
	for _, d := range s.sets {
		out = append(out, d.desc)
	}
	slices.SortFunc(out, func(a, b measure.Dataset) int { return int(a.ID) - int(b.ID) })
	return out
}

// Save keeps a description and gives its ID: a new one when d.ID is 0. Only State may change afterwards.
func (s *Store) Save(d measure.Dataset) (uint32, error) {
	if d.ID == 0 {
		ids, err := s.Add([]measure.Dataset{d})
		if err != nil {
			return 0, err
		}
		return ids[0], nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errClosed
	}
	old := s.sets[d.ID]
	if old == nil {
		return 0, fmt.Errorf("save dataset %d: there is none: %w", d.ID, measure.ErrUnclear)
	}
	changed := old.desc
	changed.State = d.State
	pairs, err := descriptionPairs(nil, changed)
	if err == nil {
		err = s.disk.save(pairs)
	}
	if err != nil {
		return 0, fmt.Errorf("save dataset %d: %w", d.ID, err)
	}
	old.desc.State = d.State
	return d.ID, nil
}

// Add keeps new descriptions, all or none, and gives their IDs. It waits for the disk once.
func (s *Store) Add(all []measure.Dataset) ([]uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	var pairs []pair
	var err error
	ids := make([]uint32, len(all))
	all = slices.Clone(all)
	for i := range all {
		d := &all[i]
		d.ID, d.Query.Over = s.nextDataset+uint32(i), measure.Interval{}
		if pairs, err = descriptionPairs(pairs, *d); err != nil {
			return nil, fmt.Errorf("save dataset %d: %w", d.ID, err)
		}
		ids[i] = d.ID
	}
	if err := s.disk.save(pairs); err != nil {
		return nil, fmt.Errorf("save %d datasets from %d on: %w", len(all), s.nextDataset, err)
	}
	for _, d := range all {
		s.register(newSet(d))
	}
	s.nextDataset += uint32(len(all))
	return ids, nil
}

// enter makes a dataset known. mu is held.
func (s *Store) register(d *set) {
	s.sets[d.desc.ID] = d
	s.ofStat[d.desc.Query.Stat] = append(s.ofStat[d.desc.Query.Stat], d)
}

// described appends what is written of a description.
func descriptionPairs(to []pair, d measure.Dataset) ([]pair, error) {
	value, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return append(to, pair{datasetKey(kindDataset, d.ID), value}, pair{datasetKey(kindDatasetAgain, d.ID), value}), nil
}

// Append keeps one tick: batches[i] belongs to dataset ids[i]. at is the planned end of the tick. What the disk refuses stays in
// memory as far as there is room, and Trouble says so.
func (s *Store) Append(at measure.Time, ids []uint32, batches []*measure.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if s.disk.readOnly {
		return errReadOnly
	}
	if len(ids) != len(batches) {
		return fmt.Errorf("append: %d datasets and %d batches", len(ids), len(batches))
	}
	for _, id := range ids {
		if s.sets[id] == nil {
			return fmt.Errorf("append to dataset %d: there is none: %w", id, measure.ErrUnclear)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	short, full := s.checkMemory()
	var left []bool // of each batch
	if full {
		if left = s.leftOut(ids, batches); !slices.Contains(left, false) {
			return nil
		}
	}
	w := s.windowFor(at, ids)
	before := w.size()
	s.framer.start(w, at)
	for i, id := range ids {
		if full && left[i] {
			continue
		}
		p := w.part(s.sets[id])
		if !p.open {
			p.begin(at)
			for _, l := range p.set.pendingLoss {
				p.addLoss(l)
			}
			p.set.pendingLoss = nil
		}
		most := math.MaxInt
		if short {
			most = s.maxRows(p)
		}
		w.add(p, batches[i], s.options.Rows, most)
	}
	w.rowsLeftOut = false
	for _, p := range w.order {
		if p.open {
			w.rowsLeftOut = w.rowsLeftOut || p.rowsOverMemory > 0
			p.extra += s.framer.part(p)
			p.set.rows = len(p.live)
		}
	}
	if size := w.size(); size-before > s.options.Memory/6 {
		w.sizeWithManyRows = size
	}
	w.newest = max(w.newest, at)
	s.noteTickTime(at)
	w.last = s.nextFrame
	s.disk.enqueue(frameKeyOf(s.nextFrame), slices.Clone(s.framer.finish(at)))
	s.nextFrame++
	if s.disk.missesFrames() {
		s.requestWork()
	}
	return nil
}

// clock takes the time of a tick. A clock that jumps ahead is believed after an hour: what is old by it alone would be lost for good.
func (s *Store) noteTickTime(at measure.Time) {
	if s.newest != 0 && at.Sub(s.newest) > hour {
		s.distrustClockUntil = at.Add(hour)
	}
	s.newest = at
}

// fills says whether a window takes more than its share. The keys of one tick with very many rows alone may be more: it then holds
// several ticks, half as much again, as long as their rows are the same; else each tick would be a window, and the next be short of memory.
func (w *window) isFull(share int) bool {
	size := w.size()
	return size >= share && (w.rowsLeftOut || size >= w.sizeWithManyRows+w.sizeWithManyRows/2)
}

// windowFor gives the window that takes a tick; a new one when the time is another's, or goes back.
func (s *Store) windowFor(at measure.Time, ids []uint32) *window {
	slot := slotOf(at, windowSpan)
	if s.window != nil {
		back := false
		for _, id := range ids {
			if p := s.window.parts[id]; p != nil && (p.ticks[len(p.ticks)-1].at >= at || len(p.ticks) >= maxTicks) {
				back = true
			}
		}
		if s.window.slot == slot && !back && !s.window.isFull(s.options.Memory/3) {
			return s.window
		}
		s.closedWindows = append(slices.Clip(s.closedWindows), s.window)
		s.requestWork()
	}
	s.window = newWindow(s.nextFrame, slot)
	return s.window
}

// Package store is the embedded archive: it records batches tick by tick and answers queries from
// them. The newest minutes are in memory as columns and on disk as frames. Older data is on disk as
// column segments and rollups in Pebble. The package depends on no source and no view. It never
// interpolates: a missing tick is a gap.
//
// docs/FORMATS.md draws the bytes and lists the invariants with the tests that check them.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"culprit/measure"
)

// Store is an open archive. Safe for concurrent use.
type Store struct {
	options Options
	dir     string
	disk    *disk
	codec   codec
	cache   cache
	buffers sync.Pool // of *gatherBuffers
	limits  limits

	mu            sync.RWMutex // guards the fields below; locked before disk.mu
	datasets      datasets
	window        *window
	closedWindows []*window // closed, and not yet stored as segments
	nextFrame     uint64    // sequence number
	framer        framer
	closed        bool
	newest        measure.Time // tick
	// Until newest passes this time, a jump of the clock is distrusted and nothing is deleted for
	// its age.
	distrustClockUntil measure.Time
	work               work
	documents          int64 // bytes of documents, at the last count

	compactor compactor // not guarded by mu
}

// datasets are the datasets of an archive.
type datasets struct {
	byID        map[uint32]*set
	byStat      map[measure.StatID][]*set
	next        uint32  // the ID of the next dataset
	undescribed []entry // segments of datasets whose description is corrupt; they are kept
}

// work counts the requests to the compactor. All work is complete when finished == requested.
type work struct {
	requested uint64
	started   uint64     // the value of requested when the compactor last started
	finished  uint64     // the value of requested whose work is complete
	changed   *sync.Cond // of Store.mu: finished has changed
}

// compactor contains the channels and the state of the compactor goroutine.
type compactor struct {
	wake chan struct{}
	jobs chan func()   // run after all closed windows are on disk
	done chan struct{} // closed when the goroutine has returned

	// Used by the goroutine only.
	builder      builder
	logCheckedAt measure.Time // when retainLog last counted, by the newest tick
	lastID       uint64       // newest segment ID
	stale        []entry      // left by a crash, to be deleted
}

// set is a dataset.
type set struct {
	desc        measure.Dataset
	stack       []bool         // per field: whether it contains stacks
	rows        int            // in the newest tick
	pendingLoss []measure.Loss // recorded with the next tick
	// Index lists the segments of each resolution by start. A list is copied when it changes.
	index [3][]entry
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

// windowSpan is the time that a window covers before it becomes segments.
const windowSpan = 5 * measure.Minute

// slotOf returns the number of the span that contains a tick: (slot*span, (slot+1)*span].
func slotOf(at measure.Time, span measure.Span) int64 {
	n := int64(at) - 1
	s := n / int64(span)
	if n < 0 && n%int64(span) != 0 {
		s--
	}
	return s
}

// Open opens the archive in dir and creates it when it doesn't exist. The caller closes it. It
// fails when another process has it open, and when the disk cannot be written.
func Open(dir string, o Options) (*Store, error) {
	return open(dir, o, false)
}

// OpenReadOnly opens an archive for queries; the caller closes it. It needs no write permission,
// and several processes may read at the same time. While another process records, it fails with
// that process's ID.
func OpenReadOnly(dir string) (*Store, error) {
	return open(dir, Options{}, true)
}

func open(dir string, o Options, readOnly bool) (*Store, error) {
	s := &Store{limits: limits{maxValuesBeforeTop, maxValues}, options: o.filled(), dir: dir}
	s.datasets = datasets{
		byID:   map[uint32]*set{},
		byStat: map[measure.StatID][]*set{},
		next:   1,
	}
	s.compactor.wake = make(chan struct{}, 1)
	s.compactor.jobs, s.compactor.done = make(chan func()), make(chan struct{})
	s.work.changed = sync.NewCond(&s.mu)
	d, err := openDisk(dir, s.options, readOnly)
	if err != nil {
		return nil, err
	}
	s.disk = d
	s.framer.codec = &s.codec
	s.compactor.builder.codec, s.compactor.builder.nextID = &s.codec, s.segmentID
	if err := s.load(); err != nil {
		close(s.compactor.done)
		d.close(s.compactor.done)
		return nil, err
	}
	if readOnly {
		close(s.compactor.done)
	} else {
		go s.compact()
		s.requestWork()
	}
	return s, nil
}

// requestWork wakes the compactor and counts the request. mu may be held.
func (s *Store) requestWork() {
	s.work.requested++
	s.wakeCompactor()
}

// Settle waits until everything appended is on disk and the compactor has nothing left to do.
func (s *Store) Settle() {
	s.disk.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.requestWork()
	for want := s.work.requested; s.work.finished < want; {
		s.work.changed.Wait()
	}
}

// Close writes what is not on disk yet and closes the archive. It returns the error of the last
// write.
func (s *Store) Close() error {
	s.mu.RLock()
	closed := s.closed
	s.mu.RUnlock()
	if closed {
		return nil
	}
	if !s.disk.readOnly {
		// A failed write may be reported only by the next sync. In that case the newest minutes
		// become segments from memory.
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
	return s.disk.close(s.compactor.done)
}

var errClosed = errors.New("the archive is closed")

// Datasets lists the saved datasets by ID.
func (s *Store) Datasets() []measure.Dataset {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []measure.Dataset
	for _, d := range s.datasets.byID {
		out = append(out, d.desc)
	}
	slices.SortFunc(out, func(a, b measure.Dataset) int { return int(a.ID) - int(b.ID) })
	return out
}

// Save stores a dataset and returns its ID: a new one when d.ID is 0. Of an existing dataset only
// State may change. It returns an error when d.ID is unknown or the disk cannot be written.
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
	old := s.datasets.byID[d.ID]
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

// Add stores new datasets, all or none, with one sync, and returns their IDs. It returns an error
// when the disk cannot be written.
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
		d.ID, d.Query.Over = s.datasets.next+uint32(i), measure.Interval{}
		if pairs, err = descriptionPairs(pairs, *d); err != nil {
			return nil, fmt.Errorf("save dataset %d: %w", d.ID, err)
		}
		ids[i] = d.ID
	}
	if err := s.disk.save(pairs); err != nil {
		return nil, fmt.Errorf("save %d datasets from %d on: %w", len(all), s.datasets.next, err)
	}
	for _, d := range all {
		s.register(newSet(d))
	}
	s.datasets.next += uint32(len(all))
	return ids, nil
}

// register adds a dataset to the maps. mu is held.
func (s *Store) register(d *set) {
	s.datasets.byID[d.desc.ID] = d
	s.datasets.byStat[d.desc.Query.Stat] = append(s.datasets.byStat[d.desc.Query.Stat], d)
}

// descriptionPairs appends the two copies of a dataset's description.
func descriptionPairs(to []pair, d measure.Dataset) ([]pair, error) {
	value, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return append(
		to, pair{datasetKey(kindDataset, d.ID), value},
		pair{datasetKey(kindDatasetAgain, d.ID), value},
	), nil
}

// Append records one tick: batches[i] belongs to dataset ids[i]; at is the planned end of the tick.
// Ticks that the disk refuses stay in memory within Options.Memory, and Problems reports that. The
// error is ErrUnclear for an unknown dataset.
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
		if s.datasets.byID[id] == nil {
			return fmt.Errorf("append to dataset %d: there is none: %w", id, measure.ErrUnclear)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	short, full := s.checkMemory()
	var left []bool // per batch
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
		p := w.part(s.datasets.byID[id])
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

// noteTickTime records the time of a tick. A clock that jumps ahead is distrusted for an hour: data
// that is old only by that clock would be deleted.
func (s *Store) noteTickTime(at measure.Time) {
	if s.newest != 0 && at.Sub(s.newest) > hour {
		s.distrustClockUntil = at.Add(hour)
	}
	s.newest = at
}

// isFull reports whether a window exceeds its share of memory. The keys of one tick with very many
// rows may exceed it at once. Then the window grows by another half while the rows stay the same,
// so that not each tick becomes a window of its own.
func (w *window) isFull(share int) bool {
	size := w.size()
	return size >= share && (w.rowsLeftOut || size >= w.sizeWithManyRows+w.sizeWithManyRows/2)
}

// windowFor returns the window for a tick. It starts a new one when the tick is in another slot or
// goes back in time, and when the window is full.
func (s *Store) windowFor(at measure.Time, ids []uint32) *window {
	slot := slotOf(at, windowSpan)
	if s.window != nil {
		back := false
		for _, id := range ids {
			if p := s.window.parts[id]; p != nil &&
				(p.ticks[len(p.ticks)-1].at >= at || len(p.ticks) >= maxTicks) {
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

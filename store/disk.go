package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"culprit/measure"
)

// disk is Pebble, and the goroutine that writes frames into it. Appending never waits for it.
type disk struct {
	dir      string
	options  Options
	lock     io.Closer
	readOnly bool

	wake chan struct{} // there is something in the queue
	quit chan struct{}
	done chan struct{}

	mu            sync.Mutex // guards all below
	now           *opening
	tableDamaged  bool      // a table is damaged, so tables are not joined any more: each attempt would fail
	reopenedAt    time.Time // when Pebble was last opened anew
	reopenPause   time.Duration
	idle          *sync.Cond // the queue has become empty and all of it is written
	queue         []pair
	queued        int // bytes
	busy          bool
	failure       error // Pebble has given up, or was not to be written to
	mustReopen    bool  // it has given up: it must be opened anew
	framesMissing bool  // frames were not written since: what is in memory is not on disk
	synced        time.Time
	damages       []string
	damagedKeys   map[string]error // keys whose value is damaged
	logged        uint64           // number of the next document
	logBytes      int64            // bytes of documents since they were last counted
}

// opening is one opening of Pebble.
type opening struct {
	gate
	disk  *disk
	db    *pebble.DB
	ended chan struct{} // Pebble has given up
	once  sync.Once
}

type pair struct{ key, value []byte }

// syncEvery is how often what is written is made to outlast a power cut.
const syncEvery = 900 * time.Millisecond

func pebbleOptions(g *opening, flawed, readOnly bool) *pebble.Options {
	o := &pebble.Options{
		FS:                          g,
		CacheSize:                   2 << 20,
		MemTableSize:                2 << 20, // up to three are in memory
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                100,
		L0CompactionThreshold:       8,
		L0StopWritesThreshold:       1000,
		BytesPerSync:                1 << 20,
		MaxManifestFileSize:         1 << 20,
		FormatMajorVersion:          pebble.FormatNewest,
		ReadOnly:                    readOnly,
		ErrorIfNotExists:            readOnly,
		DisableAutomaticCompactions: flawed,
		DisableTableStats:           true,
	}
	o.Experimental.CompactionScheduler = &compactionTurns{}
	log := &quietLogger{g}
	o.EventListener = &pebble.EventListener{
		BackgroundError: g.backgroundError,
		DataCorruption:  func(info pebble.DataCorruptionInfo) { g.disk.noteDamagedTable(info.Details) },
	}
	o.Logger, o.LoggerAndTracer = log, log
	for i := range o.Levels {
		o.Levels[i].BlockSize = 16 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10) // values are large, so keys are few
	}
	// What is large is compressed before Pebble sees it.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	return o
}

func openDisk(dir string, o Options, readOnly bool) (*disk, error) {
	d := &disk{dir: dir, options: o, readOnly: readOnly, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), damagedKeys: map[string]error{}}
	d.idle = sync.NewCond(&d.mu)
	if !readOnly {
		if err := o.fs.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open archive %s: %w", dir, err)
		}
	} else if _, err := o.fs.Stat(o.fs.PathJoin(dir, "LOCK")); err != nil {
		return nil, fmt.Errorf("open archive %s: there is none: %w", dir, err)
	}
	held, err := lock(o.fs, o.fs.PathJoin(dir, "LOCK"), readOnly)
	if err != nil {
		return nil, fmt.Errorf("open archive %s: %w", dir, inUse(dir, err))
	}
	d.lock = held
	err = d.openPebble(readOnly)
	if err != nil && !readOnly {
		if full := d.checkSpace(); full != nil {
			err = d.openReadOnlyWhenFull(full)
		} else if damaged(err) {
			err = d.setAside(err)
		}
	}
	if err != nil {
		held.Close()
		if damaged(err) {
			err = fmt.Errorf("it is damaged: %s", firstLine(err))
		}
		return nil, fmt.Errorf("open archive %s: %w", dir, err)
	}
	if readOnly {
		close(d.done)
	} else {
		go d.write()
	}
	return d, nil
}

// startFull opens Pebble to read, on a disk that is too full for it to write: what is recorded stays in memory until there is room.
func (d *disk) openReadOnlyWhenFull(full error) error {
	if err := d.openPebble(true); err != nil {
		return full // there is no archive yet
	}
	d.mu.Lock()
	d.failure, d.mustReopen, d.framesMissing = full, true, true
	d.mu.Unlock()
	return nil
}

// start opens Pebble, anew when it has given up.
func (d *disk) openPebble(readOnly bool) error {
	g := &opening{gate: gate{FS: d.options.fs}, disk: d, ended: make(chan struct{})}
	d.mu.Lock()
	flawed := d.tableDamaged
	d.mu.Unlock()
	names, err := d.options.fs.List(d.dir)
	if err != nil {
		return err
	}
	fresh := !readOnly && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "MANIFEST") })
	err = g.guard(func() (err error) {
		g.db, err = pebble.Open(d.dir, pebbleOptions(g, flawed, readOnly))
		if err == nil && fresh {
			// The first log is begun before Pebble has the archive's format, and lacks what tells damage in it from a crash; this begins another.
			err = g.db.Flush()
		}
		return err
	})
	if err != nil {
		g.giveUp(err)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now, d.failure, d.mustReopen = g, nil, false
	return nil
}

// damaged says whether an error of opening Pebble comes from what is in the files: the machine has no reason of its own.
func damaged(err error) bool {
	var errno syscall.Errno
	if errors.Is(err, errGaveUp) || errors.Is(err, errFull) {
		return false
	}
	return !errors.As(err, &errno) || errno == syscall.ENOENT // of the files that belong together one is missing
}

// setAside moves what can't be opened out of the way and opens Pebble on the rest: the logs, which hold the newest minutes, and when that
// is not enough, everything. Nothing is erased.
func (d *disk) setAside(why error) error {
	fs := d.options.fs
	names, err := fs.List(d.dir)
	if err != nil {
		return err
	}
	aside := d.dir + ".damaged-" + d.options.clock().UTC().Format("20060102T150405")
	if err := fs.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	move := func(these func(name string) bool) (n int, err error) {
		for _, name := range names {
			if name != "LOCK" && these(name) {
				n++
				err = errors.Join(err, fs.Rename(fs.PathJoin(d.dir, name), fs.PathJoin(aside, name)))
			}
		}
		return n, err
	}
	isLog := func(name string) bool { return strings.HasSuffix(name, ".log") }
	n, err := move(isLog)
	if err != nil {
		return err
	}
	if n > 0 && d.openPebble(false) == nil {
		d.noteDamage(fmt.Sprintf("the newest minutes could not be read (%s): they are now in %s", firstLine(why), aside))
		return nil
	}
	if _, err := move(func(name string) bool { return !isLog(name) }); err != nil {
		return err
	}
	if err := d.openPebble(false); err != nil {
		return fmt.Errorf("%w; what was recorded is now in %s", err, aside)
	}
	d.noteDamage(fmt.Sprintf("what was recorded could not be read (%s): it is now in %s, and a new archive was begun", firstLine(why), aside))
	return nil
}

// again opens Pebble anew, after a pause that grows while that does not help: what a failed opening has taken is not given back.
func (d *disk) reopen() error {
	if full := d.checkSpace(); full != nil {
		return full
	}
	d.mu.Lock()
	now, dead := d.options.clock(), d.failure
	wait := now.Sub(d.reopenedAt) < d.reopenPause
	if !wait {
		d.reopenedAt, d.reopenPause = now, min(max(2*d.reopenPause, d.options.retryAfter), 10*time.Minute)
	}
	d.mu.Unlock()
	if wait {
		return dead
	}
	if err := d.probe(); err != nil {
		return err
	}
	err := d.openPebble(false)
	if err == nil {
		d.mu.Lock()
		d.reopenPause = 0
		d.mu.Unlock()
	}
	return err
}

// probe writes a file as Pebble does.
func (d *disk) probe() error {
	fs := d.options.fs
	name := fs.PathJoin(d.dir, "probe.tmp")
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte("can this be written to?"))
	return errors.Join(err, f.Sync(), f.Close(), fs.Remove(name))
}

func (d *disk) pebble() *pebble.DB {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now.db
}

// errDead says that Pebble has given up, which it does when a write fails half-way.
var errGaveUp = errors.New("the archive's files could not be written")

// guard runs f so that Pebble's giving up ends f and not the program.
func (d *disk) guard(f func() error) error {
	d.mu.Lock()
	g := d.now
	d.mu.Unlock()
	return g.guard(f)
}

func (g *opening) guard(f func() error) error {
	out := make(chan error, 1)
	go func() {
		err := errGaveUp
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v", errGaveUp, p)
				g.giveUp(err)
			}
			out <- err
		}()
		err = f()
	}()
	select {
	case err := <-out:
		return err
	case <-g.ended:
		// What Pebble has begun may never end.
		select {
		case err := <-out:
			return err
		default:
			return errGaveUp
		}
	}
}

// end takes note that Pebble has given up.
func (g *opening) giveUp(err error) {
	d := g.disk
	d.mu.Lock()
	if d.now == g && !d.mustReopen {
		d.failure, d.mustReopen, d.framesMissing = err, true, true
	}
	d.mu.Unlock()
	g.shut.Store(true)
	g.once.Do(func() { close(g.ended) })
}

// failed is told by Pebble of a flush or compaction that failed. It would try again at once, for ever; so this goroutine of Pebble's ends.
func (g *opening) backgroundError(err error) {
	d := g.disk
	if pebble.IsCorruptionError(err) {
		d.noteDamagedTable(err)
	}
	g.giveUp(err)
	runtime.Goexit()
}

// flaw takes note of a damaged table.
func (d *disk) noteDamagedTable(err error) {
	d.mu.Lock()
	d.tableDamaged = true
	d.mu.Unlock()
	d.noteDamage(firstLine(err))
}

// die takes note that the opening of now is at its end.
func (d *disk) giveUp(err error) {
	d.mu.Lock()
	g := d.now
	d.mu.Unlock()
	g.giveUp(err)
}

// silence is Pebble's logger. What goes wrong in the background shows in what is asked and written.
type quietLogger struct{ g *opening }

// Infof says nothing.
func (*quietLogger) Infof(string, ...any) {}

// Errorf says nothing.
func (*quietLogger) Errorf(string, ...any) {}

// Fatalf is called by Pebble when it gives up. It must not return, and the program goes on.
func (s *quietLogger) Fatalf(format string, args ...any) {
	s.g.giveUp(fmt.Errorf("%w: "+format, append([]any{errGaveUp}, args...)...))
	runtime.Goexit()
}

// Eventf says nothing.
func (*quietLogger) Eventf(context.Context, string, ...any) {}

// IsTracingEnabled says no.
func (*quietLogger) IsTracingEnabled(context.Context) bool { return false }

// maxQueue bounds what waits for a slow disk; what is above it stays in memory only, until its window becomes segments.
const maxQueue = 8 << 20

func (d *disk) enqueue(key, value []byte) {
	d.mu.Lock()
	if d.failure != nil || d.queued+len(value) > maxQueue {
		d.framesMissing = true
		d.mu.Unlock()
		return
	}
	d.queue = append(d.queue, pair{key, value})
	d.queued += len(value)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// write is the goroutine that writes frames.
func (d *disk) write() {
	defer close(d.done)
	late := time.NewTimer(syncEvery) // after the last write that a power cut could undo
	for {
		select {
		case <-d.wake:
			d.flush()
			late.Reset(syncEvery)
		case <-late.C:
			if d.writeError() == nil && d.syncMode() == pebble.Sync {
				if err := d.sync(); err != nil {
					d.giveUp(err)
				}
			}
		case <-d.quit:
			d.flush()
			return
		}
	}
}

// flush writes what is in the queue.
func (d *disk) flush() {
	d.mu.Lock()
	todo := d.queue
	d.queue, d.queued, d.busy = nil, 0, true
	d.mu.Unlock()
	if err := d.checkWritable(); err == nil && len(todo) > 0 {
		err := d.guard(func() error {
			b := d.pebble().NewBatch()
			defer b.Close()
			for _, e := range todo {
				if err := b.Set(e.key, e.value, nil); err != nil {
					return err
				}
			}
			return b.Commit(d.syncMode())
		})
		if err != nil {
			d.giveUp(err)
		}
	} else if len(todo) > 0 {
		d.mu.Lock()
		d.framesMissing = true
		d.mu.Unlock()
	}
	d.mu.Lock()
	d.busy = false
	if len(d.queue) == 0 {
		d.idle.Broadcast()
	}
	d.mu.Unlock()
}

// often gives whether a write is to outlast a power cut at once: one in a second is, and with it all before.
func (d *disk) syncMode() *pebble.WriteOptions {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.options.clock(); now.Sub(d.synced) >= syncEvery {
		d.synced = now
		return pebble.Sync
	}
	return pebble.NoSync
}

// Below this much free space nothing is written: Pebble could not end what it has begun.
const reserve = 24 << 20

// room gives nil when the disk can be written to, and takes note when it can't.
func (d *disk) checkWritable() error {
	full := d.checkSpace()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mustReopen {
		return d.failure
	}
	d.failure = full
	d.framesMissing = d.framesMissing || full != nil
	return d.failure
}

var errFull = errors.New("the disk is full")

// full gives nil when there is room for what Pebble writes, or when that can't be known.
func (d *disk) checkSpace() error {
	if usage, err := d.options.fs.GetDiskUsage(d.dir); err == nil && usage.AvailBytes < reserve {
		return fmt.Errorf("%w (%d MB are free)", errFull, usage.AvailBytes>>20)
	}
	return nil
}

// settle waits until all that was enqueued is written.
func (d *disk) settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.busy || len(d.queue) > 0 {
		d.idle.Wait()
	}
}

// save writes some values, all or none, and waits until they outlast a power cut.
func (d *disk) save(all []pair) error {
	if d.readOnly {
		return errReadOnly
	}
	if err := d.checkWritable(); err != nil {
		return err
	}
	return d.guard(func() error {
		b := d.pebble().NewBatch()
		defer b.Close()
		for _, p := range all {
			if err := b.Set(p.key, p.value, nil); err != nil {
				return err
			}
		}
		return b.Commit(pebble.Sync)
	})
}

var errReadOnly = errors.New("the archive was opened to read only")

// scan tells all values whose key has the prefix. They are overwritten after each returns.
func (d *disk) scan(prefix []byte, each func(key, value []byte) error) error {
	return d.scanRange(prefix, bound(prefix), each)
}

// between tells all values whose key is in a range.
func (d *disk) scanRange(from, to []byte, each func(key, value []byte) error) error {
	_, err := d.walk(from, to, false, each)
	return err
}

// walk tells values in order of their keys, or against it, until one can't be read, and how many it told.
func (d *disk) walk(from, to []byte, backward bool, each func(key, value []byte) error) (n int, err error) {
	it, err := d.pebble().NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return 0, err
	}
	first, next := it.First, it.Next
	if backward {
		first, next = it.Last, it.Prev
	}
	for ok := first(); ok; ok = next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = each(it.Key(), value)
		}
		if err != nil {
			it.Close()
			return n, err
		}
		n++
	}
	return n, errors.Join(it.Error(), it.Close())
}

// salvage is scan where a part may be damaged: it tells what is before the damage, and in falling order what is behind it. whole is
// false when there was some.
func (d *disk) salvage(prefix []byte, each func(key, value []byte)) (whole bool) {
	tell := func(key, value []byte) error {
		each(key, value)
		return nil
	}
	_, err := d.walk(prefix, bound(prefix), false, tell)
	if err == nil {
		return true
	}
	d.noteDamage(firstLine(err))
	_, _ = d.walk(prefix, bound(prefix), true, tell)
	return false
}

// plain gives the first line of an error of Pebble's, which has more.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// alive gives nil while Pebble takes writes.
func (d *disk) writeError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failure
}

// fail takes the error of a write in the background.
func (d *disk) fail(err error) { d.giveUp(err) }

// lags says whether frames were not written.
func (d *disk) missesFrames() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.framesMissing
}

// damage remembers what could not be read.
func (d *disk) noteDamage(what string) {
	d.mu.Lock()
	if len(d.damages) < 20 && !slices.Contains(d.damages, what) {
		d.damages = append(d.damages, what)
	}
	d.mu.Unlock()
}

func (d *disk) close(clerked chan struct{}) error {
	if !d.readOnly {
		close(d.quit)
	}
	<-clerked
	<-d.done
	d.mu.Lock()
	dead, torn := d.failure, d.mustReopen
	d.mu.Unlock()
	if torn {
		// Its goroutines may hold locks for ever: there is nothing to close.
		return errors.Join(dead, d.lock.Close())
	}
	err := d.guard(d.pebble().Close)
	return errors.Join(err, d.lock.Close())
}

// Log keeps a document of a kind with its time.
func (s *Store) Log(kind string, at measure.Time, document []byte) error {
	if s.disk.readOnly {
		return errReadOnly
	}
	s.disk.mu.Lock()
	seq := s.disk.logged
	s.disk.logged++
	s.disk.logBytes += int64(len(document))
	s.disk.mu.Unlock()
	// The number keeps documents of one time apart, also those of an earlier run.
	seq |= uint64(time.Now().UnixNano()) &^ 0xFFFF
	s.disk.enqueue(logKey(kind, at, seq), slices.Clone(document))
	return nil
}

// Logged tells the documents of a kind in order of time; a zero interval is all.
func (s *Store) Logged(ctx context.Context, kind string, over measure.Interval, each func(at measure.Time, document []byte) error) error {
	s.disk.settle()
	head := append(append([]byte{kindLog}, kind...), 0)
	from, to := head, bound(head)
	if over != (measure.Interval{}) {
		from, to = timeKey(slices.Clone(head), over.Start+1), timeKey(slices.Clone(head), over.End+1)
	}
	var stop error // of each, or of the context
	tell := func(key, value []byte) error {
		if stop = ctx.Err(); stop == nil && len(key) == len(head)+16 {
			stop = each(keyTime(key[len(head):]), slices.Clone(value))
		}
		return stop
	}
	_, err := s.disk.walk(from, to, false, tell)
	if err == nil || stop != nil {
		return err
	}
	// A part is damaged: what is behind it can be reached from the end.
	s.disk.noteDamage(firstLine(err))
	var behind []pair
	_, _ = s.disk.walk(from, to, true, func(key, value []byte) error {
		behind = append(behind, pair{slices.Clone(key), slices.Clone(value)})
		return ctx.Err()
	})
	for _, p := range slices.Backward(behind) {
		if err := tell(p.key, p.value); err != nil {
			return err
		}
	}
	return nil
}

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

// disk is Pebble and the goroutine that writes frames into it. Append never waits for it.
type disk struct {
	dir      string
	options  Options
	lock     io.Closer
	readOnly bool

	wake chan struct{} // the queue is not empty
	quit chan struct{}
	done chan struct{}

	mu  sync.Mutex // guards the fields below
	now *opening
	// A table is corrupt, so Pebble's automatic compactions are off: each attempt would fail.
	tableDamaged  bool
	reopenedAt    time.Time // when Pebble was last reopened
	reopenPause   time.Duration
	idle          *sync.Cond // the queue is empty and written
	queue         []pair
	queued        int // bytes
	busy          bool
	failure       error // why nothing can be written; nil: writes work
	mustReopen    bool  // Pebble gave up: it must be reopened
	framesMissing bool  // some frames were not written, so data in memory is not on disk
	synced        time.Time
	damages       []string
	damagedKeys   map[string]error // keys whose value is corrupt
	logged        uint64           // number of the next document
	logBytes      int64            // bytes of documents since the last count
}

// opening is one opening of Pebble.
type opening struct {
	gate
	disk  *disk
	db    *pebble.DB
	ended chan struct{} // closed when Pebble has given up
	once  sync.Once
}

type pair struct{ key, value []byte }

// syncEvery is the interval of syncs, and so the most data that a power failure loses.
const syncEvery = 900 * time.Millisecond

func pebbleOptions(g *opening, flawed, readOnly bool) *pebble.Options {
	o := &pebble.Options{
		FS:                          g,
		CacheSize:                   2 << 20,
		MemTableSize:                2 << 20, // up to three exist at a time
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
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			g.disk.noteDamagedTable(info.Details)
		},
	}
	o.Logger, o.LoggerAndTracer = log, log
	for i := range o.Levels {
		o.Levels[i].BlockSize = 16 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10) // values are large, so there are few keys
	}
	// Large values are compressed before they reach Pebble.
	o.ApplyCompressionSettings(
		func() pebble.DBCompressionSettings { return pebble.DBCompressionNone },
	)
	return o
}

func openDisk(dir string, o Options, readOnly bool) (*disk, error) {
	d := &disk{
		dir:         dir,
		options:     o,
		readOnly:    readOnly,
		wake:        make(chan struct{}, 1),
		quit:        make(chan struct{}),
		done:        make(chan struct{}),
		damagedKeys: map[string]error{},
	}
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
			err = fmt.Errorf("it is corrupt: %s", firstLine(err))
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

// openReadOnlyWhenFull opens Pebble read-only on a full disk. New data stays in memory until space
// is free.
func (d *disk) openReadOnlyWhenFull(full error) error {
	if err := d.openPebble(true); err != nil {
		return full // there is no archive yet
	}
	d.mu.Lock()
	d.failure, d.mustReopen, d.framesMissing = full, true, true
	d.mu.Unlock()
	return nil
}

// openPebble opens Pebble, also after it gave up.
func (d *disk) openPebble(readOnly bool) error {
	g := &opening{gate: gate{FS: d.options.fs}, disk: d, ended: make(chan struct{})}
	d.mu.Lock()
	flawed := d.tableDamaged
	d.mu.Unlock()
	names, err := d.options.fs.List(d.dir)
	if err != nil {
		return err
	}
	fresh := !readOnly &&
		!slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "MANIFEST") })
	err = g.guard(func() (err error) {
		g.db, err = pebble.Open(d.dir, pebbleOptions(g, flawed, readOnly))
		if err == nil && fresh {
			// Pebble begins its first log before it writes the format version. That log lacks the
			// checksums that tell corruption from a crash, so begin another.
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

// damaged reports whether an error of opening Pebble is caused by the content of the files and not
// by the operating system.
func damaged(err error) bool {
	var errno syscall.Errno
	if errors.Is(err, errGaveUp) || errors.Is(err, errFull) {
		return false
	}
	// a file that others refer to is missing
	return !errors.As(err, &errno) || errno == syscall.ENOENT
}

// setAside moves unreadable files away and opens Pebble on the rest. It moves the logs, which
// contain the newest minutes, and if that is not enough everything. It deletes nothing.
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
				err = errors.Join(
					err,
					fs.Rename(fs.PathJoin(d.dir, name), fs.PathJoin(aside, name)),
				)
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
		d.noteDamage(
			fmt.Sprintf(
				"the newest minutes could not be read (%s): they are now in %s",
				firstLine(why),
				aside,
			),
		)
		return nil
	}
	if _, err := move(func(name string) bool { return !isLog(name) }); err != nil {
		return err
	}
	if err := d.openPebble(false); err != nil {
		return fmt.Errorf("%w; what was recorded is now in %s", err, aside)
	}
	d.noteDamage(
		fmt.Sprintf(
			"what was recorded could not be read (%s): it is now in %s, "+
				"and a new archive was created",
			firstLine(why),
			aside,
		),
	)
	return nil
}

// reopen opens Pebble again after a failure. The pause doubles while that fails, because a failed
// opening leaks its resources.
func (d *disk) reopen() error {
	if full := d.checkSpace(); full != nil {
		return full
	}
	d.mu.Lock()
	now, dead := d.options.clock(), d.failure
	wait := now.Sub(d.reopenedAt) < d.reopenPause
	if !wait {
		d.reopenedAt = now
		d.reopenPause = min(max(2*d.reopenPause, d.options.retryAfter), maxReopenPause)
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

// maxReopenPause limits the pause between attempts to reopen Pebble.
const maxReopenPause = 10 * time.Minute

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

// errGaveUp means that Pebble gave up, which it does when a write fails half-way.
var errGaveUp = errors.New("the archive's files could not be written")

// guard runs f and returns errGaveUp if Pebble fails meanwhile, instead of ending the program.
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
		// An operation of Pebble may then never return.
		select {
		case err := <-out:
			return err
		default:
			return errGaveUp
		}
	}
}

// giveUp records that Pebble gave up.
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

// backgroundError is called by Pebble for a failed flush or compaction. Pebble would retry forever,
// so its goroutine ends here.
func (g *opening) backgroundError(err error) {
	d := g.disk
	if pebble.IsCorruptionError(err) {
		d.noteDamagedTable(err)
	}
	g.giveUp(err)
	runtime.Goexit()
}

// noteDamagedTable records a corrupt table.
func (d *disk) noteDamagedTable(err error) {
	d.mu.Lock()
	d.tableDamaged = true
	d.mu.Unlock()
	d.noteDamage(firstLine(err))
}

// giveUp records that the current opening of Pebble is unusable.
func (d *disk) giveUp(err error) {
	d.mu.Lock()
	g := d.now
	d.mu.Unlock()
	g.giveUp(err)
}

// quietLogger is Pebble's logger. Background errors are reported by later reads and writes.
type quietLogger struct{ g *opening }

// Infof does nothing.
func (*quietLogger) Infof(string, ...any) {}

// Errorf does nothing.
func (*quietLogger) Errorf(string, ...any) {}

// Fatalf is called by Pebble when it fails. It must not return, and it does not end the program.
func (s *quietLogger) Fatalf(format string, args ...any) {
	s.g.giveUp(fmt.Errorf("%w: "+format, append([]any{errGaveUp}, args...)...))
	runtime.Goexit()
}

// Eventf does nothing.
func (*quietLogger) Eventf(context.Context, string, ...any) {}

// IsTracingEnabled returns false.
func (*quietLogger) IsTracingEnabled(context.Context) bool { return false }

// maxQueue limits the bytes that wait for a slow disk. Frames above it stay in memory until their
// window becomes segments.
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
	late := time.NewTimer(syncEvery) // after the last write that was not synced
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

// flush writes the queue.
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

// syncMode returns whether a write is synced: one per syncEvery is, which makes all earlier ones
// durable too.
func (d *disk) syncMode() *pebble.WriteOptions {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.options.clock(); now.Sub(d.synced) >= syncEvery {
		d.synced = now
		return pebble.Sync
	}
	return pebble.NoSync
}

// With less free space nothing is written, because Pebble could not complete a compaction.
const reserve = 24 << 20

// checkWritable returns nil when the disk can be written to, and otherwise records why not.
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

// checkSpace returns nil when there is enough space for Pebble, or when that is unknown.
func (d *disk) checkSpace() error {
	if usage, err := d.options.fs.GetDiskUsage(d.dir); err == nil && usage.AvailBytes < reserve {
		return fmt.Errorf("%w (%d MB are free)", errFull, usage.AvailBytes>>20)
	}
	return nil
}

// settle waits until the queue is written.
func (d *disk) settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.busy || len(d.queue) > 0 {
		d.idle.Wait()
	}
}

// save writes values, all or none, and syncs.
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

// scan calls each for all values whose key has the prefix. The bytes are valid during the call.
func (d *disk) scan(prefix []byte, each func(key, value []byte) error) error {
	return d.scanRange(prefix, bound(prefix), each)
}

// scanRange calls each for all values whose key is in [from, to).
func (d *disk) scanRange(from, to []byte, each func(key, value []byte) error) error {
	_, err := d.walk(from, to, false, each)
	return err
}

// walk calls each for values in the order of keys, or in reverse, until one cannot be read. It
// returns the number of calls.
func (d *disk) walk(
	from, to []byte,
	backward bool,
	each func(key, value []byte) error,
) (n int, err error) {
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

// salvage is scan over data that may be corrupt: it reads up to the damage, then from the end back
// to it. whole is false when there was damage.
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

// firstLine returns the first line of an error of Pebble.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// writeError returns nil while Pebble accepts writes.
func (d *disk) writeError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failure
}

// fail records the error of a background write.
func (d *disk) fail(err error) { d.giveUp(err) }

// missesFrames reports whether some frames were not written.
func (d *disk) missesFrames() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.framesMissing
}

// noteDamage remembers what could not be read.
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
		// Its goroutines may hold locks forever, so it cannot be closed.
		return errors.Join(dead, d.lock.Close())
	}
	err := d.guard(d.pebble().Close)
	return errors.Join(err, d.lock.Close())
}

// Log stores a document of a kind with its time. Writing is asynchronous: the error is only for a
// read-only archive.
func (s *Store) Log(kind string, at measure.Time, document []byte) error {
	if s.disk.readOnly {
		return errReadOnly
	}
	s.disk.mu.Lock()
	seq := s.disk.logged
	s.disk.logged++
	s.disk.logBytes += int64(len(document))
	s.disk.mu.Unlock()
	// The number distinguishes documents of the same time, also those of an earlier run.
	seq |= uint64(time.Now().UnixNano()) &^ 0xFFFF
	s.disk.enqueue(logKey(kind, at, seq), slices.Clone(document))
	return nil
}

// Logged calls each for the documents of a kind in order of time; a zero interval means all. It
// returns the error of each or of ctx.
func (s *Store) Logged(
	ctx context.Context,
	kind string,
	over measure.Interval,
	each func(at measure.Time, document []byte) error,
) error {
	s.disk.settle()
	head := append(append([]byte{kindLog}, kind...), 0)
	from, to := head, bound(head)
	if over != (measure.Interval{}) {
		from, to = timeKey(
			slices.Clone(head),
			over.Start+1,
		), timeKey(
			slices.Clone(head),
			over.End+1,
		)
	}
	var stop error // from each or ctx
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
	// A part is corrupt. What follows it is reachable from the end.
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

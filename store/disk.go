package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// disk is Pebble and the goroutine that writes frames into it. Append never waits for it.
type disk struct {
	dir      string
	options  Options
	lock     io.Closer
	readOnly bool
	folder   os.FileInfo // of dir when it was opened; nil: it is not on the system's disk

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
	reread        map[string]bool  // names of tables to read as a whole at the next opening
	damagedKeys   map[string]error // keys whose value is corrupt
	logged        uint64           // number of the next document
	logBytes      int64            // bytes of documents since the last count
}

type pair struct{ key, value []byte }

// syncEvery is the interval of syncs, and so the most data that a power failure loses.
const syncEvery = 900 * time.Millisecond

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

// noteDamagedTable records a corrupt table; path is "" when it is not known which one.
func (d *disk) noteDamagedTable(path string, err error) {
	what := firstLine(err)
	d.mu.Lock()
	d.tableDamaged = true
	if path != "" {
		name := d.options.fs.PathBase(path)
		d.reread[name] = true
		what = name + ": " + what
	}
	d.mu.Unlock()
	d.noteDamage(what)
}

// giveUp records that the current opening of Pebble is unusable.
func (d *disk) giveUp(err error) {
	d.mu.Lock()
	g := d.now
	d.mu.Unlock()
	g.giveUp(err)
}

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
			d.watchFolder()
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
	d.watchFolder()
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

// errFolderGone means that the directory of the archive is no longer the one that was opened.
var errFolderGone = errors.New("the directory was removed or replaced while culprit records")

// checkFolder returns nil while the path of the archive leads to the directory that was opened. A
// new one is not written to: another file system may have been mounted, or the one unmounted.
func (d *disk) checkFolder() error {
	if d.folder == nil {
		return nil
	}
	now, err := os.Stat(d.dir)
	if err == nil && os.SameFile(now, d.folder) {
		return nil
	}
	return fmt.Errorf(
		"%s: %w: put it back, or restart culprit to begin another archive", d.dir, errFolderGone,
	)
}

// watchFolder stops writing when the directory has gone.
func (d *disk) watchFolder() {
	if d.readOnly {
		return
	}
	if err := d.checkFolder(); err != nil && !errors.Is(d.writeError(), errFolderGone) {
		d.giveUp(err)
		d.mu.Lock()
		d.failure = err // it may have given up before for a consequence of this
		d.mu.Unlock()
	}
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
	from, to []byte, backward bool, each func(key, value []byte) error,
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
	if err == nil && !d.readOnly {
		err = writeInventory(d.options.fs, d.dir)
	}
	return errors.Join(err, d.lock.Close())
}

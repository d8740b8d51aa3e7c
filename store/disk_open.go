package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// opening is one opening of Pebble.
type opening struct {
	gate
	disk  *disk
	db    *pebble.DB
	ended chan struct{} // closed when Pebble has given up
	once  sync.Once
	why   error // why Pebble gave up; set before ended is closed
}

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
	o.Experimental.SpanPolicyFunc = tableEnd
	log := &quietLogger{g}
	o.EventListener = &pebble.EventListener{
		BackgroundError: g.backgroundError,
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			g.disk.noteDamagedTable(info.Path, info.Details)
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

// tableEnd lets each table end where the copies of keys end, so that a key and its copy are in
// different tables: one damaged file cannot destroy both.
func tableEnd(first []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	for _, kind := range []byte{kindClock, kindGroup, kindDatasetAgain} {
		if first[0] < kind {
			return policy, prefix(kind), nil
		}
	}
	return policy, nil, nil
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
		reread:      map[string]bool{},
	}
	d.idle = sync.NewCond(&d.mu)
	if !readOnly {
		if err := o.fs.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("open archive %s: %w", dir, err)
		}
	}
	held, err := lockArchive(o.fs, dir, readOnly)
	if errors.Is(err, errNoArchive) {
		return nil, fmt.Errorf("open archive %s: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open archive %s: %w", dir, inUse(dir, err))
	}
	d.lock = held
	if o.fs == vfs.Default {
		if d.folder, err = os.Stat(dir); err != nil {
			held.Close()
			return nil, fmt.Errorf("open archive %s: %w", dir, err)
		}
	}
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
	g.gate.giveUp = func(err error) { g.giveUp(fmt.Errorf("%w: %w", errGaveUp, err)) }
	if err := d.mend(g, readOnly); err != nil {
		g.giveUp(err)
		return err
	}
	d.mu.Lock()
	flawed := d.tableDamaged
	d.mu.Unlock()
	names, err := g.List(d.dir)
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
	g.gate.open.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now, d.failure, d.mustReopen = g, nil, false
	return nil
}

// errNoArchive means that a directory contains no archive.
var errNoArchive = errors.New("there is none")

// lockArchive takes the lock of an archive. To read one whose lock file is missing needs no lock.
func lockArchive(on vfs.FS, dir string, readOnly bool) (io.Closer, error) {
	name := on.PathJoin(dir, "LOCK")
	if _, err := on.Stat(name); readOnly && err != nil {
		if isArchive(on, dir) {
			return noLock{}, nil
		}
		return nil, fmt.Errorf("%w: %w", errNoArchive, err)
	}
	return lock(on, name, readOnly)
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
	aside := d.asideName()
	if err := fs.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	move := func(these func(name string) bool) (n int, err error) {
		for _, name := range names {
			if name != "LOCK" && these(name) {
				n++
				err = errors.Join(
					err, fs.Rename(fs.PathJoin(d.dir, name), fs.PathJoin(aside, name)),
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
				"the newest minutes could not be read (%s): they are now in %s", firstLine(why),
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
	if err := d.checkFolder(); err != nil {
		return err
	}
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
			return g.why
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
	g.once.Do(func() {
		g.why = err
		close(g.ended)
	})
}

// backgroundError is called by Pebble, with its locks held, for a failed flush or compaction.
// Pebble tries again at once, until the gate blocks it.
func (g *opening) backgroundError(err error) {
	d := g.disk
	if pebble.IsCorruptionError(err) {
		d.noteDamagedTable("", err)
	}
	g.giveUp(err)
}

// quietLogger is Pebble's logger. Background errors are reported by later reads and writes.
type quietLogger struct{ g *opening }

// Infof does nothing.
func (*quietLogger) Infof(string, ...any) {}

// Errorf does nothing.
func (*quietLogger) Errorf(string, ...any) {}

// Fatalf is called by Pebble when it fails, except for writes, which the gate blocks. It must not
// return: Pebble holds locks in an unknown state. It does not end the program, and it does not end
// the goroutine, whose deferred calls would unlock what is not locked.
func (s *quietLogger) Fatalf(format string, args ...any) {
	s.g.giveUp(fmt.Errorf("%w: "+format, append([]any{errGaveUp}, args...)...))
	select {}
}

// Eventf does nothing.
func (*quietLogger) Eventf(context.Context, string, ...any) {}

// IsTracingEnabled returns false.
func (*quietLogger) IsTracingEnabled(context.Context) bool { return false }

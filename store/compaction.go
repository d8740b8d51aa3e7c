package store

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// compactionTurns runs Pebble's compactions, as many at a time as Pebble allows, like Pebble's own
// scheduler. That one polls ten times a second, which costs as much CPU as recording. This one
// reacts to events: a compaction is requested or has ended, or a memtable was flushed, which may
// raise level 0.
type compactionTurns struct {
	db pebble.DBForCompaction // set before all other calls

	// Taken after Pebble's locks, and released before Pebble is called. It guards the fields below.
	mu      sync.Mutex
	running int
	ended   bool

	// Held while waiting compactions are started, one by one; taken before Pebble's locks.
	calling sync.Mutex
	calls   sync.WaitGroup
}

// Register sets the database.
func (t *compactionTurns) Register(_ int, db pebble.DBForCompaction) { t.db = db }

// Unregister waits until no compaction is being started. No other will start.
func (t *compactionTurns) Unregister() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.calls.Wait()
	t.calling.Lock() // callWaiting has seen that the turns ended
	defer t.calling.Unlock()
}

// TrySchedule grants a compaction if the limit allows it. Otherwise some compaction runs, because
// Pebble always allows one; waiting ones are started when it ends.
func (t *compactionTurns) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.running >= t.db.GetAllowedWithoutPermission() {
		return false, nil
	}
	t.running++
	return true, turn{t}
}

// UpdateGetAllowedWithoutPermission is called after a flush, with Pebble's locks held.
func (t *compactionTurns) UpdateGetAllowedWithoutPermission() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.calls.Go(t.callWaiting)
	}
}

// free reports whether another compaction may run.
func (t *compactionTurns) free() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.ended && t.running < t.db.GetAllowedWithoutPermission()
}

func (t *compactionTurns) count(n int) {
	t.mu.Lock()
	t.running += n
	t.mu.Unlock()
}

// callWaiting starts waiting compactions up to the limit. A compaction is counted after it was
// started: otherwise a concurrent TrySchedule could be refused although none runs. So one too many
// may run for a moment, which is harmless.
func (t *compactionTurns) callWaiting() {
	t.calling.Lock()
	defer t.calling.Unlock()
	for t.free() {
		if waits, _ := t.db.GetWaitingCompaction(); !waits || !t.db.Schedule(turn{t}) {
			return
		}
		t.count(1)
	}
}

// turn is the right of one compaction to run.
type turn struct{ of *compactionTurns }

// Started, MeasureCPU and CumulativeStats are statistics that are not used here.
func (turn) Started()                                          {}
func (turn) MeasureCPU(pebble.CompactionGoroutineKind)         {}
func (turn) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done ends the compaction and starts waiting ones.
func (t turn) Done() {
	t.of.count(-1)
	t.of.callWaiting()
}

package store

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// turns lets Pebble's compactions run, as many at a time as Pebble wants, as Pebble's own scheduler does. But that one wakes ten times a second to see
// whether more are wanted, which costs a server that works once a second as much as writing down what it records. Here it is seen when
// something happens: a compaction is wanted or has ended, or a memtable was flushed, after which level 0 may be higher than before.
type compactionTurns struct {
	db pebble.DBForCompaction // set before all other calls

	mu      sync.Mutex // taken after Pebble's, and let go before Pebble is called; guards both below
	running int
	ended   bool

	calling sync.Mutex // held while a waiting compaction is called, one by one; taken before Pebble's
	calls   sync.WaitGroup
}

// Register tells whose turns these are.
func (t *compactionTurns) Register(_ int, db pebble.DBForCompaction) { t.db = db }

// Unregister waits until nobody is being given a turn. There will be no other.
func (t *compactionTurns) Unregister() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.calls.Wait()
	t.calling.Lock() // whoever gave one has seen that it is over
	defer t.calling.Unlock()
}

// TrySchedule gives a turn when there is one. When there is none some compaction runs, for Pebble wants one at a time at least; whoever waits is called at
// its end.
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

// free says whether there is a turn.
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

// give calls those who wait, as long as there are turns. A turn counts from when it was taken: whoever tried for one meanwhile would be told that some
// compaction runs, while none does. So there may be one too many for a moment, which does no harm.
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

// Started, MeasureCPU and CumulativeStats tell how it goes, which nobody here asks for.
func (turn) Started()                                          {}
func (turn) MeasureCPU(pebble.CompactionGoroutineKind)         {}
func (turn) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done ends it.
func (t turn) Done() {
	t.of.count(-1)
	t.of.callWaiting()
}

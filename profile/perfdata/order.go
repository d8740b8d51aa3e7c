package perfdata

import (
	"container/heap"
)

// A queue sorts records by time. perf writes the buffer of one CPU after another, in rounds: what
// is in a round is not older than the newest record of the round before the last.
type queue struct {
	heap   []queued
	number uint64
	newest uint64 // time of the newest record
	safe   uint64 // newest at the end of the last round
	bytes  int
}

// A queued is a record that waits for older ones.
type queued struct {
	time   uint64
	number uint64 // order in the file
	record []byte
	event  int // index of File.Events
}

// maxQueued is how many bytes of records wait. Beyond it, records are taken in the order of the
// file.
const maxQueued = 256 << 20

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q *queue) Len() int { return len(q.heap) }

// Less orders by time, then by the order in the file.
func (q *queue) Less(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.time < b.time || a.time == b.time && a.number < b.number
}

// Swap exchanges two records.
func (q *queue) Swap(i, j int) { q.heap[i], q.heap[j] = q.heap[j], q.heap[i] }

// Push adds a record.
func (q *queue) Push(x any) { q.heap = append(q.heap, x.(queued)) }

// Pop removes the last record.
func (q *queue) Pop() any {
	last := q.heap[len(q.heap)-1]
	q.heap[len(q.heap)-1] = queued{}
	q.heap = q.heap[:len(q.heap)-1]
	return last
}

// add adds a record; time 0: it has none and is handled at once.
func (q *queue) add(r *reader, time uint64, event int, record []byte) error {
	if time == 0 {
		return r.apply(record, event)
	}
	q.number++
	q.newest = max(q.newest, time)
	q.bytes += len(record)
	heap.Push(q, queued{time, q.number, append([]byte(nil), record...), event})
	if q.bytes > maxQueued {
		return q.flush(r, q.newest)
	}
	return nil
}

// round ends a round of buffers.
func (q *queue) round(r *reader) error {
	err := q.flush(r, q.safe)
	q.safe = q.newest
	return err
}

// flush handles the records up to a time.
func (q *queue) flush(r *reader, to uint64) error {
	for len(q.heap) > 0 && q.heap[0].time <= to {
		e := heap.Pop(q).(queued)
		q.bytes -= len(e.record)
		if err := r.apply(e.record, e.event); err != nil {
			return err
		}
	}
	return nil
}

package collect

import (
	"slices"
	"strconv"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Out takes the rows of one reading of one collector. It is used by one goroutine and reused from tick to tick.
type Out struct {
	First     bool // the first reading of the run, or the first after one that failed: nothing to compare with
	SinceBoot bool // the first reading counts from boot: Diff compares it with zero
	Epoch     int  // changes when labels made earlier have become void

	stats  []measure.Stat
	tables []*Table
	words  *Dictionary
	before time.Time
	over   measure.Interval
	reset  bool
	failed bool // the latest reading failed
	unseen bool // the reading begins a run and is given to nobody: rows of states would only take room
	number int  // of the reading, from 1
}

// Table takes the rows of one statistic. A nil Table takes nothing: what was not asked for costs a call.
type Table struct {
	out   *Out
	batch measure.Batch
	stat  *measure.Stat
	blank bool         // nothing was measured in this interval
	lacks bool         // see Lacks
	spent measure.Span // CPU time that others took for it, beside its reading

	skip bool // rows of this reading are not taken

	// Of the reading before, to tell whether the rows are the same.
	known  int           // so many labels of the batch's keys are still those
	steady bool          // all rows of this reading have the keys that they had then
	rows   int           // so many there were
	epoch  int           // of their labels
	model  measure.Shape // of the rows of like, where they had its keys; else 0

	like  *Table          // see Like
	alike bool            // all rows of this reading have the keys of like's first rows, and none is in the batch
	lent  bool            // the batch has keys of like's, and own is the room for its own
	own   []measure.Label //
}

// NewOut returns an Out for the statistics of one collector. The labels of its rows are words of the
// dictionary.
func NewOut(stats []measure.Stat, words *Dictionary, sinceBoot bool) *Out {
	o := &Out{stats: stats, words: words, SinceBoot: sinceBoot}
	for i := range stats {
		by := make([]string, len(stats[i].Fields))
		for j, f := range stats[i].Fields {
			by[j] = f.Name
		}
		t := &Table{out: o, stat: &stats[i]}
		t.batch.Stat, t.batch.By = stats[i].ID, by
		o.tables = append(o.tables, t)
	}
	return o
}

// Start begins a reading at the time now. first: no reading came before it.
func (o *Out) Start(first bool, now time.Time) {
	o.First, o.reset, o.Epoch = first, false, o.words.epoch
	o.number++
	if o.failed {
		// Some counters may be of that reading and some of the one before it, so no interval is right for all of
		// them: begin anew.
		o.First, o.SinceBoot, o.failed = true, false, false
	}
	for _, t := range o.tables {
		b := &t.batch
		t.rows = len(b.Values)
		if t.lent {
			b.Keys = t.own
		}
		t.known, t.steady = len(b.Keys), t.epoch == o.Epoch
		b.Keys, b.Values, b.Dists, b.Loss, b.Notes = b.Keys[:0], b.Values[:0], b.Dists[:0], b.Loss[:0], b.Notes[:0]
		t.spent = 0
		t.blank, t.lacks, t.alike, t.lent = false, false, t.like != nil, false
		t.skip = t.skips()
	}
	if first {
		o.before = now
		if o.SinceBoot {
			o.before = now.Add(-uptime())
		}
	}
	o.over = between(o.before, now)
	o.before = now
}

// uptime gives the time since boot, with that spent suspended: clock_gettime(2), CLOCK_BOOTTIME.
func uptime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// between gives the interval that ends at now's wall clock and is as long as the monotonic clock says.
func between(before, now time.Time) measure.Interval {
	end := measure.Time(now.UnixNano())
	return measure.Interval{Start: end.Add(-measure.Span(now.Sub(before))), End: end}
}

// Fail says that the reading could not be done, and why: what it gave is dropped.
func (o *Out) Fail(why string) {
	o.failed = true
	for _, t := range o.tables {
		b := &t.batch
		b.Keys, b.Values, b.Dists, b.Loss, b.Notes = b.Keys[:0], b.Values[:0], b.Dists[:0], b.Loss[:0], append(b.Notes[:0], why)
	}
}

// Finish gives the batches. Over is empty where nothing was measured, so that rows which are not there are unknown, not 0.
func (o *Out) Finish(batches []*measure.Batch) []*measure.Batch {
	if o.reset {
		o.NoteAll("a counter went backwards and was left out for one interval")
	}
	for _, t := range o.tables {
		t.shape(o.Epoch)
	}
	for _, t := range o.tables {
		if t.alike {
			n := len(t.batch.Values) * len(t.batch.By)
			t.own, t.batch.Keys, t.lent = t.batch.Keys, t.like.batch.Keys[:n:n], true
		}
		t.batch.Over, t.batch.Labels = o.over, o.words.words
		if t.skips() && !o.failed {
			t.Note("the reading before failed, so there was nothing to compare with")
		}
		if t.skips() || o.failed || t.blank || t.lacks && !t.stat.Sparse && len(t.batch.Values) == 0 {
			t.batch.Over.Start = o.over.End
		}
		batches = append(batches, &t.batch)
	}
	return batches
}

// shape says whether the rows are those of the reading before. A table that is like another is told after it, wherever it stands.
func (t *Table) shape(epoch int) {
	model := measure.Shape(0)
	if t.alike {
		t.like.shape(epoch)
		model = t.like.batch.Shape
	}
	b := &t.batch
	if !t.steady || len(b.Values) != t.rows || model != t.model || b.Shape == 0 || len(b.Dists) > 0 {
		b.Shape = measure.NewShape()
	}
	t.steady, t.rows, t.epoch, t.model = true, len(b.Values), epoch, model
}

// MarkReset notes that a counter went backwards.
func (o *Out) MarkReset() { o.reset = true }

// Tables returns the tables of all wanted statistics.
func (o *Out) Tables() []*Table { return o.tables }

// Stat returns the statistic of the table.
func (t *Table) Stat() *measure.Stat { return t.stat }

// Batch returns the batch that the table fills.
func (t *Table) Batch() *measure.Batch { return &t.batch }

// AddCost adds CPU time that was spent for the table outside its reading, as by BPF programs.
func (t *Table) AddCost(spent measure.Span) { t.spent += spent }

// Cost returns what AddCost added in this reading.
func (t *Table) Cost() measure.Span { return t.spent }

// Over gives the interval since the reading before (or since boot).
func (o *Out) Over() measure.Interval { return o.over }

// Table gives the table of a statistic, nil when it is not wanted.
func (o *Out) Table(id measure.StatID) *Table {
	for _, t := range o.tables {
		if t.stat.ID == id {
			return t
		}
	}
	return nil
}

// Label gives the label of a word. It holds while Epoch stays the same.
func (o *Out) Label(word string) measure.Label { return o.words.Label(word) }

// LabelBytes is Label for bytes that belong to somebody else; it allocates only for a new word.
func (o *Out) LabelBytes(word []byte) measure.Label { return o.words.LabelBytes(word) }

// Number gives the label of a decimal number.
func (o *Out) Number(n int64) measure.Label {
	var buf [20]byte
	return o.words.LabelBytes(strconv.AppendInt(buf[:0], n, 10))
}

// NoteAll says on all wanted statistics of the collector what may mislead.
func (o *Out) NoteAll(text string) {
	for _, t := range o.tables {
		t.Note(text)
	}
}

// Like says that the rows of the table mostly have the keys of another's, which has the same fields and is given each row first. Then their
// batches share the keys, and nobody else notices. The other must be like none. Told before any row of a reading; either may be nil.
func (t *Table) Like(other *Table) {
	if t == nil || other == nil || other == t || other.like != nil || len(other.batch.By) != len(t.batch.By) {
		return
	}
	t.like, t.alike = other, len(t.batch.Values) == 0
}

// shares puts a row without its key, where that is the key of the other's row.
func (t *Table) shares(value float64, labels []measure.Label) bool {
	n, from := len(t.batch.Values)*len(labels), t.like.batch.Keys
	if n+len(labels) <= len(from) && slices.Equal(from[n:n+len(labels)], labels) {
		t.batch.Values = append(t.batch.Values, value)
		return true
	}
	t.batch.Keys = append(t.batch.Keys, from[:n]...)
	t.alike, t.steady = false, false
	return false
}

// Row puts a row, labels in the order of the statistic's fields. On the first reading a Delta takes none, except since boot.
func (t *Table) Row(value float64, labels ...string) {
	if t == nil || t.skip {
		return
	}
	var room [20]measure.Label
	key := room[:0]
	for _, w := range labels {
		key = append(key, t.out.words.Label(w))
	}
	t.Put(value, key...)
}

// Put is Row with labels made before by Out.Label.
func (t *Table) Put(value float64, labels ...measure.Label) {
	if t == nil || t.skip {
		return
	}
	b := &t.batch
	if len(labels) != len(b.By) {
		t.check(len(labels))
	}
	if t.alike && t.shares(value, labels) {
		return
	}
	b.Values = append(b.Values, value)
	if n := len(b.Keys); t.steady {
		if end := n + len(labels); end <= t.known && slices.Equal(b.Keys[n:end:end], labels) {
			b.Keys = b.Keys[:end] // they lie there already
			return
		}
		t.steady = false
	}
	b.Keys = append(b.Keys, labels...)
}

func (t *Table) skips() bool {
	return t.stat.Kind == measure.Delta && t.out.First && !t.out.SinceBoot || t.out.unseen
}

func (t *Table) check(n int) {
	if n != len(t.batch.By) {
		panic("collect: " + string(t.stat.ID) + " takes " + strconv.Itoa(len(t.batch.By)) + " labels, got " + strconv.Itoa(n))
	}
}

// Note adds a note to the statistic's batch, once an interval.
func (t *Table) Note(text string) {
	if t == nil {
		return
	}
	for _, n := range t.batch.Notes {
		if n == text {
			return
		}
	}
	t.batch.Notes = append(t.batch.Notes, text)
}

// Unmeasured says that the statistic could not be had in this interval, and why: rows that are not there are unknown then, not 0.
func (t *Table) Unmeasured(why string) {
	if t != nil {
		t.blank = true
		t.Note(why)
	}
}

// Lacks notes that the source has less than it could: why says what of it. A statistic that has no row then was not measured:
// that it has none does not say that nothing happened. Where a row that is not there is 0 (measure.Stat.Sparse), the caller
// knows whether anything was counted, and calls Unmeasured where nothing was.
func (t *Table) Lacks(why string) {
	if t != nil {
		t.lacks = true
		t.Note(why)
	}
}

// Loss adds a loss to the statistic's batch.
func (t *Table) Loss(reason string, events uint64) {
	if t != nil {
		t.batch.Loss = append(t.batch.Loss, measure.Loss{Reason: reason, Events: events})
	}
}

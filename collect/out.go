package collect

import (
	"slices"
	"strconv"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Out collects the rows of one reading of one collector. One goroutine uses it, from tick to tick.
type Out struct {
	// nothing to compare with: the first reading of the run, or the first after a failed one
	First     bool
	SinceBoot bool // the first reading counts from boot: Diff compares it with zero
	Epoch     int  // changes when labels made earlier are no longer valid

	stats    []measure.Stat
	tables   []*Table
	words    *Dictionary
	before   time.Time
	over     measure.Interval
	reset    bool
	failed   bool // the latest reading failed
	unneeded bool // nobody receives this reading, the first of a run: it needs no rows
	number   int  // of the reading, from 1
}

// Table collects the rows of one statistic. The methods of a nil Table do nothing, so a collector
// need not check whether a statistic is wanted.
type Table struct {
	out   *Out
	batch measure.Batch
	stat  *measure.Stat
	blank bool         // nothing was measured in this interval
	lacks bool         // Lacks was called
	spent measure.Span // CPU time spent outside the reading

	skip bool // rows of this reading are dropped

	// The rest finds out whether the rows have the keys of the previous reading.
	known  int           // how many labels of batch.Keys are of that reading
	steady bool          // all rows so far have the same keys as then
	rows   int           // how many rows it had
	epoch  int           // Out.Epoch of its labels
	model  measure.Shape // Shape of like, where the rows had its keys; else 0

	like *Table // table whose keys are shared; see Like
	// all rows so far have the keys of the first rows of like; batch.Keys is empty
	sameAsLike bool
	sharesKeys bool            // batch.Keys is a part of like's, and own is its own buffer
	ownKeys    []measure.Label //
}

// NewOut returns an Out for the statistics of one collector. The labels of its rows are words of
// the dictionary.
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

// Start begins a reading at the time now. first means that it is the first of the run.
func (o *Out) Start(first bool, now time.Time) {
	o.First, o.reset, o.Epoch = first, false, o.words.epoch
	o.number++
	if o.failed {
		// Some counters may be of the failed reading and some of the one before it, so no interval
		// is right for all of them: compare with neither.
		o.First, o.SinceBoot, o.failed = true, false, false
	}
	for _, t := range o.tables {
		b := &t.batch
		t.rows = len(b.Values)
		if t.sharesKeys {
			b.Keys = t.ownKeys
		}
		t.known, t.steady = len(b.Keys), t.epoch == o.Epoch
		b.Keys, b.Values, b.Dists, b.Loss, b.Notes = b.Keys[:0], b.Values[:0], b.Dists[:0], b.Loss[:0], b.Notes[:0]
		t.spent = 0
		t.blank, t.lacks, t.sameAsLike, t.sharesKeys = false, false, t.like != nil, false
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

// uptime returns the time since boot, including suspension: clock_gettime(2), CLOCK_BOOTTIME.
func uptime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// between returns the interval that ends at now's wall clock. Its length is that of the monotonic
// clock.
func between(before, now time.Time) measure.Interval {
	end := measure.Time(now.UnixNano())
	return measure.Interval{Start: end.Add(-measure.Span(now.Sub(before))), End: end}
}

// Fail ends a reading that could not be done and drops its rows. why becomes a note on each
// statistic.
func (o *Out) Fail(why string) {
	o.failed = true
	for _, t := range o.tables {
		b := &t.batch
		b.Keys, b.Values, b.Dists, b.Loss, b.Notes = b.Keys[:0], b.Values[:0], b.Dists[:0], b.Loss[:0], append(
			b.Notes[:0], why,
		)
	}
}

// Finish ends the reading and appends its batches to batches. Over is empty for a statistic that
// was not measured, so that missing rows mean unknown and not 0.
func (o *Out) Finish(batches []*measure.Batch) []*measure.Batch {
	if o.reset {
		o.NoteAll("a counter went backwards; its growth in this interval is unknown")
	}
	for _, t := range o.tables {
		t.shape(o.Epoch)
	}
	for _, t := range o.tables {
		if t.sameAsLike {
			n := len(t.batch.Values) * len(t.batch.By)
			t.ownKeys, t.batch.Keys, t.sharesKeys = t.batch.Keys, t.like.batch.Keys[:n:n], true
		}
		t.batch.Over, t.batch.Labels = o.over, o.words.words
		if t.skips() && !o.failed {
			t.Note("the previous reading failed, so there is nothing to compare with")
		}
		if t.skips() || o.failed || t.blank ||
			t.lacks && !t.stat.Sparse && len(t.batch.Values) == 0 {
			t.batch.Over.Start = o.over.End
		}
		batches = append(batches, &t.batch)
	}
	return batches
}

// shape sets the batch's Shape, which changes when the keys of the rows do. It sets that of like
// first.
func (t *Table) shape(epoch int) {
	model := measure.Shape(0)
	if t.sameAsLike {
		t.like.shape(epoch)
		model = t.like.batch.Shape
	}
	b := &t.batch
	if !t.steady || len(b.Values) != t.rows || model != t.model || b.Shape == 0 ||
		len(b.Dists) > 0 {
		b.Shape = measure.NewShape()
	}
	t.steady, t.rows, t.epoch, t.model = true, len(b.Values), epoch, model
}

// MarkReset notes on all statistics that a counter went backwards.
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

// Over returns the interval since the previous reading, or since boot.
func (o *Out) Over() measure.Interval { return o.over }

// Table returns the table of a statistic, nil if the statistic is not wanted.
func (o *Out) Table(id measure.StatID) *Table {
	for _, t := range o.tables {
		if t.stat.ID == id {
			return t
		}
	}
	return nil
}

// Label returns the label of a word. It is valid while Epoch stays the same.
func (o *Out) Label(word string) measure.Label { return o.words.Label(word) }

// LabelBytes is Label for bytes that the caller may change later. It allocates only for a new word.
func (o *Out) LabelBytes(word []byte) measure.Label { return o.words.LabelBytes(word) }

// Number returns the label of a decimal number.
func (o *Out) Number(n int64) measure.Label {
	var buf [20]byte
	return o.words.LabelBytes(strconv.AppendInt(buf[:0], n, 10))
}

// NoteAll adds a note to all wanted statistics of the collector.
func (o *Out) NoteAll(text string) {
	for _, t := range o.tables {
		t.Note(text)
	}
}

// Like lets the table share the keys of another table that has the same fields. The caller puts
// each row into the other table first. Rows with other keys are allowed and end the sharing for
// this reading. Call Like before the first row of a reading. The other table must not be like a
// third. Either may be nil.
func (t *Table) Like(other *Table) {
	if t == nil || other == nil || other == t || other.like != nil ||
		len(other.batch.By) != len(t.batch.By) {
		return
	}
	t.like, t.sameAsLike = other, len(t.batch.Values) == 0
}

// putShared adds a row without its key if other's row has the same key.
func (t *Table) putShared(value float64, labels []measure.Label) bool {
	n, from := len(t.batch.Values)*len(labels), t.like.batch.Keys
	if n+len(labels) <= len(from) && slices.Equal(from[n:n+len(labels)], labels) {
		t.batch.Values = append(t.batch.Values, value)
		return true
	}
	t.batch.Keys = append(t.batch.Keys, from[:n]...)
	t.sameAsLike, t.steady = false, false
	return false
}

// Row adds a row with a label for each field of the statistic, in their order. The first reading
// takes no rows of a Delta, except when it counts from boot.
func (t *Table) Row(value float64, labels ...string) {
	if t == nil || t.skip {
		return
	}
	var buffer [20]measure.Label
	key := buffer[:0]
	for _, w := range labels {
		key = append(key, t.out.words.Label(w))
	}
	t.Put(value, key...)
}

// Put is Row with labels of Out.Label.
func (t *Table) Put(value float64, labels ...measure.Label) {
	if t == nil || t.skip {
		return
	}
	b := &t.batch
	if len(labels) != len(b.By) {
		t.check(len(labels))
	}
	if t.sameAsLike && t.putShared(value, labels) {
		return
	}
	b.Values = append(b.Values, value)
	if n := len(b.Keys); t.steady {
		if end := n + len(labels); end <= t.known && slices.Equal(b.Keys[n:end:end], labels) {
			b.Keys = b.Keys[:end] // equal to the labels that are there
			return
		}
		t.steady = false
	}
	b.Keys = append(b.Keys, labels...)
}

func (t *Table) skips() bool {
	return t.stat.Kind == measure.Delta && t.out.First && !t.out.SinceBoot || t.out.unneeded
}

func (t *Table) check(n int) {
	if n != len(t.batch.By) {
		panic(
			"collect: " + string(t.stat.ID) + " takes " + strconv.Itoa(
				len(t.batch.By),
			) + " labels, got " + strconv.Itoa(n),
		)
	}
}

// Note adds a note to the statistic's batch. The same text is added once for each interval.
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

// Unmeasured notes why the statistic was not measured in this interval. Missing rows then mean
// unknown and not 0.
func (t *Table) Unmeasured(why string) {
	if t != nil {
		t.blank = true
		t.Note(why)
	}
}

// Lacks notes that the source lacks a part of what it could have. A statistic without any row then
// counts as not measured. For a sparse statistic (measure.Stat.Sparse), where a missing row means
// 0, the caller must call Unmeasured if nothing was counted.
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

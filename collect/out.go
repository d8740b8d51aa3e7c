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

	// The previous reading, for the batch's Shape.
	known  int  // number of its labels in batch.Keys
	rows   int  // number of its rows
	epoch  int  // Out.Epoch of its labels
	steady bool // all rows of this reading so far have the keys of that one
}

// NewOut returns an Out for the statistics of one collector. The labels of its rows are words of
// the dictionary.
func NewOut(stats []measure.Stat, words *Dictionary, sinceBoot bool) *Out {
	o := &Out{stats: stats, words: words, SinceBoot: sinceBoot}
	for i := range stats {
		t := &Table{out: o, stat: &stats[i]}
		t.batch.Stat, t.batch.By = stats[i].ID, fieldNames(&stats[i])
		o.tables = append(o.tables, t)
	}
	return o
}

func fieldNames(st *measure.Stat) []string {
	by := make([]string, len(st.Fields))
	for j, f := range st.Fields {
		by[j] = f.Name
	}
	return by
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
		t.known, t.rows, t.steady = len(b.Keys), len(b.Values), t.epoch == o.Epoch
		t.clear()
		t.spent, t.blank, t.lacks = 0, false, false
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
		t.clear()
		t.batch.Notes = append(t.batch.Notes, why)
	}
}

// clear empties the batch, and keeps its buffers.
func (t *Table) clear() {
	b := &t.batch
	b.Keys, b.Values, b.Dists = b.Keys[:0], b.Values[:0], b.Dists[:0]
	b.Loss, b.Notes = b.Loss[:0], b.Notes[:0]
}

// Finish ends the reading and appends its batches to batches. Over is empty for a statistic that
// was not measured, so that missing rows mean unknown and not 0.
func (o *Out) Finish(batches []*measure.Batch) []*measure.Batch {
	if o.reset {
		o.NoteAll("a counter went backwards; its growth in this interval is unknown")
	}
	for _, t := range o.tables {
		t.setShape(o.Epoch)
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

// setShape keeps the batch's Shape if the rows have the keys of the previous reading, and sets a
// new one otherwise.
func (t *Table) setShape(epoch int) {
	b := &t.batch
	if !t.steady || len(b.Values) != t.rows || b.Shape == 0 || len(b.Dists) > 0 {
		b.Shape = measure.NewShape()
	}
	t.epoch = epoch
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
	if value < 0 && t.stat.Kind == measure.Delta && !t.stat.Signed {
		value = measure.NaN // as Counters.Diff does; whatever the reason, it is no amount
		t.out.MarkReset()
	}
	b.Values = append(b.Values, value)
	if n := len(b.Keys); t.steady {
		if end := n + len(labels); end <= t.known && slices.Equal(b.Keys[n:end:end], labels) {
			b.Keys = b.Keys[:end] // the labels are there from the previous reading
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

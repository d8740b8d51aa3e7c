package diagnose

import (
	"context"
	"fmt"
	"math"
	"slices"

	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/measure"
)

// What is asked of the days before.
const (
	usualDays = 7
	day       = 24 * 60 * measure.Minute
	// The same hour is 30 minutes before and after a time that is rounded to half an hour: answers
	// hold for half an hour.
	usualSlot = 30 * measure.Minute
	usualHalf = 30 * measure.Minute
	usualCell = measure.Minute // the time of one value
	// usualLeast is the measured time that makes a day a recorded one.
	usualLeast = 10 * measure.Minute
	// fewDays is the number of recorded days below which nothing is called usual.
	fewDays = 3
	// goodTime is the part of the last good range that is read: its end.
	goodTime = 10 * measure.Minute

	usualFindings = 10 // the first findings of a report have baselines
	usualEvidence = 3  // and of each the strongest evidence
)

// UsualTime is how far back a Baseline reads.
const UsualTime = usualDays*day + usualSlot + usualHalf

// sentinelQuery is of a statistic that every recording has: it shows which days were recorded.
const sentinelQuery = `sched.runnable`

// Baseline compares findings with the days before. It keeps what it has read for half an hour. It
// belongs to one goroutine.
type Baseline struct {
	reader measure.Reader
	log    logReader
	// asks is the number of queries that one report may cost; 0: no limit. What is beyond it comes
	// with the next report.
	asks int

	slot  Time                       // the hour of the fields below is around it
	days  map[string][]dayNumbers    // by query; the last day first
	hour  map[string][usualDays]bool // by ID: the days whose log has the finding; nil: not read
	good  map[goodKey]Number
	spare int // queries that this report may still cost
}

// dayNumbers is a query at one hour of one day.
type dayNumbers struct {
	mean, least, most float64 // NaN: nothing was measured
	unit              measure.Unit
}

// goodKey is a query in the last good range of a finding.
type goodKey struct {
	query string
	end   Time
}

// NewBaseline returns a Baseline of a recording with a log of its diagnoses.
func NewBaseline(r measure.Reader, log logReader) *Baseline {
	return &Baseline{reader: r, log: log}
}

// Add sets what is usual at this hour, for the findings of a report and their evidence. Findings
// without Past have none. It lowers findings that are usual while nobody waits. The error is that
// of the context.
func (b *Baseline) Add(ctx context.Context, r *Report) error {
	if len(r.Findings) == 0 {
		return nil
	}
	if slot := (r.End + Time(usualSlot)/2) / Time(usualSlot) * Time(usualSlot); slot != b.slot {
		b.slot, b.hour = slot, nil
		b.days, b.good = map[string][]dayNumbers{}, map[goodKey]Number{}
	}
	b.spare = b.asks
	recorded, err := b.numbers(ctx, sentinelQuery)
	if err != nil {
		return err
	}
	if count(recorded) == 0 {
		noteNoHistory(r)
		return nil
	}
	if b.hour == nil {
		if err := b.readLog(ctx); err != nil {
			return err
		}
	}
	for i := range r.Findings[:min(len(r.Findings), usualFindings)] {
		f := &r.Findings[i]
		if f.Past == nil {
			f.Past = &Past{Since: r.Start, AtLeast: true, Share: 1, Seen: r.End}
		}
		b.count(f, recorded)
		for k := range f.Evidence[:min(len(f.Evidence), usualEvidence)] {
			if err := b.compare(ctx, r, f, &f.Evidence[k]); err != nil {
				return err
			}
		}
		lowerUsual(f)
	}
	rankFindings(r.Findings)
	return nil
}

// noteNoHistory notes once that nothing is known of the days before, if it matters: remarks are the
// same on any day.
func noteNoHistory(r *Report) {
	if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity != Low }) {
		r.Notes = append(r.Notes, "What is usual at this hour is unknown: nothing was recorded at "+
			"this hour of the last seven days.")
	}
}

// count sets the days of a finding.
func (b *Baseline) count(f *Finding, recorded []dayNumbers) {
	found := b.hour[f.ID]
	f.Past.Days, f.Past.DaysFound = 0, 0
	for i, d := range recorded {
		if d.mean == d.mean {
			f.Past.Days++
			if found[i] {
				f.Past.DaysFound++
			}
		}
	}
}

// count returns the number of days on which something was measured.
func count(days []dayNumbers) (n int) {
	for _, d := range days {
		if d.mean == d.mean {
			n++
		}
	}
	return n
}

// readLog reads which findings the log has at this hour of the days before.
func (b *Baseline) readLog(ctx context.Context) error {
	b.hour = map[string][usualDays]bool{}
	for i := range usualDays {
		err := b.log.Logged(ctx, historyKind, b.window(i+1),
			func(_ measure.Time, document []byte) error {
				idsIn(document, func(quoted []byte) {
					id := unquoted(quoted)
					days := b.hour[id]
					days[i] = true
					b.hour[id] = days
				})
				return ctx.Err()
			})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return nil // a damaged log knows fewer findings
		}
	}
	return nil
}

// window returns the hour some days ago.
func (b *Baseline) window(ago int) measure.Interval {
	at := b.slot.Add(-day * measure.Span(ago))
	return measure.Interval{Start: at.Add(-usualHalf), End: at.Add(usualHalf)}
}

// compare sets the usual numbers of a piece of evidence, and says them in its text.
func (b *Baseline) compare(ctx context.Context, r *Report, f *Finding, e *Evidence) error {
	query, ok := lasting(e.Statistic)
	if !ok || e.Over[1] <= e.Over[0] {
		return nil
	}
	days, err := b.numbers(ctx, query)
	if err != nil || days == nil {
		return err
	}
	now, err := b.ask(ctx, query, measure.Interval{Start: e.Over[0], End: e.Over[1]},
		e.Over[1].Sub(e.Over[0]))
	if err != nil || now.mean != now.mean {
		return err
	}
	u := &Usual{Unit: string(now.unit), Now: Number(now.mean), Good: Number(measure.NaN),
		Spread: Number(measure.NaN), least: Number(math.Inf(-1)), most: Number(math.Inf(1))}
	for _, d := range days {
		u.Days = append(u.Days, Number(d.mean))
		if d.mean == d.mean {
			u.least, u.most = max(u.least, Number(d.least)), min(u.most, Number(d.most))
		}
	}
	known := u.known()
	if len(known) == 0 {
		return nil
	}
	u.Median = Number(series.Median(known))
	if len(known) >= fewDays {
		u.Spread = Number(series.Spread(known))
	}
	if u.Good, err = b.lastGood(ctx, query, f.Past.LastGood); err != nil {
		return err
	}
	e.Usual = u
	e.Text += u.text(e)
	return nil
}

// lastGood returns the number of a query at the end of a range without the finding; NaN if none.
func (b *Baseline) lastGood(ctx context.Context, query string, over *[2]Time) (Number, error) {
	if over == nil {
		return Number(measure.NaN), nil
	}
	key := goodKey{query, over[1]}
	if v, ok := b.good[key]; ok {
		return v, nil
	}
	start := max(over[0], over[1].Add(-goodTime))
	d, err := b.ask(ctx, query, measure.Interval{Start: start, End: over[1]}, over[1].Sub(start))
	if err != nil {
		return Number(measure.NaN), err
	}
	b.good[key] = Number(d.mean)
	return Number(d.mean), nil
}

// numbers returns a query at this hour of the days before, the last day first; nil if it exceeds
// what this report may cost.
func (b *Baseline) numbers(ctx context.Context, query string) ([]dayNumbers, error) {
	if days, ok := b.days[query]; ok {
		return days, nil
	}
	if b.asks > 0 {
		if b.spare < usualDays {
			return nil, nil
		}
		b.spare -= usualDays
	}
	days := make([]dayNumbers, usualDays)
	for i := range days {
		var err error
		if days[i], err = b.ask(ctx, query, b.window(i+1), usualCell); err != nil {
			return nil, err
		}
	}
	b.days[query] = days
	return days, nil
}

// ask returns the numbers of a query in a range. A query that the recording cannot answer has no
// numbers. The error is that of the context.
func (b *Baseline) ask(ctx context.Context, text string, over measure.Interval, step measure.Span) (
	dayNumbers, error) {
	none := dayNumbers{mean: measure.NaN, least: measure.NaN, most: measure.NaN}
	q, err := measure.ParseQuery(text)
	if err != nil {
		return none, nil
	}
	q.Over, q.Step = over, step
	a, err := b.reader.Ask(ctx, q)
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	if err != nil || a == nil {
		return none, nil
	}
	return numbersOf(a, min(usualLeast, over.Span()/2)), nil
}

// numbersOf returns the mean, least and most of an answer with one row. An amount without a row is
// 0. There are none if less than enough was measured.
func numbersOf(a *measure.Answer, enough measure.Span) dayNumbers {
	d := dayNumbers{measure.NaN, math.Inf(1), math.Inf(-1), a.Unit}
	var measured measure.Span
	sum := 0.0
	for i, elapsed := range a.Elapsed {
		if elapsed <= 0 {
			continue
		}
		v := measure.NaN
		if len(a.Series) > 0 && i < len(a.Series[0].Values) {
			v = a.Series[0].Values[i]
		}
		if v != v && a.Kind == measure.Delta {
			v = 0
		}
		if v != v || math.IsInf(v, 0) {
			continue
		}
		measured += elapsed
		sum += v * elapsed.Seconds()
		d.least, d.most = min(d.least, v), max(d.most, v)
	}
	if measured <= 0 || measured < enough {
		return dayNumbers{measure.NaN, measure.NaN, measure.NaN, a.Unit}
	}
	d.mean = sum / measured.Seconds()
	return d
}

// numbering has the fields that number things: the same program has another number on another day.
//
// table: a constant that Go cannot express
var numbering = []string{"pid", "tid", "localport"}

// lasting returns a query of evidence that means the same on another day: without the numbers of
// processes, if their names remain. false if it returns several rows, or nothing of it remains.
func lasting(text string) (string, bool) {
	q, err := measure.ParseQuery(text)
	if err != nil || len(q.By) > 0 {
		return "", false
	}
	var where []measure.Term
	for _, t := range q.Where {
		if !slices.Contains(numbering, t.Field) {
			where = append(where, t)
		}
	}
	named := slices.ContainsFunc(where, func(t measure.Term) bool {
		return t.Field == "process" || t.Field == "thread" || t.Field == "peer"
	})
	if len(where) < len(q.Where) && !named {
		return "", false
	}
	q.Where = where
	return q.String(), true
}

// text returns the words for evidence: "; usually 0.4 % at this hour, 0.3 % before it began".
func (u *Usual) text(e *Evidence) string {
	scale, unit := 1.0, u.Unit
	own := ""
	switch v, now := float64(e.Value), float64(u.Now); {
	case near(v, now):
	case unit == "B/s" && near(v, 8*now):
		scale, unit = 8, string(measure.BitsPerSec)
	default: // the text has another number than the query, such as a share
		own = "the query returns " + phrase.Amount(now, unit) + ", "
	}
	amount := func(v Number) string { return phrase.Amount(float64(v)*scale, unit) }
	s := ""
	switch known := u.known(); {
	case len(known) >= fewDays:
		s = fmt.Sprintf("; %susually %s at this hour", own, amount(u.Median))
	case len(known) == 1 && u.Days[0].Known():
		s = fmt.Sprintf("; %s%s at this hour yesterday", own, amount(u.Median))
	default:
		s = fmt.Sprintf("; %s%s at this hour of %s before", own, amount(u.Median),
			phrase.Plural(len(known), "one day", "days"))
	}
	if u.Good.Known() {
		s += ", " + amount(u.Good) + " before it began"
	}
	return s
}

// near reports whether two numbers differ by less than a fifth.
func near(a, b float64) bool {
	return math.Abs(a-b) <= 0.2*max(math.Abs(a), math.Abs(b))
}

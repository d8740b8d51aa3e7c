package web

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"culprit/fleet"
	"culprit/measure"
	"culprit/view"
	"culprit/view/drill"
	"culprit/view/web/api"
)

const (
	maxScored = 20_000 // rows; of more, those unlike the others are not searched
	idleShare = 0.01   // a row with less than this share of the greatest amount is idle
	mostApart = 4      // at most 1 of 4 rows is above the others, and 1 of 4 below
)

// unlike returns the rows of an answer that differ from the others by fleet.ApartFromEquals, by
// index. Rows are compared with those that have the same labels in all fields that name no thing:
// what a device sends with what others send. Without such a field no row differs: modes of a CPU
// are no peers.
func unlike(a *measure.Answer, st *measure.Stat) map[int]fleet.Outlier {
	kinds, comparable := kindFields(st, a.Query.By)
	if !comparable || len(a.Series) > maxScored {
		return nil
	}
	groups := map[string][]int{}
	var key []byte
	for i := range a.Series {
		key = key[:0]
		for _, k := range kinds {
			key = append(append(key, a.Label(i, k)...), 0)
		}
		groups[string(key)] = append(groups[string(key)], i)
	}
	out := map[int]fleet.Outlier{}
	for _, rows := range groups {
		values := make([]float64, len(rows))
		for n, i := range rows {
			values[n] = overall(a, i)
		}
		if a.Kind == measure.Delta {
			leaveIdle(values)
		}
		for _, o := range fewApart(fleet.ApartFromEquals(values, fleet.LeastDifference(a.Unit))) {
			i := rows[o.Host]
			o.Host = i
			out[i] = o
		}
	}
	return out
}

// leaveIdle makes amounts of idle rows unknown where most rows are idle: each row that works would
// be unlike them. Where most rows work, an idle one is unlike the others.
func leaveIdle(values []float64) {
	most, known, idle := 0.0, 0, 0
	for _, v := range values {
		if v == v {
			known++
			most = max(most, v)
		}
	}
	for _, v := range values {
		if v < idleShare*most {
			idle++
		}
	}
	if 2*idle <= known {
		return
	}
	for i, v := range values {
		if v < idleShare*most {
			values[i] = measure.NaN
		}
	}
}

// fewApart leaves out rows that differ in one direction when they are more than a quarter of all:
// then rows of several sizes are usual, and none stands out.
func fewApart(all []fleet.Outlier) []fleet.Outlier {
	above := 0
	for _, o := range all {
		if o.Score > 0 {
			above++
		}
	}
	return slices.DeleteFunc(all, func(o fleet.Outlier) bool {
		n := above
		if o.Score < 0 {
			n = len(all) - above
		}
		rows := o.Others + 1
		return n > (rows+mostApart-1)/mostApart
	})
}

// kindFields returns the fields of a breakdown that name no thing, by index, and whether its rows
// can be compared at all. st may be nil.
func kindFields(st *measure.Stat, by []string) (kinds []int, comparable bool) {
	if st == nil {
		return nil, false
	}
	for k, name := range by {
		if f, _ := st.Field(name); f.Type == measure.Stack {
			return nil, false
		}
		if !drill.IsThing(st.ID, name) {
			kinds = append(kinds, k)
		}
	}
	return kinds, len(kinds) < len(by)
}

// overall returns one value for a row: of amounts the rate over all measured time, so that what
// lived shortly counts little; of levels the mean while it was there; of distributions the mean of
// all events.
func overall(a *measure.Answer, i int) float64 {
	if a.Kind == measure.Dists {
		var all measure.Dist
		for _, d := range a.Series[i].Dists() {
			all.Sum += d.Sum
			if n := d.Count(); n > 0 {
				all.Counts = append(all.Counts, n)
			}
		}
		return all.Mean()
	}
	if a.Kind != measure.Delta {
		return a.Mean(i)
	}
	total, measured := measure.NaN, 0.0
	for c, v := range a.Series[i].Values {
		if c >= len(a.Elapsed) || a.Elapsed[c] <= 0 {
			continue
		}
		measured += float64(a.Elapsed[c])
		if v == v {
			if total != total {
				total = 0
			}
			total += v * float64(a.Elapsed[c])
		}
	}
	return total / measured
}

// appendUnlike appends by how much a row differs from the others; nothing for other rows.
func (s *shaped) appendUnlike(b []byte, i int) []byte {
	if o, ok := s.unlike[i]; ok {
		b = append(appendOutlier(append(b, `,"unlike":{`...), o), '}')
	}
	return b
}

func appendOutlier(b []byte, o fleet.Outlier) []byte {
	b = view.AppendNumber(append(b, `"score":`...), o.Score)
	b = view.AppendNumber(append(b, `,"median":`...), o.Median)
	return strconv.AppendInt(append(b, `,"others":`...), int64(o.Others), 10)
}

// selectRows splits rows, the largest first, into at most top rows to send and the others. Those
// that differ from the others are sent before larger ones.
func selectRows(rows []int, top int, unlike map[int]fleet.Outlier) (sent, left []int) {
	spare := max(0, top-len(unlike))
	for _, i := range rows {
		_, differs := unlike[i]
		switch {
		case len(sent) == top || !differs && spare == 0:
			left = append(left, i)
			continue
		case !differs:
			spare--
		}
		sent = append(sent, i)
	}
	return sent, left
}

const (
	rescore     = 10 * measure.Second // a score that changed each second could not be read
	scoreShare  = 50                  // comparing takes at most 1/50 of a CPU per query
	scoreNews   = 3 * liveStep        // new scores are sent this long: a viewer may miss a tick
	unusedScore = measure.Minute
	mostScored  = 256 // queries; rows of more are not compared
)

// scores holds which rows of the queries of live views differ from the others. One second is too
// short to compare rows: they are compared over the window that a view shows, each ten seconds,
// once for all viewers.
type scores struct {
	sync.Mutex
	all     map[string]*scored // by window and query
	due     []*scored          // the queries whose rows are to be compared, the oldest first
	running bool               // a goroutine empties due, one query at a time
}

// scored is the state of one query over one window.
type scored struct {
	query  measure.Query // over the window before the newest tick that found it due
	queued bool          // it is in due, or its rows are being compared
	used   measure.Time  // the newest tick that needed it
	next   measure.Time  // the tick from which the rows are compared again
	news   measure.Time  // the first tick that had rows; 0: none yet
	rows   *deviants     // nil before the first comparison
}

// deviants are rows that differ from the others, the furthest first. It must not be changed.
type deviants struct {
	at       measure.Time // the end of the time over which rows were compared
	keys     [][]string
	outliers []fleet.Outlier
	byKey    map[string]int // the index of a row, by its labels, each ended by a zero byte
}

// deviants returns the rows of a query that differ from the others over the window before a tick,
// and whether viewers need to be sent them. It returns nil before they are known, and starts the
// comparison when it is due. text is the query's.
func (l *live) deviants(
	q measure.Query, text string, window measure.Span, at measure.Time,
) (rows *deviants, news bool) {
	if _, comparable := kindFields(l.stat(q.Stat), q.By); !comparable {
		return nil, false
	}
	s := &l.scores
	s.Lock()
	defer s.Unlock()
	key := strconv.FormatInt(int64(window), 10) + " " + text
	e := s.all[key]
	if e == nil {
		if s.all == nil {
			s.all = map[string]*scored{}
		}
		if len(s.all) >= mostScored {
			s.dropUnused(at)
		}
		if len(s.all) >= mostScored {
			return nil, false
		}
		e = &scored{}
		s.all[key] = e
	}
	e.used = at
	if at >= e.next && !e.queued {
		q.Over, q.Step = measure.Interval{Start: at.Add(-window), End: at}, window
		q.Top = maxScored
		e.query, e.queued = q, true
		s.due = append(s.due, e)
		if !s.running {
			s.running = true
			go l.compareDue(at)
		}
	}
	if e.rows == nil {
		return nil, false
	}
	if e.news == 0 {
		e.news = at
	}
	return e.rows, at.Sub(e.news) < scoreNews
}

// compareDue compares the rows of all queries that are due at a tick, and deletes the results that
// no view uses.
func (l *live) compareDue(at measure.Time) {
	s := &l.scores
	s.Lock()
	defer s.Unlock()
	s.dropUnused(at)
	for len(s.due) > 0 {
		e := s.due[0]
		s.due = s.due[1:]
		q := e.query
		s.Unlock()
		rows, took := l.compare(q)
		s.Lock()
		e.queued = false
		e.next = q.Over.End.Add(max(rescore, scoreShare*took))
		if rows != nil {
			e.rows, e.news = rows, 0
		}
	}
	s.running = false
}

// dropUnused deletes the results that no view has used lately. The caller holds the lock.
func (s *scores) dropUnused(at measure.Time) {
	for key, e := range s.all {
		if at.Sub(e.used) > unusedScore && !e.queued {
			delete(s.all, key)
		}
	}
}

// compare compares the rows of a query over one cell. It returns nil on an error, and the time that
// it took without the wait for other queries.
func (l *live) compare(q measure.Query) (rows *deviants, took measure.Span) {
	defer func() {
		if p := recover(); p != nil {
			_ = l.recovered("comparing rows", p) // counted
		}
	}()
	ctx, release, err := l.acquire(l.ended)
	if err != nil {
		return nil, 0
	}
	defer release()
	began := time.Now()
	l.metered(func() {
		a, err := l.Machine.Ask(ctx, q)
		if l.count(err); err == nil {
			rows = newDeviants(a, unlike(a, l.stat(q.Stat)))
			rows.at = q.Over.End
		}
	})
	return rows, measure.Span(time.Since(began))
}

// newDeviants returns the rows of an answer that differ the most, at most liveTop.
func newDeviants(a *measure.Answer, unlike map[int]fleet.Outlier) *deviants {
	rows := slices.SortedFunc(maps.Values(unlike), func(x, y fleet.Outlier) int {
		return cmp.Or(cmp.Compare(y.Apart(), x.Apart()), cmp.Compare(x.Host, y.Host))
	})
	rows = rows[:min(len(rows), liveTop)]
	d := &deviants{byKey: make(map[string]int, len(rows))}
	for _, o := range rows {
		i := o.Host
		labels, key := make([]string, len(a.Query.By)), []byte(nil)
		for k := range labels {
			labels[k] = a.Label(i, k)
			key = append(append(key, labels[k]...), 0)
		}
		d.byKey[string(key)] = len(d.keys)
		d.keys, d.outliers = append(d.keys, labels), append(d.outliers, o)
	}
	return d
}

// find returns the rows of an answer that are in d, by index. d may be nil.
func (d *deviants) find(a *measure.Answer) map[int]fleet.Outlier {
	if d == nil || len(d.keys) == 0 {
		return nil
	}
	out := make(map[int]fleet.Outlier, len(d.keys))
	var key []byte
	for i := range a.Series {
		key = key[:0]
		for k := range a.Query.By {
			key = append(append(key, a.Label(i, k)...), 0)
		}
		if n, ok := d.byKey[string(key)]; ok {
			out[i] = d.outliers[n]
		}
	}
	return out
}

// appendJSON appends to an object when the rows were compared, and with news the rows.
func (d *deviants) appendJSON(b []byte, news bool) []byte {
	b = api.AppendMillis(append(b, `,"compared_ms":`...), int64(d.at))
	if !news {
		return b
	}
	b = append(b, `,"unlike":[`...)
	for i, key := range d.keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendStrings(append(b, `{"key":`...), key)
		b = append(appendOutlier(append(b, ','), d.outliers[i]), '}')
	}
	return append(b, ']')
}

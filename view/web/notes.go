package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/annotation"
	"culprit/view/web/api"
)

// maxMarks is the largest number of marks of one reply.
const maxMarks = 500

// notes lists what happened at a time: what was noted, what the recording did itself, and if it is
// asked for, what recorded statistics show.
type notes struct{ *core }

// timeMark is one event on the time axis.
type timeMark struct {
	at measure.Time
	// kind is one of annotation.Kinds, or culprit, script, dataset, clock, process, interface,
	// memory, kernel.
	kind string
	text string
	who  string
	id   uint32 // of a note; 0: it is none
	life int    // of processes: the most cells that one of them was there

	// Of the kind dataset: the query and its action, and how many others changed with it.
	first, action string
	others        int
}

// list replies with the newest marks of a time range.
func (s *notes) list(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, s.now(), []string{"from", "to", "events"}, nil)
	if err != nil {
		return err
	}
	if e := p.text("events"); e != "" && e != "1" {
		return badRequest("events: %s is not 1", printable(e))
	}
	over, err := p.over(24 * 60 * measure.Minute)
	if err != nil {
		return err
	}
	ctx, release, err := s.acquire(r.Context())
	if err != nil {
		return err
	}
	defer release()
	changes, err := s.Machine.Changes(ctx, over)
	if err != nil {
		return err
	}
	var all []timeMark
	for i := range changes {
		m, ok := markOf(&changes[i])
		switch last := len(all) - 1; {
		case !ok:
		case last >= 0 && all[last].takes(&m):
		default:
			all = append(all, m)
		}
	}
	for _, n := range s.Notes.Between(over) {
		all = append(all, markOfNote(&n))
	}
	byTime := func(a, b timeMark) int { return cmp.Compare(a.at, b.at) }
	slices.SortStableFunc(all, byTime)
	more := max(0, len(all)-maxMarks)
	all = all[more:]
	lacks := []string{}
	if p.text("events") != "" {
		events, unread, err := s.events(ctx, over)
		if err != nil {
			return err
		}
		events, left := fewerEvents(events)
		more += left
		all, lacks = append(all, events...), append(lacks, unread...)
		slices.SortStableFunc(all, byTime)
	}
	b := []byte(`{"notes":[`)
	for i, m := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = m.append(b)
	}
	b = strconv.AppendInt(append(b, `],"more":`...), int64(more), 10)
	problem := ""
	if err := s.Notes.Problem(); err != nil {
		problem = err.Error()
	}
	b = view.AppendString(append(b, `,"problem":`...), problem)
	b = appendStrings(append(b, `,"unread":`...), lacks)
	return s.sendJSON(w, r, append(b, '}'))
}

// atOnce is the longest time between changes of datasets that are one mark.
const atOnce = 2 * measure.Second

// takes makes a change of another dataset part of the mark and returns true, if the same caller
// changed both in the same way at once. The budget suspends all datasets of a source.
func (m *timeMark) takes(o *timeMark) bool {
	if m.kind != "dataset" || o.kind != "dataset" || m.who != o.who || m.action != o.action ||
		o.at.Sub(m.at) > atOnce {
		return false
	}
	m.others++
	return true
}

func (m *timeMark) append(b []byte) []byte {
	if m.others > 0 {
		m.text = fmt.Sprintf("%s and %d other datasets %s", m.first, m.others, m.action)
	}
	b = api.AppendMillis(append(b, `{"at_ms":`...), int64(m.at))
	b = view.AppendString(append(b, `,"kind":`...), m.kind)
	b = view.AppendString(append(b, `,"text":`...), m.text)
	b = view.AppendString(append(b, `,"who":`...), m.who)
	if m.id != 0 {
		b = strconv.AppendUint(append(b, `,"id":`...), uint64(m.id), 10)
	}
	return append(b, '}')
}

func markOfNote(n *annotation.Note) timeMark {
	return timeMark{at: n.At, kind: n.Kind, text: n.Text, who: n.Author, id: n.ID}
}

// markOf returns an entry of the audit log as a mark; ok is false for what changes no graph: the
// start of a dataset, and what was discarded.
func markOf(c *measure.Change) (m timeMark, ok bool) {
	m = timeMark{at: c.At, who: c.Actor}
	switch {
	case c.Actor == "culprit":
		m.kind, m.text = "culprit", c.Query
	case c.Actor == "clock" && strings.HasPrefix(c.Action, "set "):
		m.kind, m.text = "clock", "the clock was "+c.Action
	case strings.HasPrefix(c.Query, "script "):
		m.kind, m.text = "script", c.Query+" "+c.Action
	case c.Action == "suspended" || c.Action == "resumed":
		m.kind, m.text, m.first, m.action = "dataset", c.Query+" "+c.Action, c.Query, c.Action
	default:
		return m, false
	}
	return m, true
}

// add adds a note.
func (s *notes) add(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Text string   `json:"text"`
		Kind string   `json:"kind"`
		AtMS *float64 `json:"at_ms"`
	}
	if err := readBody(r, &body); err != nil {
		return err
	}
	n := annotation.Note{
		At: s.now(), Kind: cmp.Or(body.Kind, "note"), Text: body.Text, Author: auditName(r),
	}
	if body.AtMS != nil {
		if ms := *body.AtMS; !(ms >= 0 && ms <= float64(lastTime/1e6)) {
			return badRequest("at_ms: %v is not milliseconds since 1970", ms)
		}
		n.At = measure.Time(*body.AtMS * 1e6)
	}
	if err := n.Check(); err != nil {
		return badRequest("%v", err)
	}
	added, err := s.Notes.Add(n)
	if err != nil {
		return refused(err)
	}
	m := markOfNote(&added)
	return s.sendJSON(w, r, m.append(nil))
}

// change removes a note.
func (s *notes) change(w http.ResponseWriter, r *http.Request) error {
	if action := r.PathValue("action"); action != "remove" {
		return notFound("unknown action "+printable(action), "remove")
	}
	if err := readBody(r, &struct{}{}); err != nil {
		return err
	}
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 32)
	ok := false
	if err == nil {
		if ok, err = s.Notes.Remove(uint32(id)); err != nil {
			return refused(err)
		}
	}
	if !ok {
		return notFound("there is no note "+printable(r.PathValue("id")), "api/notes lists them")
	}
	return s.sendJSON(w, r, []byte("{}"))
}

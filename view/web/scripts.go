package web

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/api"
)

// Scripts are the D programs of a server, whose aggregations are statistics. Safe for use by several goroutines.
type Scripts interface {
	// Scripts lists them, by ID.
	Scripts() []measure.Script
	// Add begins one, of which Text is set, and Name and Budget if wanted, and gives its ID; record: its statistics are recorded from now on. A *measure.Diagnostic where the
	// text is wrong - each, where there are more; another error says why it is refused. who stands in the audit.
	Add(who string, s measure.Script, record bool) (uint32, error)
	Start(who string, id uint32) error  // once more; nothing when it runs
	Stop(who string, id uint32) error   // what was recorded stays; nothing when it does not run
	Remove(who string, id uint32) error // stops and forgets it; what was recorded stays
}

// usualBudget is what a script may take of one CPU where nobody says.
const usualBudget = 0.02

func (s *Server) appendScript(b []byte, k *measure.Script) []byte {
	b = strconv.AppendUint(append(b, `{"id":`...), uint64(k.ID), 10)
	b = view.AppendString(append(b, `,"name":`...), k.Name)
	b = view.AppendString(append(b, `,"text":`...), k.Text)
	b = view.AppendNumber(append(b, `,"budget":`...), k.Budget)
	b = view.AppendString(append(b, `,"maker":`...), k.Creator)
	b = api.AppendMillis(append(b, `,"since_ms":`...), int64(k.Created))
	b = view.AppendString(append(b, `,"state":`...), k.State.String())
	b = view.AppendString(append(b, `,"why":`...), k.Reason)
	b = view.AppendNumber(append(b, `,"cpu":`...), k.CPU)
	b = view.AppendString(append(b, `,"output":`...), k.Output)
	b = appendStrings(append(b, `,"notes":`...), k.Notes)
	b = appendLoss(append(b, `,"loss":`...), k.Loss)
	b = append(b, `,"stats":[`...)
	for i := range k.Stats {
		if i > 0 {
			b = append(b, ',')
		}
		st := k.Stats[i]
		st.Program = "" // it is the text
		b = appendStat(b, &st)
	}
	return append(b, "]}"...)
}

var errNoScripts = fmt.Errorf("this server runs no scripts: %w", measure.ErrUnsupported) // table: an error is no constant

// scripts lists the scripts.
func (s *Server) scripts(w http.ResponseWriter, r *http.Request) error {
	if _, err := parametersOf(r.URL.RawQuery, 0, nil, nil); err != nil {
		return err
	}
	if s.Scripts == nil {
		return errNoScripts
	}
	b := []byte(`{"scripts":[`)
	for i, k := range s.Scripts.Scripts() {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendScript(b, &k)
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// addScript begins a script.
func (s *Server) addScript(w http.ResponseWriter, r *http.Request) error {
	if s.Scripts == nil {
		return errNoScripts
	}
	var asked struct {
		Text   string   `json:"text"`
		Name   string   `json:"name"`
		Budget *float64 `json:"budget"`
		Record bool     `json:"record"`
	}
	if err := body(r, &asked); err != nil {
		return err
	}
	k := measure.Script{Name: asked.Name, Text: asked.Text, Budget: usualBudget}
	if asked.Text == "" {
		return badf("there is no text")
	}
	if asked.Budget != nil {
		if k.Budget = *asked.Budget; !(k.Budget >= 0 && k.Budget <= float64(max(1, s.About.CPUs))) {
			return badf("budget: %v is no share of a CPU; 0.01 is one per cent, 0 no bound", k.Budget)
		}
	}
	id, err := s.Scripts.Add(whoOf(r), k, asked.Record)
	if err != nil {
		return refused(err)
	}
	return s.sendScript(w, r, id)
}

// sendScript answers with a script; an empty object when it is forgotten.
func (s *Server) sendScript(w http.ResponseWriter, r *http.Request, id uint32) error {
	all := s.Scripts.Scripts()
	if i := slices.IndexFunc(all, func(k measure.Script) bool { return k.ID == id }); i >= 0 {
		return s.sendJSON(w, r, s.appendScript(nil, &all[i]))
	}
	return s.sendJSON(w, r, []byte("{}"))
}

// changeScript starts, stops or removes.
func (s *Server) changeScript(w http.ResponseWriter, r *http.Request) error {
	if s.Scripts == nil {
		return errNoScripts
	}
	id64, err := strconv.ParseUint(r.PathValue("id"), 10, 32)
	id := uint32(id64)
	if err != nil || !slices.ContainsFunc(s.Scripts.Scripts(), func(k measure.Script) bool { return k.ID == id }) {
		return &fault{status: http.StatusNotFound, Code: "not-found", Message: "there is no script " + printable(r.PathValue("id")), Hint: "api/scripts lists them"}
	}
	if err := body(r, &struct{}{}); err != nil {
		return err
	}
	change := map[string]func(string, uint32) error{"start": s.Scripts.Start, "stop": s.Scripts.Stop, "remove": s.Scripts.Remove}[r.PathValue("action")]
	if change == nil {
		return &fault{status: http.StatusNotFound, Code: "not-found", Message: "a script can't be told to " + printable(r.PathValue("action")), Hint: "start, stop or remove"}
	}
	if err := change(whoOf(r), id); err != nil {
		return refused(err)
	}
	return s.sendScript(w, r, id)
}

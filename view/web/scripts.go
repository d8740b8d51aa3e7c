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

// Scripts are the D programs of a server, whose aggregations are statistics. Implementations are
// safe for concurrent use. The name of by goes to the audit log; its role is checked again where
// the script runs.
type Scripts interface {
	// Scripts lists the scripts, by ID.
	Scripts() []measure.Script

	// Add starts a script and returns its ID. Text must be set, Name and Budget may be. With record
	// its statistics are recorded from now on. The error joins a *measure.Diagnostic for each
	// mistake in the text; another error says why the script is refused.
	Add(by measure.Asker, s measure.Script, record bool) (uint32, error)

	Start(by measure.Asker, id uint32) error  // does nothing if the script runs
	Stop(by measure.Asker, id uint32) error   // keeps what was recorded
	Remove(by measure.Asker, id uint32) error // stops and deletes it; keeps what was recorded
}

// defaultBudget is the share of one CPU that a script may use if the request names no budget.
const defaultBudget = 0.02

// scripts lists and changes the scripts of the server.
type scripts struct{ *core }

// append appends the JSON of a script.
func (s *scripts) append(b []byte, k *measure.Script) []byte {
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
		st.Program = "" // equals the text of the script
		b = view.AppendStat(b, &st)
	}
	return append(b, "]}"...)
}

// table: an error is no constant
var errNoScripts = fmt.Errorf("this server runs no scripts: %w", measure.ErrUnsupported)

// list replies with all scripts.
func (s *scripts) list(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
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
		b = s.append(b, &k)
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// add starts a script.
func (s *scripts) add(w http.ResponseWriter, r *http.Request) error {
	if s.Scripts == nil {
		return errNoScripts
	}
	var body struct {
		Text   string   `json:"text"`
		Name   string   `json:"name"`
		Budget *float64 `json:"budget"`
		Record bool     `json:"record"`
	}
	if err := readBody(r, &body); err != nil {
		return err
	}
	if body.Text == "" {
		return badRequest("there is no text")
	}
	k := measure.Script{Name: body.Name, Text: body.Text, Budget: defaultBudget}
	if body.Budget != nil {
		k.Budget = *body.Budget
		if !(k.Budget >= 0 && k.Budget <= float64(max(1, s.About.CPUs))) {
			return badRequest("budget: %v is not a share of a CPU; "+
				"0.01 is one per cent, 0 no limit", k.Budget)
		}
	}
	id, err := s.Scripts.Add(askerOf(r), k, body.Record)
	if err != nil {
		return refused(err)
	}
	return s.sendScript(w, r, id)
}

// sendScript replies with a script; with an empty object if it was removed.
func (s *scripts) sendScript(w http.ResponseWriter, r *http.Request, id uint32) error {
	all := s.Scripts.Scripts()
	i := slices.IndexFunc(all, func(k measure.Script) bool { return k.ID == id })
	if i < 0 {
		return s.sendJSON(w, r, []byte("{}"))
	}
	return s.sendJSON(w, r, s.append(nil, &all[i]))
}

// change starts, stops or removes a script.
func (s *scripts) change(w http.ResponseWriter, r *http.Request) error {
	if s.Scripts == nil {
		return errNoScripts
	}
	id64, err := strconv.ParseUint(r.PathValue("id"), 10, 32)
	id := uint32(id64)
	exists := func(k measure.Script) bool { return k.ID == id }
	if err != nil || !slices.ContainsFunc(s.Scripts.Scripts(), exists) {
		message := "there is no script " + printable(r.PathValue("id"))
		return notFound(message, "api/scripts lists them")
	}
	if err := readBody(r, &struct{}{}); err != nil {
		return err
	}
	actions := map[string]func(measure.Asker, uint32) error{
		"start": s.Scripts.Start, "stop": s.Scripts.Stop, "remove": s.Scripts.Remove,
	}
	action := actions[r.PathValue("action")]
	if action == nil {
		message := "unknown action " + printable(r.PathValue("action"))
		return notFound(message, "start, stop or remove")
	}
	if err := action(askerOf(r), id); err != nil {
		return refused(err)
	}
	return s.sendScript(w, r, id)
}

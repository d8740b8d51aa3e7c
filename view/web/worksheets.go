package web

import (
	"errors"
	"net/http"
	"strconv"

	"culprit/view"
	"culprit/view/web/api"
	"culprit/view/web/worksheet"
)

// worksheets keeps the worksheets of the page.
type worksheets struct{ *core }

// list replies with all worksheets.
func (s *worksheets) list(w http.ResponseWriter, r *http.Request) error {
	if _, err := parametersOf(r.URL.RawQuery, s.now(), nil, nil); err != nil {
		return err
	}
	b := []byte(`{"worksheets":[`)
	for i, one := range s.Worksheets.All() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendWorksheet(b, &one)
	}
	problem := ""
	if err := s.Worksheets.Problem(); err != nil {
		problem = err.Error()
	}
	b = view.AppendString(append(b, `],"problem":`...), problem)
	return s.sendJSON(w, r, append(b, '}'))
}

func appendWorksheet(b []byte, one *worksheet.Worksheet) []byte {
	b = strconv.AppendUint(append(b, `{"id":`...), uint64(one.ID), 10)
	b = view.AppendString(append(b, `,"name":`...), one.Name)
	b = view.AppendString(append(b, `,"state":`...), one.State)
	b = strconv.AppendUint(append(b, `,"version":`...), uint64(one.Version), 10)
	b = api.AppendMillis(append(b, `,"at_ms":`...), int64(one.Changed))
	return append(view.AppendString(append(b, `,"who":`...), one.Author), '}')
}

// save adds a worksheet, or a version of one.
func (s *worksheets) save(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		ID      uint32 `json:"id"`
		Version uint32 `json:"version"`
		Name    string `json:"name"`
		State   string `json:"state"`
	}
	if err := readBody(r, &body); err != nil {
		return err
	}
	author := auditName(r)
	if author == "page" { // the server's own token names nobody
		author = ""
	}
	saved, err := s.Worksheets.Save(worksheet.Worksheet{
		ID: body.ID, Version: body.Version, Name: body.Name, State: body.State,
		Changed: s.now(), Author: author,
	})
	if err != nil {
		return worksheetFault(err)
	}
	return s.sendJSON(w, r, appendWorksheet(nil, &saved))
}

// change removes a worksheet.
func (s *worksheets) change(w http.ResponseWriter, r *http.Request) error {
	if action := r.PathValue("action"); action != "remove" {
		return notFound("unknown action "+printable(action), "remove")
	}
	var body struct {
		Version uint32 `json:"version"`
	}
	if err := readBody(r, &body); err != nil {
		return err
	}
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 32)
	known := false
	if err == nil {
		if known, err = s.Worksheets.Remove(uint32(id), body.Version); err != nil {
			return worksheetFault(err)
		}
	}
	if !known {
		return notFound(
			"there is no worksheet "+printable(r.PathValue("id")), "api/worksheets lists them",
		)
	}
	return s.sendJSON(w, r, []byte("{}"))
}

// worksheetFault returns an error of package worksheet as a refusal.
func worksheetFault(err error) error {
	var conflict *worksheet.Conflict
	switch {
	case errors.As(err, &conflict):
		f := &fault{status: http.StatusConflict, Code: "conflict", Message: conflict.Error()}
		f.Hint = "api/worksheets has the newest version; nothing was changed"
		return f
	case errors.Is(err, worksheet.ErrName) || errors.Is(err, worksheet.ErrState):
		return badRequest("%v", err)
	}
	return refused(err)
}

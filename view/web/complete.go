package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"culprit/measure"
	"culprit/view"
)

// Completing is what a request wants to know of a D program that is being written. One of the three
// is asked for.
type Completing struct {
	Text  string // of the program
	Pos   int    // in Text, in bytes: what may be written there; -1: not asked
	Match string // probes whose names have it; "": not asked
	Check bool   // what is wrong with Text
}

// CompletionWord is what may be written.
type CompletionWord struct{ Text, Kind, Help string }

// Completion is the answer to Completing.
type Completion struct {
	From, To int // the part of Text that a word replaces, in bytes
	Words    []CompletionWord
	More     int // words that are left out
}

// Limits of completions.
const (
	completionTimeout = 20 * time.Second
	maxProgram        = 32 << 10 // bytes of a text
	maxProbeMatch     = 256      // bytes
)

// table: an error is no constant
var errNoWords = fmt.Errorf("this server completes no scripts: %w", measure.ErrUnsupported)

// complete replies with what may be written at a position of a D program.
func (s *scripts) complete(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Text     string `json:"text"`
		Position int    `json:"position"`
	}
	if err := readBody(r, &body); err != nil {
		return err
	}
	if body.Position < 0 || body.Position > len(body.Text) {
		return badRequest("position: %d is not in a text of %d bytes", body.Position,
			len(body.Text))
	}
	return s.sendWords(w, r, Completing{Text: body.Text, Pos: body.Position})
}

// check replies with an empty list of words, or with all mistakes in a D program. It starts
// nothing.
func (s *scripts) check(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Text string `json:"text"`
	}
	if err := readBody(r, &body); err != nil {
		return err
	}
	return s.sendWords(w, r, Completing{Text: body.Text, Pos: -1, Check: true})
}

// probes replies with the probes of this machine that a text finds.
func (s *scripts) probes(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Match string `json:"match"`
	}
	if err := readBody(r, &body); err != nil {
		return err
	}
	if body.Match == "" || len(body.Match) > maxProbeMatch {
		return badRequest("match: give a text of at most %d bytes", maxProbeMatch)
	}
	return s.sendWords(w, r, Completing{Pos: -1, Match: body.Match})
}

func (s *scripts) sendWords(w http.ResponseWriter, r *http.Request, q Completing) error {
	if s.Complete == nil {
		return errNoWords
	}
	switch {
	case len(q.Text) > maxProgram:
		return tooLarge(fmt.Sprintf("a script of %d bytes", len(q.Text)),
			fmt.Sprintf("at most %d bytes are completed", maxProgram))
	case !utf8.ValidString(q.Text) || !utf8.ValidString(q.Match):
		return badRequest("text: it is no UTF-8")
	}
	ctx, cancel := context.WithTimeout(r.Context(), completionTimeout)
	defer cancel()
	got, err := s.Complete(ctx, q)
	if err != nil {
		return refused(err)
	}
	b := strconv.AppendInt([]byte(`{"from":`), int64(got.From), 10)
	b = strconv.AppendInt(append(b, `,"to":`...), int64(got.To), 10)
	b = append(b, `,"words":[`...)
	for i := range got.Words {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"text":`...), got.Words[i].Text)
		b = view.AppendString(append(b, `,"kind":`...), got.Words[i].Kind)
		b = append(view.AppendString(append(b, `,"help":`...), got.Words[i].Help), '}')
	}
	b = strconv.AppendInt(append(b, `],"more":`...), int64(got.More), 10)
	return s.sendJSON(w, r, append(b, '}'))
}

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/api"
)

// fault is an error on its way to an asker: a status, and what the JSON says. A Code is a stable word that programs decide by.
type fault struct {
	status           int
	Code             string
	Message          string                // one clause
	Hint             string                // what to do instead; "" = nothing useful to say
	Text             string                // what Position counts in; "" = no text
	Position, Length int                   // in bytes of Text
	Doing, Needs     string                // of a denial
	Also             []*measure.Diagnostic // what else is wrong with the text
}

// Error gives the message and the hint in one line.
func (f *fault) Error() string {
	if f.Hint != "" {
		return f.Message + " (" + f.Hint + ")"
	}
	return f.Message
}

// faultOf gives what an asker is told of an error.
func faultOf(err error) *fault {
	var f *fault
	var d *measure.Diagnostic
	var denied *measure.Denied
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &d):
		f = &fault{status: http.StatusBadRequest, Code: d.Code, Message: d.Message, Hint: d.Hint, Text: d.Text, Position: d.Pos, Length: d.Len}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				var other *measure.Diagnostic
				if errors.As(e, &other) && other != d {
					f.Also = append(f.Also, other)
				}
			}
		}
		return f
	case errors.Is(err, context.DeadlineExceeded):
		return &fault{status: http.StatusServiceUnavailable, Code: "busy", Message: "it took too long", Hint: "ask for less time or longer cells"}
	}
	f = &fault{status: http.StatusInternalServerError, Code: "broken", Message: err.Error()}
	for _, k := range api.Codes {
		if errors.Is(err, k.Err) {
			f.status, f.Code = k.Status, k.Word
			break
		}
	}
	if errors.As(err, &denied) {
		f.Doing, f.Needs = denied.Doing, denied.Needs
	}
	return f
}

func badf(format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, Code: "bad-request", Message: fmt.Sprintf(format, args...)}
}

// appendJSON appends {"message":..,"code":..} and what else there is.
func (f *fault) appendJSON(b []byte) []byte {
	b = view.AppendString(append(b, `{"message":`...), f.Message)
	b = view.AppendString(append(b, `,"code":`...), f.Code)
	for _, word := range []struct{ name, text string }{{"hint", f.Hint}, {"text", f.Text}, {"doing", f.Doing}, {"needs", f.Needs}} {
		if word.text != "" {
			b = append(append(append(b, `,"`...), word.name...), `":`...)
			b = view.AppendString(b, word.text)
		}
	}
	if f.Text != "" {
		b = strconv.AppendInt(append(b, `,"position":`...), int64(f.Position), 10)
		b = strconv.AppendInt(append(b, `,"length":`...), int64(f.Length), 10)
	}
	for i, d := range f.Also {
		b = append(b, []string{`,"also":[{`, `,{`}[min(i, 1)]...)
		b = view.AppendString(append(b, `"message":`...), d.Message)
		b = view.AppendString(append(b, `,"code":`...), d.Code)
		if d.Hint != "" {
			b = view.AppendString(append(b, `,"hint":`...), d.Hint)
		}
		b = strconv.AppendInt(append(b, `,"position":`...), int64(d.Pos), 10)
		b = append(strconv.AppendInt(append(b, `,"length":`...), int64(d.Len), 10), '}')
	}
	if len(f.Also) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// refuse answers with the error.
func refuse(w http.ResponseWriter, err error) {
	f := faultOf(err)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Encoding")
	w.WriteHeader(f.status)
	b := append(f.appendJSON([]byte(`{"error":`)), "}\n"...)
	_, _ = w.Write(b) // who is gone needs no answer
}

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/access"
	"culprit/view/web/api"
)

// fault is an error with the HTTP status and the JSON of its reply.
type fault struct {
	status           int
	retryAfter       time.Duration         // 0: no time is named
	Code             string                // a stable word for programs
	Message          string                // one clause
	Hint             string                // what to do instead; "": nothing useful to say
	Text             string                // the text that Position refers to; "": none
	Position, Length int                   // in bytes of Text
	Doing, Needs     string                // of a measure.Denied
	Also             []*measure.Diagnostic // more errors in Text
}

// Error returns the message and the hint in one line.
func (f *fault) Error() string {
	if f.Hint != "" {
		return f.Message + " (" + f.Hint + ")"
	}
	return f.Message
}

// faultOf returns err as a fault.
func faultOf(err error) *fault {
	var f *fault
	var d *measure.Diagnostic
	var refused *access.Refusal
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &refused):
		return &fault{
			status: refused.Status, Code: refused.Code, Message: refused.Message,
			Hint: refused.Hint, retryAfter: refused.RetryAfter,
		}
	case errors.As(err, &d):
		return diagnosticFault(err, d)
	case errors.Is(err, context.DeadlineExceeded):
		return busy("it took too long", "choose a shorter time or a longer step")
	}
	f = &fault{status: http.StatusInternalServerError, Code: "broken", Message: err.Error()}
	for _, c := range api.Codes {
		if errors.Is(err, c.Err) {
			f.status, f.Code = c.Status, c.Word
			break
		}
	}
	var denied *measure.Denied
	if errors.As(err, &denied) {
		f.Doing, f.Needs = denied.Doing, denied.Needs
	}
	return f
}

// diagnosticFault returns d as a fault, with the other diagnostics that err joins.
func diagnosticFault(err error, d *measure.Diagnostic) *fault {
	f := &fault{
		status: http.StatusBadRequest, Code: d.Code, Message: d.Message, Hint: d.Hint,
		Text: d.Text, Position: d.Pos, Length: d.Len,
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			var other *measure.Diagnostic
			if errors.As(e, &other) && other != d {
				f.Also = append(f.Also, other)
			}
		}
	}
	return f
}

func badRequest(format string, args ...any) *fault {
	message := fmt.Sprintf(format, args...)
	return &fault{status: http.StatusBadRequest, Code: "bad-request", Message: message}
}

func notFound(message, hint string) *fault {
	return &fault{status: http.StatusNotFound, Code: "not-found", Message: message, Hint: hint}
}

func tooLarge(message, hint string) *fault {
	status := http.StatusRequestEntityTooLarge
	return &fault{status: status, Code: "too-large", Message: message, Hint: hint}
}

func busy(message, hint string) *fault {
	return &fault{status: http.StatusServiceUnavailable, Code: "busy", Message: message, Hint: hint}
}

// appendJSON appends {"message":..,"code":..} and the other fields that are set.
func (f *fault) appendJSON(b []byte) []byte {
	b = view.AppendString(append(b, `{"message":`...), f.Message)
	b = view.AppendString(append(b, `,"code":`...), f.Code)
	optional := []struct{ name, text string }{
		{"hint", f.Hint}, {"text", f.Text}, {"doing", f.Doing}, {"needs", f.Needs},
	}
	for _, o := range optional {
		if o.text != "" {
			b = append(append(append(b, `,"`...), o.name...), `":`...)
			b = view.AppendString(b, o.text)
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

// refuse replies with the error.
func refuse(w http.ResponseWriter, err error) {
	f := faultOf(err)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Encoding")
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(f.retryAfter.Seconds())))
	}
	w.WriteHeader(f.status)
	b := append(f.appendJSON([]byte(`{"error":`)), "}\n"...)
	_, _ = w.Write(b) // fails only if the client is gone
}

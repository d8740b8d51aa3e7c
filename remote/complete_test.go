package remote

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"culprit/measure"
)

func TestComplete(t *testing.T) {
	want := &Completion{From: 2, To: 5, More: 7, Words: []CompletionWord{
		{"execname", "variable", "name of the thread"}, {"execargs", "variable", ""},
	}}
	var asked Completing
	r := NewRecorder(Config{Complete: func(q Completing) (*Completion, error) {
		asked = q
		switch {
		case q.Check:
			return nil, errors.Join(
				&measure.Diagnostic{Text: q.Text, Pos: 1, Len: 2, Message: "bad"},
				&measure.Diagnostic{Text: q.Text, Pos: 4, Message: "worse", Hint: "better"},
			)
		case q.Match == "panic":
			panic("a bug")
		case q.Match == "outside":
			return &Completion{From: 1, To: 2000}, nil
		}
		return want, nil
	}})
	c := NewClient()
	cut := connect(t, r, c)
	q := Completing{Text: "BEGIN { exec }", Pos: 12, Match: "tcp"}
	got, err := c.Complete(t.Context(), RoleTrace, q)
	if err != nil || !reflect.DeepEqual(got, want) || asked != q {
		t.Errorf("%+v, %v, asked %+v", got, err, asked)
	}
	_, err = c.Complete(t.Context(), RoleTrace, Completing{Text: "BEGIN", Pos: -1, Check: true})
	var mistake *measure.Diagnostic
	if !errors.As(err, &mistake) || mistake.Pos != 1 || !strings.Contains(err.Error(), "worse") {
		t.Errorf("mistakes: %v", err)
	}
	for _, match := range []string{"panic", "outside"} {
		if _, err := c.Complete(t.Context(), RoleTrace, Completing{Match: match}); err == nil {
			t.Errorf("%s: no error", match)
		}
	}
	long := Completing{Text: strings.Repeat("x", maxText+1)}
	if _, err := c.Complete(t.Context(), RoleTrace, long); !errors.Is(err, measure.ErrTooLarge) {
		t.Errorf("a long text: %v", err)
	}
	cut()
	r.Close()
}

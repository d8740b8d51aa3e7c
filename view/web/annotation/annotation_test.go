package annotation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/measure"
)

const second = measure.Time(1e9)

func TestNotesOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	n := Open(path)
	late, err := n.Add(Note{At: 20 * second, Kind: "deploy", Text: "web 1.4", Author: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	early, err := n.Add(
		Note{At: 10*second + 5, Kind: "note", Text: "slow since noon", Author: "page"},
	)
	if err != nil {
		t.Fatal(err)
	}
	again := Open(path)
	all := again.Between(measure.Interval{Start: 0, End: 30 * second})
	want := []Note{{early.ID, 10 * second, "note", "slow since noon", "page"}, late}
	if fmt.Sprint(all) != fmt.Sprint(want) || again.Problem() != nil {
		t.Errorf("%+v, %v; want %+v", all, again.Problem(), want)
	}
	if in := again.Between(measure.Interval{Start: 10 * second, End: 20 * second}); len(in) != 1 ||
		in[0].ID != late.ID {
		t.Errorf("between them: %+v", in)
	}
	if ok, err := again.Remove(late.ID); !ok || err != nil {
		t.Errorf("remove: %v, %v", ok, err)
	}
	if ok, err := again.Remove(late.ID); !ok || err != nil {
		t.Errorf("remove it again: %v, %v", ok, err)
	}
	if ok, err := again.Remove(late.ID + 7); ok || err != nil {
		t.Errorf("remove what never was: %v, %v", ok, err)
	}
	third, err := Open(path).Add(Note{At: second, Kind: "note", Text: "x"})
	if err != nil || third.ID != 3 {
		t.Errorf("the ID of a removed note is used again: %+v, %v", third, err)
	}
}

func TestAddRefuses(t *testing.T) {
	n := Open("")
	for _, tt := range []struct {
		name string
		note Note
		ok   bool
	}{
		{"the longest text", Note{Kind: "note", Text: strings.Repeat("x", MaxText)}, true},
		{"a longer text", Note{Kind: "note", Text: strings.Repeat("x", MaxText+1)}, false},
		{"no text", Note{Kind: "note", Text: " "}, false},
		{"two lines", Note{Kind: "note", Text: "a\nb"}, false},
		{"a terminal's escape", Note{Kind: "note", Text: "a\x1b[31m"}, false},
		{"not UTF-8", Note{Kind: "note", Text: "\xff"}, false},
		{"another script", Note{Kind: "note", Text: "развёрнуто 部署"}, true},
		{"an unknown kind", Note{Kind: "party", Text: "x"}, false},
		{"before 1970", Note{Kind: "note", Text: "x", At: -second}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := n.Add(tt.note); (err == nil) != tt.ok {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A note beyond the largest number replaces the one of the earliest time.
func TestNotesAreBounded(t *testing.T) {
	n := Open("")
	for i := range MaxNotes + 3 {
		if _, err := n.Add(Note{At: measure.Time(i+10) * second, Kind: "note", Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	all := n.Between(measure.Interval{End: lastTime})
	if len(all) != MaxNotes || all[0].At != 13*second {
		t.Errorf("%d notes from %v", len(all), all[0].At)
	}
	if _, err := n.Add(Note{At: second, Kind: "note", Text: "x"}); err == nil {
		t.Error("a note earlier than all is kept")
	}
}

// A file that is malformed is left as it is.
func TestMalformedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := Open(path)
	if _, err := n.Add(Note{Kind: "note", Text: "x"}); err == nil || n.Problem() == nil {
		t.Errorf("added to it: %v, %v", err, n.Problem())
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "{" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"next":3,"notes":[{"id":1,"at_ms":5,"kind":"note","text":"x","author":"page"}]}`))
	heapbound.Fuzz(f, func(t *testing.T, data []byte) {
		all, next, err := parse(data)
		if err != nil {
			return
		}
		for _, n := range all {
			if n.Check() != nil || n.ID >= next {
				t.Errorf("%+v with the next ID %d", n, next)
			}
		}
	})
}

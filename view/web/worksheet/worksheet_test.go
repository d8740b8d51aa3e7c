package worksheet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"culprit/heapbound"
	"culprit/measure"
)

const second = measure.Time(1e9)

func save(t *testing.T, s *Worksheets, one Worksheet) Worksheet {
	t.Helper()
	saved, err := s.Save(one)
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

func TestWorksheetsOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worksheets")
	s := Open(path)
	web := save(t, s, Worksheet{Name: "web", State: "q=cpu.time", Changed: 7 * second, Author: "a"})
	disk := save(t, s, Worksheet{Name: "disk", State: "q=disk.bytes&o=stack"})
	web.State = "q=cpu.time+by+mode"
	web = save(t, s, web)
	if web.Version != 2 || disk.Version != 1 || web.ID == disk.ID {
		t.Errorf("%+v and %+v", web, disk)
	}
	again := Open(path)
	if got := again.All(); fmt.Sprint(got) != fmt.Sprint([]Worksheet{disk, web}) {
		t.Errorf("read again: %+v, %v", got, again.Problem())
	}
	if known, err := again.Remove(web.ID, 2); !known || err != nil {
		t.Errorf("remove: %v, %v", known, err)
	}
	if known, err := again.Remove(web.ID, 2); !known || err != nil {
		t.Errorf("remove it again: %v, %v", known, err)
	}
	if known, err := again.Remove(9, 1); known || err != nil {
		t.Errorf("remove what never was: %v, %v", known, err)
	}
	if third := save(t, Open(path), Worksheet{Name: "new"}); third.ID != 3 {
		t.Errorf("the ID of a removed worksheet is used again: %+v", third)
	}
}

// Of two who change one version, the second is refused and learns of the first; nothing is changed.
func TestConflicts(t *testing.T) {
	s := Open("")
	base := save(t, s, Worksheet{Name: "web", State: "q=a", Author: "ann"})
	other := save(t, s, Worksheet{Name: "disk", State: "q=d"})
	first, second := base, base
	first.State, first.Author = "q=b", "bob"
	second.State, second.Author = "q=c", "cyd"
	first = save(t, s, first)
	for _, tt := range []struct {
		name string
		do   func() error
		now  Worksheet
	}{
		{"another version", func() error { _, err := s.Save(second); return err }, first},
		{"a later version", func() error {
			_, err := s.Save(Worksheet{ID: base.ID, Version: 3, Name: "web", State: "q=z"})
			return err
		}, first},
		{"a new one with its name", func() error {
			_, err := s.Save(Worksheet{Name: "web"})
			return err
		}, first},
		{"another one renamed to it", func() error {
			_, err := s.Save(Worksheet{ID: other.ID, Version: 1, Name: "web"})
			return err
		}, first},
		{"removal of an old version", func() error {
			_, err := s.Remove(base.ID, base.Version)
			return err
		}, first},
		{"one that was removed", func() error {
			_, err := s.Save(Worksheet{ID: 77, Version: 1, Name: "gone"})
			return err
		}, Worksheet{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var conflict *Conflict
			if err := tt.do(); !errors.As(err, &conflict) || conflict.Now != tt.now {
				t.Errorf("the error is %v", err)
			}
			if got := s.All(); fmt.Sprint(got) != fmt.Sprint([]Worksheet{other, first}) {
				t.Errorf("kept are %+v", got)
			}
		})
	}
}

// A request that is repeated changes nothing.
func TestSaveAgain(t *testing.T) {
	s := Open("")
	base := save(t, s, Worksheet{Name: "web", State: "q=a"})
	if again := save(t, s, Worksheet{Name: "web", State: "q=a"}); again != base {
		t.Errorf("%+v, want %+v", again, base)
	}
	change := base
	change.State = "q=b"
	first := save(t, s, change)
	if again := save(t, s, change); again != first || first.Version != 2 {
		t.Errorf("%+v, want %+v", again, first)
	}
}

// Of many who save one version at once, one succeeds.
func TestOneOfManySucceeds(t *testing.T) {
	s := Open(filepath.Join(t.TempDir(), "worksheets"))
	base := save(t, s, Worksheet{Name: "web"})
	var group sync.WaitGroup
	results := make(chan error, 20)
	for i := range 20 {
		group.Go(func() {
			one := base
			one.State = fmt.Sprintf("q=%d", i)
			_, err := s.Save(one)
			results <- err
		})
	}
	group.Wait()
	close(results)
	saved := 0
	for err := range results {
		var conflict *Conflict
		if err == nil {
			saved++
		} else if !errors.As(err, &conflict) {
			t.Error(err)
		}
	}
	if saved != 1 || s.All()[0].Version != 2 {
		t.Errorf("%d saved; kept is %+v", saved, s.All())
	}
}

func TestSaveRefuses(t *testing.T) {
	s := Open("")
	for _, tt := range []struct {
		name, sheet, state string
		ok                 bool
	}{
		{"the longest name", strings.Repeat("x", MaxName), "", true},
		{"a longer name", strings.Repeat("x", MaxName+1), "", false},
		{"no name", "", "", false},
		{"space at its end", "a ", "", false},
		{"two lines", "a\nb", "", false},
		{"a terminal's escape", "a\x1b[31m", "", false},
		{"not UTF-8", "\xff", "", false},
		{"another script", "выручка 部署", "", true},
		{"the longest state", "a", strings.Repeat("x", MaxState), true},
		{"a longer state", "b", strings.Repeat("x", MaxState+1), false},
		{"a state with a space", "c", "q=a b", false},
		{"a state with a fragment", "d", "q=a#b", false},
		{"a state with a tag", "e", "q=<script>", false},
		{"a state of other characters", "f", "q=é", false},
		{"a state as the page writes it", "g", "q=cpu.time+by+mode&o=sel%3Da,b&columns=2", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := s.Save(Worksheet{Name: tt.sheet, State: tt.state}); (err == nil) != tt.ok {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestWorksheetsAreBounded(t *testing.T) {
	t.Run("number", func(t *testing.T) {
		s := Open("")
		for i := range MaxSheets {
			save(t, s, Worksheet{Name: fmt.Sprint(i)})
		}
		if _, err := s.Save(Worksheet{Name: "more"}); err == nil || len(s.All()) != MaxSheets {
			t.Errorf("%d are kept, %v", len(s.All()), err)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		s := Open("")
		for i := range MaxBytes / MaxState {
			save(t, s, Worksheet{Name: fmt.Sprint(i), State: strings.Repeat("x", MaxState)})
		}
		if _, err := s.Save(Worksheet{Name: "more", State: "x"}); err == nil {
			t.Error("a byte more is kept")
		}
		save(t, s, Worksheet{Name: "empty"})
	})
}

// A file that is malformed is left as it is.
func TestMalformedFile(t *testing.T) {
	for _, tt := range []struct{ name, content string }{
		{"no JSON", "{"},
		{"no ID", `{"worksheets":[{"id":0,"name":"a","version":1}]}`},
		{"no version", `{"worksheets":[{"id":1,"name":"a","version":0}]}`},
		{"a name twice", `{"worksheets":[{"id":1,"name":"a","version":1},` +
			`{"id":2,"name":"a","version":1}]}`},
		{"a state that can't be", `{"worksheets":[{"id":1,"name":"a","version":1,"state":" "}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "worksheets")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			s := Open(path)
			if _, err := s.Save(Worksheet{Name: "x"}); err == nil || s.Problem() == nil {
				t.Errorf("added to it: %v, %v", err, s.Problem())
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != tt.content {
				t.Errorf("the file is %q, %v", b, err)
			}
		})
	}
}

// The largest content is read again.
func TestLargestFileIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worksheets")
	s := Open("")
	for i := range MaxSheets {
		one := Worksheet{
			Name:   fmt.Sprint(i) + strings.Repeat("<", MaxName-3),
			Author: strings.Repeat("<", maxAuthor),
			State:  strings.Repeat("&", MaxBytes/MaxSheets),
		}
		save(t, s, one)
	}
	s.path = path
	if _, err := s.Remove(1, 1); err != nil {
		t.Fatal(err)
	}
	if again := Open(path); len(again.All()) != MaxSheets-1 {
		t.Errorf("%d are read, %v", len(again.All()), again.Problem())
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"next":3,"worksheets":[` +
		`{"id":1,"name":"a","state":"q=x","version":2,"at_ms":5,"author":"page"}]}`))
	heapbound.Fuzz(f, func(t *testing.T, data []byte) {
		all, next, err := parse(data)
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, s := range all {
			if s.check() != nil || s.ID >= next || s.Version == 0 || names[s.Name] {
				t.Errorf("%+v with the next ID %d", s, next)
			}
			names[s.Name] = true
		}
	})
}

// Package worksheet keeps named worksheets of the page in a file.
package worksheet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"culprit/measure"
	"culprit/trusted"
)

// Worksheet is one worksheet: the graphs of the page under a name.
type Worksheet struct {
	ID      uint32 // 1 or more; a file never uses an ID again
	Name    string // printable, one line; no other worksheet has it
	State   string // the query of the page's address: printable ASCII without spaces
	Version uint32 // 1 at first, one more with each change
	Changed measure.Time
	Author  string // who made this version, for people
}

const (
	// MaxName is the largest number of bytes of a name.
	MaxName = 100
	// MaxState is the largest number of bytes of a state.
	MaxState = 16 << 10
	// MaxSheets is the largest number of worksheets.
	MaxSheets = 200
	// MaxBytes is the largest number of bytes of all states together.
	MaxBytes = 512 << 10

	maxAuthor = 200
	maxNumber = 1 << 31                                            // of IDs and versions
	maxFile   = 6*MaxBytes + MaxSheets*(6*(MaxName+maxAuthor)+200) // JSON writes & as \u0026
	lastTime  = measure.Time(1 << 62)
)

// ErrName is the error for a name that is empty, too long or not printable.
var ErrName = fmt.Errorf("the name must be one printable line of 1 to %d bytes", MaxName)

// ErrState is the error for a state that is no query of an address, or too long.
var ErrState = fmt.Errorf("the state must be the query of an address, at most %d bytes", MaxState)

// Conflict is the error for a change of a worksheet that was changed or removed meanwhile, and for
// a new worksheet whose name is in use. Nothing was changed.
type Conflict struct {
	Now Worksheet // the worksheet as it is; ID 0: it was removed
}

// Error says what happened meanwhile.
func (c *Conflict) Error() string {
	if c.Now.ID == 0 {
		return "the worksheet was removed meanwhile"
	}
	by := ""
	if c.Now.Author != "" {
		by = " by " + c.Now.Author
	}
	return fmt.Sprintf("the worksheet %q was saved%s meanwhile: it has version %d now",
		c.Now.Name, by, c.Now.Version)
}

// Worksheets are the worksheets of a directory. All methods are safe for concurrent use.
type Worksheets struct {
	path string // "": in memory only

	mu   sync.Mutex
	all  []Worksheet // by name
	next uint32
	err  error // why the file can't be used; nil: it can
}

// Open reads the worksheets in a file, which may be missing. A file that others may write, or that
// is malformed, is left alone: then there are no worksheets, Save and Remove fail, and Problem
// returns why. With the path "" worksheets are kept in memory.
func Open(path string) *Worksheets {
	s := &Worksheets{path: path, next: 1}
	if path == "" {
		return s
	}
	all, next, err := read(path)
	if err != nil {
		s.err = fmt.Errorf("read the worksheets in %s: %w", path, err)
		return s
	}
	s.all, s.next = all, next
	return s
}

// file is the content of a file of worksheets.
type file struct {
	Next       uint32      `json:"next"`
	Worksheets []sheetJSON `json:"worksheets"`
}

type sheetJSON struct {
	ID      uint32 `json:"id"`
	Name    string `json:"name"`
	State   string `json:"state"`
	Version uint32 `json:"version"`
	AtMS    int64  `json:"at_ms"`
	Author  string `json:"author"`
}

func read(path string) ([]Worksheet, uint32, error) {
	f, err := trusted.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 1, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, 0, err
	}
	return parse(b)
}

// parse returns the worksheets of a file, by name, and the next free ID.
func parse(b []byte) ([]Worksheet, uint32, error) {
	var content file
	if err := json.Unmarshal(b, &content); err != nil {
		return nil, 0, err
	}
	next := max(content.Next, 1)
	var all []Worksheet
	names, ids := map[string]bool{}, map[uint32]bool{}
	for i, j := range content.Worksheets {
		const millis = int64(measure.Millisecond)
		one := Worksheet{
			ID: j.ID, Name: j.Name, State: j.State, Version: j.Version,
			Changed: measure.Time(j.AtMS * millis), Author: j.Author,
		}
		err := one.check()
		switch {
		case j.ID == 0 || j.ID >= maxNumber || j.Version == 0 || j.Version >= maxNumber:
			err = errors.New("its ID or version can't be")
		case j.AtMS < 0 || j.AtMS > int64(lastTime)/millis:
			err = errors.New("its time is out of range")
		case names[j.Name] || ids[j.ID]:
			err = errors.New("its name or ID is there twice")
		}
		if err != nil {
			return nil, 0, fmt.Errorf("worksheet %d: %w", i+1, err)
		}
		names[j.Name], ids[j.ID] = true, true
		next = max(next, j.ID+1)
		all = append(all, one)
	}
	if err := checkSizes(all); err != nil {
		return nil, 0, err
	}
	slices.SortFunc(all, byName)
	return all, next, nil
}

func byName(a, b Worksheet) int { return strings.Compare(a.Name, b.Name) }

// check returns an error if the worksheet is invalid, which says why.
func (s *Worksheet) check() error {
	printable := func(text string) bool {
		return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
			return !unicode.IsGraphic(r)
		})
	}
	foreign := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("#\"<>`", r) }
	switch {
	case s.Name == "" || strings.TrimSpace(s.Name) != s.Name || len(s.Name) > MaxName ||
		!printable(s.Name):
		return ErrName
	case len(s.State) > MaxState || strings.ContainsFunc(s.State, foreign):
		return ErrState
	case len(s.Author) > maxAuthor || !printable(s.Author):
		return errors.New("the author can't be")
	}
	return nil
}

// checkSizes returns an error if the worksheets are too many or too large together.
func checkSizes(all []Worksheet) error {
	if len(all) > MaxSheets {
		return fmt.Errorf("there are %d worksheets already: remove some", MaxSheets)
	}
	bytes := 0
	for _, s := range all {
		bytes += len(s.State)
	}
	if bytes > MaxBytes {
		return fmt.Errorf("all worksheets together exceed %d KiB: remove some", MaxBytes>>10)
	}
	return nil
}

// All returns all worksheets, by name.
func (s *Worksheets) All() []Worksheet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Problem returns the error of reading the file; nil: the worksheets are known.
func (s *Worksheets) Problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Save adds a worksheet without an ID, or replaces the version of the one with the ID, and returns
// it as it is kept: with its ID and the next version. If an equal one is kept, nothing changes: a
// request may be repeated. The error is a *Conflict if another version
// is kept, or the name belongs to another worksheet; else it says what is wrong with the worksheet,
// that there is no space, or why the file can't be written.
func (s *Worksheets) Save(one Worksheet) (Worksheet, error) {
	if err := one.check(); err != nil {
		return one, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, next := slices.Clone(s.all), s.next
	if i := slices.IndexFunc(all, func(o Worksheet) bool { return o.Name == one.Name }); i >= 0 &&
		all[i].ID != one.ID {
		if one.ID == 0 && all[i].State == one.State {
			return all[i], nil
		}
		return one, &Conflict{all[i]}
	}
	if one.ID == 0 {
		one.ID, one.Version = next, 1
		next++
		all = append(all, one)
	} else {
		i := slices.IndexFunc(all, func(o Worksheet) bool { return o.ID == one.ID })
		if i < 0 {
			return one, &Conflict{}
		}
		if all[i].State == one.State && all[i].Name == one.Name {
			return all[i], s.err
		}
		if all[i].Version != one.Version {
			return one, &Conflict{all[i]}
		}
		one.Version++
		all[i] = one
	}
	if err := checkSizes(all); err != nil {
		return one, err
	}
	slices.SortFunc(all, byName)
	return one, s.replace(all, next)
}

// Remove removes a version of a worksheet. The error is a *Conflict if another version is kept; it
// is nil if the worksheet was removed before.
func (s *Worksheets) Remove(id, version uint32) (known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(o Worksheet) bool { return o.ID == id })
	if i < 0 {
		return id > 0 && id < s.next, s.err
	}
	if s.all[i].Version != version {
		return true, &Conflict{s.all[i]}
	}
	return true, s.replace(slices.Delete(slices.Clone(s.all), i, i+1), s.next)
}

// replace writes the file, then takes its content. s.mu is held.
func (s *Worksheets) replace(all []Worksheet, next uint32) error {
	if s.err != nil {
		return s.err
	}
	if s.path != "" {
		content := file{Next: next, Worksheets: make([]sheetJSON, len(all))}
		for i, one := range all {
			content.Worksheets[i] = sheetJSON{
				one.ID, one.Name, one.State, one.Version,
				int64(one.Changed) / int64(measure.Millisecond), one.Author,
			}
		}
		b, err := json.Marshal(&content)
		if err == nil {
			err = trusted.Replace(s.path, append(b, '\n'))
		}
		if err != nil {
			return fmt.Errorf("write the worksheets: %w", err)
		}
	}
	s.all, s.next = all, next
	return nil
}

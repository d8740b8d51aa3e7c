// Package annotation keeps what people and programs noted about a time, such as a deploy, in a
// file.
package annotation

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

// Note is one note.
type Note struct {
	ID     uint32 // 1 or more; a file never uses an ID again
	At     measure.Time
	Kind   string // one of Kinds
	Text   string // printable, one line
	Author string // who made it, for people
}

// Kinds lists what a note can be.
func Kinds() []string { return []string{"note", "deploy"} }

const (
	// MaxText is the largest number of bytes of a text.
	MaxText = 400
	// MaxNotes is the largest number of notes. One more replaces the one of the earliest time.
	MaxNotes = 2000

	maxAuthor = 200
	maxID     = 1 << 31
	maxFile   = MaxNotes * (6*(MaxText+maxAuthor) + 200)
	lastTime  = measure.Time(1 << 62)
)

// ErrText is the error for a text that is empty, too long or not printable.
var ErrText = fmt.Errorf("the text must be one printable line of 1 to %d bytes", MaxText)

// Notes are the notes of a directory. All methods are safe for concurrent use.
type Notes struct {
	path string // "": in memory only

	mu   sync.Mutex
	all  []Note // by time
	next uint32
	err  error // why the file can't be used; nil: it can
}

// Open reads the notes in a file, which may be missing. A file that others may write, or that is
// malformed, is left alone: then there are no notes, Add and Remove fail, and Problem returns why.
// With the path "" notes are kept in memory.
func Open(path string) *Notes {
	n := &Notes{path: path, next: 1}
	if path == "" {
		return n
	}
	all, next, err := read(path)
	if err != nil {
		n.err = fmt.Errorf("read the notes in %s: %w", path, err)
		return n
	}
	n.all, n.next = all, next
	return n
}

// file is the content of a file of notes.
type file struct {
	Next  uint32     `json:"next"`
	Notes []noteJSON `json:"notes"`
}

type noteJSON struct {
	ID     uint32 `json:"id"`
	AtMS   int64  `json:"at_ms"`
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	Author string `json:"author"`
}

func read(path string) ([]Note, uint32, error) {
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

// parse returns the notes of a file, by time, and the next free ID.
func parse(b []byte) ([]Note, uint32, error) {
	var content file
	if err := json.Unmarshal(b, &content); err != nil {
		return nil, 0, err
	}
	if len(content.Notes) > MaxNotes {
		return nil, 0, fmt.Errorf("%d notes, more than %d", len(content.Notes), MaxNotes)
	}
	next := max(content.Next, 1)
	all := make([]Note, len(content.Notes))
	for i, j := range content.Notes {
		const millis = int64(measure.Millisecond)
		if j.AtMS < 0 || j.ID >= maxID || j.AtMS > int64(lastTime)/millis || j.ID == 0 {
			return nil, 0, fmt.Errorf("note %d: its time or ID can't be", i+1)
		}
		all[i] = Note{j.ID, measure.Time(j.AtMS * millis), j.Kind, j.Text, j.Author}
		if err := all[i].Check(); err != nil {
			return nil, 0, fmt.Errorf("note %d: %w", i+1, err)
		}
		next = max(next, j.ID+1)
	}
	slices.SortStableFunc(all, byTime)
	return all, next, nil
}

func byTime(a, b Note) int { return int(min(1, max(-1, a.At-b.At))) }

// Check returns an error if the note is invalid, which says why.
func (n *Note) Check() error {
	printable := func(s string) bool {
		return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
			return !unicode.IsGraphic(r)
		})
	}
	switch {
	case !slices.Contains(Kinds(), n.Kind):
		return fmt.Errorf("kind: %q is none of %s", n.Kind, strings.Join(Kinds(), ", "))
	case strings.TrimSpace(n.Text) == "" || len(n.Text) > MaxText || !printable(n.Text):
		return ErrText
	case len(n.Author) > maxAuthor || !printable(n.Author):
		return errors.New("the author can't be")
	case n.At < 0 || n.At > lastTime:
		return errors.New("the time is out of range")
	}
	return nil
}

// Add adds a note and returns it with its ID. The error says what is wrong with it, or why the file
// can't be written.
func (n *Notes) Add(one Note) (Note, error) {
	one.At -= one.At % measure.Time(measure.Millisecond)
	if err := one.Check(); err != nil {
		return one, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	one.ID = n.next
	all := append(slices.Clone(n.all), one)
	slices.SortStableFunc(all, byTime)
	if len(all) > MaxNotes {
		all = all[len(all)-MaxNotes:]
		if !slices.ContainsFunc(all, func(o Note) bool { return o.ID == one.ID }) {
			return one, fmt.Errorf("there are %d newer notes: remove some", MaxNotes)
		}
	}
	return one, n.replace(all, n.next+1)
}

// Remove removes a note; ok is false if there never was one with the ID. The error says why the
// file can't be written.
func (n *Notes) Remove(id uint32) (ok bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.all, func(o Note) bool { return o.ID == id })
	if i < 0 {
		return id > 0 && id < n.next, n.err
	}
	return true, n.replace(slices.Delete(slices.Clone(n.all), i, i+1), n.next)
}

// Between returns the notes after start, up to the end of a time, by time.
func (n *Notes) Between(over measure.Interval) []Note {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Note
	for _, one := range n.all {
		if one.At > over.Start && one.At <= over.End {
			out = append(out, one)
		}
	}
	return out
}

// Problem returns the error of reading the file; nil: the notes are known.
func (n *Notes) Problem() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// replace writes the file, then takes its content. n.mu is held.
func (n *Notes) replace(all []Note, next uint32) error {
	if n.err != nil {
		return n.err
	}
	if n.path != "" {
		content := file{Next: next, Notes: make([]noteJSON, len(all))}
		for i, one := range all {
			content.Notes[i] = noteJSON{
				one.ID, int64(one.At) / int64(measure.Millisecond), one.Kind, one.Text, one.Author,
			}
		}
		if err := write(n.path, &content); err != nil {
			return fmt.Errorf("write the notes: %w", err)
		}
	}
	n.all, n.next = all, next
	return nil
}

// write replaces the file at once.
func write(path string, content *file) error {
	b, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return trusted.Replace(path, append(b, '\n'))
}

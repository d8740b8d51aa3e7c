package measure

import (
	"errors"
	"fmt"
	"strings"
)

// The three ways in which a thing can't be had; decide with errors.Is.
var (
	ErrUnsupported = errors.New("unsupported")    // this kernel never will
	ErrDenied      = errors.New("denied")         // you may not; a Denied says which capability is missing
	ErrUnclear     = errors.New("could not tell") // the attempt itself broke
)

// ErrTooLarge says that the answer would be larger than the reader is willing to hold: ask for less time, longer cells or fewer fields.
var ErrTooLarge = errors.New("too large")

// Denied is an ErrDenied that names the right that is missing.
type Denied struct {
	Doing string // what was being done, object last: "read io of process 12"
	Needs string // the capability or sysctl: "CAP_NET_ADMIN"
}

// Error gives one line: what was denied and what it needs.
func (d *Denied) Error() string { return d.Doing + ": denied, needs " + d.Needs }

// Is makes errors.Is(err, ErrDenied) true.
func (d *Denied) Is(target error) bool { return target == ErrDenied }

// Diagnostic tells a user what is wrong with a text they wrote, and where.
type Diagnostic struct {
	Text    string // the whole input
	Pos     int    // byte offset of the fault in Text, 0..len(Text)
	Len     int    // bytes at fault; at least 1 is marked
	Code    string // stable word: unknown-statistic, unknown-field, syntax ...
	Message string // one clause, no full stop
	Hint    string // what to write instead; "" when there is nothing useful to say
}

// Error gives the message, its 1-based column and the hint in one line.
func (d *Diagnostic) Error() string {
	s := fmt.Sprintf("column %d: %s", d.Pos+1, d.Message)
	if d.Hint != "" {
		s += " (" + d.Hint + ")"
	}
	return s
}

// Marked gives the text with a caret line under the fault, then the message and the hint: several lines, no final newline.
func (d *Diagnostic) Marked() string {
	pos := min(max(d.Pos, 0), len(d.Text))
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, d.Text)
	n := len([]rune(d.Text[:pos]))
	out := "  " + line + "\n  " + strings.Repeat(" ", n) + strings.Repeat("^", max(1, d.Len)) + "\n" + d.Message
	if d.Hint != "" {
		out += "\nhint: " + d.Hint
	}
	return out
}

// Nearest gives the candidate that a mistyped word most likely meant, or "" when none is near: at most a third of the
// word's letters (and at least one) may be added, dropped, changed or swapped, or the word is a part of exactly one candidate.
func Nearest(word string, candidates []string) string {
	best, at := "", max(1, len(word)/3)+1
	part, parts := "", 0
	for _, c := range candidates {
		if d := distance(word, c, at); d < at {
			best, at = c, d
		}
		if len(word) > 2 && strings.Contains(c, word) {
			part, parts = c, parts+1
		}
	}
	if best == "" && parts == 1 {
		return part
	}
	return best
}

// distance is the optimal string alignment distance of a and b; limit is given back when it is limit or more.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(a) > 200 || len(b) > 200 {
		return limit
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return min(row[len(b)], limit)
}

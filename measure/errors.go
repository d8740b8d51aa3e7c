package measure

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The three ways in which something is unavailable. Use errors.Is to tell them apart.
var (
	ErrUnsupported = errors.New("unsupported")    // this kernel does not have it
	ErrDenied      = errors.New("denied")         // a right is missing; a Denied names it
	ErrUnclear     = errors.New("could not tell") // the attempt itself failed
)

// ErrNeverRecorded means that no dataset of a recording has the statistic. It is an ErrUnclear.
var ErrNeverRecorded = fmt.Errorf("it was never recorded: %w", ErrUnclear)

// ErrTooLarge means that the answer would be larger than the reader's limit. A shorter time, longer
// cells or fewer fields make it smaller.
var ErrTooLarge = errors.New("too large")

// Denied is an ErrDenied that names the missing right.
type Denied struct {
	Doing string // the operation, object last: "read io of process 12"
	Needs string // the capability or sysctl: "CAP_NET_ADMIN"
}

// Error returns one line: the denied operation and the missing right.
func (d *Denied) Error() string { return d.Doing + ": denied, needs " + d.Needs }

// Is reports whether target is ErrDenied.
func (d *Denied) Is(target error) bool { return target == ErrDenied }

// Diagnostic is an error in a text that a user wrote, with its position.
type Diagnostic struct {
	Text    string // the whole input
	Pos     int    // byte offset of the error in Text, 0..len(Text)
	Len     int    // length of the error in bytes; at least 1 is marked
	Code    string // stable word: unknown-statistic, unknown-field, syntax ...
	Message string // one clause without a full stop
	Hint    string // the correction; "" when there is none
}

// Error returns the message, its 1-based column and the hint in one line.
func (d *Diagnostic) Error() string {
	s := fmt.Sprintf("column %d: %s", d.Pos+1, d.Message)
	if d.Hint != "" {
		s += " (" + d.Hint + ")"
	}
	return s
}

// Marked returns the text with a line of carets under the error, then the message and the hint. It
// has several lines and no final newline.
func (d *Diagnostic) Marked() string {
	pos := min(max(d.Pos, 0), len(d.Text))
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, d.Text)
	n := len([]rune(d.Text[:pos]))
	carets := strings.Repeat(" ", n) + strings.Repeat("^", max(1, d.Len))
	out := "  " + line + "\n  " + carets + "\n" + d.Message
	if d.Hint != "" {
		out += "\nhint: " + d.Hint
	}
	return out
}

// Nearest returns the candidate closest to a mistyped word; "" when none is close. Close means an
// edit distance of at most a third of the word's letters (at least 1), or that the word is part of
// exactly one candidate.
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

// Typo returns the candidate that a word is probably a mistyped form of; "" when there is none. It
// is stricter than Nearest, for names that differ little and mean different things: uid is no
// mistyped pid. The first letters must be equal, and at most one edit in four letters, two in
// eight. In shorter words two letters may be exchanged: pdi is pid.
func Typo(word string, candidates []string) string {
	limit := min(len(word)/4, 2)
	best, at := "", max(limit, 1)+1
	for _, c := range candidates {
		if c == "" || word == "" || c[0] != word[0] {
			continue
		}
		if d := distance(word, c, at); d < at && (d <= limit || sameLetters(word, c)) {
			best, at = c, d
		}
	}
	return best
}

// sameLetters reports whether two words have the same letters.
func sameLetters(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return string(x) == string(y)
}

// distance returns the optimal string alignment distance of a and b, or limit when the distance is
// limit or more.
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

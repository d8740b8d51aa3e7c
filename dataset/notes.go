package dataset

import (
	"slices"
	"strings"
)

// addNotes adds the notes of a newer tick. A note that differs from an earlier one only in its
// numbers replaces it: "12 processes are left" is the same remark as "9 processes are left", one
// tick later. Notes of one tick are all kept.
func addNotes(notes, newer []string) []string {
	for _, n := range newer {
		if slices.Contains(notes, n) {
			continue
		}
		i := slices.IndexFunc(notes, func(old string) bool {
			return !slices.Contains(newer, old) && sameButNumbers(old, n)
		})
		if i >= 0 {
			notes[i] = n
		} else {
			notes = append(notes, n)
		}
	}
	return notes
}

// sameButNumbers reports whether two texts are equal apart from the digits in them.
func sameButNumbers(a, b string) bool {
	const digits = "0123456789"
	for {
		i, j := strings.IndexAny(a, digits), strings.IndexAny(b, digits)
		if i < 0 || j < 0 {
			return a == b
		}
		if a[:i] != b[:j] {
			return false
		}
		a, b = strings.TrimLeft(a[i:], digits), strings.TrimLeft(b[j:], digits)
	}
}

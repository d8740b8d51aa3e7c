package dataset

import (
	"slices"
	"testing"
)

func TestNotesOfLaterTicks(t *testing.T) {
	ticks := [][]string{
		{"12 files of process 7 are left", "CPU 0 was offline", "CPU 1 was offline"},
		{"9 files of process 7 are left"},
		{"9 files of process 7 are left", "no rate"},
		{"3 files of process 8 are left", "no rate", "3 files of process 9 are gone"},
	}
	want := []string{"3 files of process 8 are left", "CPU 0 was offline", "CPU 1 was offline",
		"no rate", "3 files of process 9 are gone"}
	var got []string
	for _, notes := range ticks {
		got = addNotes(got, notes)
	}
	if !slices.Equal(got, want) {
		t.Errorf("notes %q, want %q", got, want)
	}
}

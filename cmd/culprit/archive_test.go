package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/store"
)

// recordSomething makes an archive with one dataset and closes it.
func recordSomething(t *testing.T, dir string) {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := measure.Query{Stat: "memory.free", Step: measure.Second}
	id, err := s.Save(measure.Dataset{
		Query: q, Stat: measure.Stat{ID: q.Stat, Kind: measure.Level, Unit: measure.Bytes},
		State: measure.Recording,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range measure.Time(400) {
		at := measure.Time(17e17) + i*1e9
		b := &measure.Batch{
			Stat: q.Stat, Over: measure.Interval{Start: at - 1e9, End: at},
			Values: []float64{float64(i)},
		}
		if err := s.Append(at, []uint32{id}, []*measure.Batch{b}); err != nil {
			t.Fatal(err)
		}
	}
	s.Settle()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestArchive checks, repairs and lists an archive with a damaged file, and reads its damaged
// files.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	run := func(want int, args ...string) string {
		t.Helper()
		status, out, errs := call(t, append([]string{"archive", "--dir", dir}, args...)...)
		if status != want {
			t.Errorf("%v: status %d, %s%s", args, status, out, errs)
		}
		return string(out) + string(errs)
	}
	holds := func(text string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	for _, sub := range []string{"ls", "check", "repair"} {
		holds(run(1, sub), "nothing was recorded in "+dir)
	}
	recordSomething(t, filepath.Join(dir, "archive"))
	holds(run(0), "memory.free", "1 datasets", "2023-11-14")
	holds(run(0, "check"), "No file is damaged.")
	options, err := filepath.Glob(filepath.Join(dir, "archive", "OPTIONS-*"))
	if err != nil || len(options) != 1 {
		t.Fatal(options, err)
	}
	name := filepath.Base(options[0])
	if err := os.Truncate(options[0], 0); err != nil {
		t.Fatal(err)
	}
	holds(run(1, "check"), name+": it has 0 bytes instead of", "1 file is damaged: stop the server")
	holds(run(0), "memory.free", name)
	holds(run(0, "repair"), name+": ", "The archive is repaired. The damaged files are now in "+dir)
	holds(run(0, "repair"), "No file is damaged.")
	holds(run(0, "check"), "No file is damaged.")
	holds(run(0, "ls"), "memory.free", "damaged files of ")
	aside, err := filepath.Glob(filepath.Join(dir, "archive.damaged-*"))
	if err != nil || len(aside) != 1 {
		t.Fatal(aside, err)
	}
	// An archive that was put aside as a whole is read like another one.
	recordSomething(t, filepath.Join(aside[0]))
	dir = aside[0]
	holds(run(0, "ls"), "memory.free", "1 datasets")
}

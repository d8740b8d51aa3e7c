package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"culprit/measure"
)

// Check names what is damaged, and nothing else, also while the archive is written.
func TestCheck(t *testing.T) {
	on := vfs.NewMem()
	recordedArchive(t, Options{fs: on}, 3)
	names, err := on.List("archive")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"sst", "MANIFEST", "OPTIONS", "log"} {
		i := slices.IndexFunc(names, func(n string) bool {
			k, _ := splitNumber(n)
			return k == kind
		})
		spoiled := copyArchive(t, on)
		spoil(t, spoiled, spoiled.PathJoin("archive", names[i]), damages[1].spoil, nil)
		before := contents(t, spoiled, "archive")
		found, err := check(spoiled, "archive")
		if err != nil || len(found) != 1 || found[0].File != names[i] {
			t.Errorf("%s: %v, %v", names[i], found, err)
		}
		for name, b := range contents(t, spoiled, "archive") {
			if b != before[name] {
				t.Errorf("the check changed %s", name)
			}
		}
	}
	s, _, w := filled(t, "other", Options{fs: on}, 3)
	defer s.Close()
	n := &naive{sets: map[uint32]measure.Dataset{}}
	at := someTime
	for range 5 {
		at = w.run(t, s, n, at, 200)
		if found, err := check(on, "other"); err != nil || len(found) > 0 {
			t.Fatalf("beside a writer: %v, %v", found, err)
		}
	}
}

// Directories of damaged files are part of the size, and go when they are too old or too large.
func TestDamagedDirectoriesExpire(t *testing.T) {
	on := vfs.NewMem()
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	o := Options{fs: on, clock: func() time.Time { return now }, Size: 4 << 20}
	for name, size := range map[string]int{
		"archive.damaged-20260301T120000": 10, // 8 days old
		"archive.damaged-20260303T120000": 600 << 10,
		"archive.damaged-20260304T120000": 500 << 10,
		"archive.damaged-20260305T120000": 400 << 10, // the share is 1 MB
		"archive.damaged-sometime":        10,
		"other.damaged-20260301T120000":   10,
	} {
		if err := on.MkdirAll("/db/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := on.Create("/db/"+name+"/000001.sst", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	s, err := Open("/db/archive", o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Settle()
	if bytes, err := s.retainDamaged(); err != nil || bytes != 900<<10 {
		t.Errorf("%d bytes, %v", bytes, err)
	}
	names, err := on.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "archive archive.damaged-20260304T120000 "+
		"archive.damaged-20260305T120000 archive.damaged-sometime other.damaged-20260301T120000" {
		t.Errorf("there are %s", got)
	}
}

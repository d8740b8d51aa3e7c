package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// DamagedDirectory is a directory of files that an archive has left out because they were damaged.
type DamagedDirectory struct {
	Path  string
	Time  time.Time // when it was made
	Bytes int64
}

// DamagedDirectories lists the directories of damaged files of the archive in dir, oldest first;
// none where the parent of dir does not exist. The error is that of the file system.
func DamagedDirectories(dir string) ([]DamagedDirectory, error) {
	return damagedDirectories(vfs.Default, dir)
}

func damagedDirectories(on vfs.FS, dir string) ([]DamagedDirectory, error) {
	parent := on.PathDir(dir)
	names, err := on.List(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []DamagedDirectory
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, on.PathBase(dir)+damagedSuffix)
		at, err := time.Parse(damagedTime, rest)
		if !ok || err != nil {
			continue
		}
		d := DamagedDirectory{Path: on.PathJoin(parent, name), Time: at}
		files, err := on.List(d.Path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			info, err := on.Stat(on.PathJoin(d.Path, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			d.Bytes += info.Size()
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b DamagedDirectory) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// damagedShare is the fraction (1/4) of the archive's size that damaged files may take.
const damagedShare = 4

// retainDamaged deletes directories of damaged files that are older than ticks are kept, and the
// oldest ones while they exceed their share of the size. It returns the bytes of the others.
func (s *Store) retainDamaged() (bytes int64, err error) {
	all, err := damagedDirectories(s.options.fs, s.dir)
	if err != nil {
		s.disk.noteDamage(fmt.Sprintf("the damaged files cannot be listed: %v", err))
		return 0, nil
	}
	s.mu.RLock()
	distrusted := s.newest < s.distrustClockUntil
	s.mu.RUnlock()
	for _, d := range all {
		bytes += d.Bytes
	}
	for _, d := range all {
		age := s.options.clock().Sub(d.Time)
		if (distrusted || age <= s.options.KeepTicks.AsDuration()) &&
			bytes <= s.options.Size/damagedShare {
			break
		}
		if err := s.options.fs.RemoveAll(d.Path); err != nil {
			return bytes, err
		}
		bytes -= d.Bytes
	}
	return bytes, nil
}

// Check returns the damaged files of an archive, sorted by name, after reading all of it. It
// changes nothing, and works while a server records: what it finds it looks at twice. The error is
// that of the file system, or says that there is no archive.
func Check(dir string) ([]Damage, error) { return check(vfs.Default, dir) }

// checks is how often Check looks at an archive in which files come and go.
const checks = 4

func check(on vfs.FS, dir string) ([]Damage, error) {
	if !isArchive(on, dir) {
		return nil, fmt.Errorf("check archive %s: %w: %w", dir, errNoArchive, fs.ErrNotExist)
	}
	var before []Damage
	var failure error
	for i := range checks {
		o, err := newOverlay(on, dir)
		if err != nil {
			return nil, err
		}
		m := &mender{fs: o, dir: dir, aside: dir + damagedSuffix, deep: true, beside: true}
		if err := m.mend(); err != nil {
			failure = fmt.Errorf("check archive %s: %w", dir, err)
			continue
		}
		failure = nil
		found := m.damages
		if i > 0 && before != nil {
			found = slices.DeleteFunc(found, func(d Damage) bool {
				return !slices.ContainsFunc(before, func(o Damage) bool { return o.File == d.File })
			})
		}
		slices.SortFunc(found, func(a, b Damage) int { return cmp.Compare(a.File, b.File) })
		if len(found) == 0 || before != nil {
			return found, nil
		}
		before = found
	}
	return before, failure
}

// Repair mends an archive as Open does, but reads all of it and deletes nothing for its age. It
// returns the damaged files and the directory that they were moved to. The error names the process
// that has the archive open, or is that of the file system.
func Repair(dir string) (all []Damage, aside string, err error) {
	if !isArchive(vfs.Default, dir) {
		return nil, "", fmt.Errorf("repair archive %s: %w: %w", dir, errNoArchive, fs.ErrNotExist)
	}
	held, err := lockArchive(vfs.Default, dir, false)
	if err != nil {
		return nil, "", fmt.Errorf("repair archive %s: %w", dir, inUse(dir, err))
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	d := &disk{dir: dir, options: Options{}.filled()}
	m := &mender{fs: vfs.Default, dir: dir, aside: d.asideName(), deep: true}
	if err := m.mend(); err != nil {
		return m.damages, m.aside, fmt.Errorf("repair archive %s: %w", dir, err)
	}
	if len(m.moves) == 0 {
		m.aside = ""
	}
	return m.damages, m.aside, nil
}

// IsArchive reports whether a directory contains files of an archive.
func IsArchive(dir string) bool { return isArchive(vfs.Default, dir) }

func isArchive(on vfs.FS, dir string) bool {
	names, err := on.List(dir)
	return err == nil && slices.ContainsFunc(names, func(n string) bool {
		kind, _ := splitNumber(n)
		return kind == "MANIFEST" || kind == "sst" || kind == "log"
	})
}

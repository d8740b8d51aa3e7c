package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// Damage is a file of an archive that is not as it was written.
type Damage struct {
	File string // its name in the archive
	What string // what is wrong with it, and what was or can be kept of it
}

// String returns the file and what is wrong with it.
func (d Damage) String() string { return d.File + ": " + d.What }

// mender makes an archive whose files are damaged readable for Pebble, before Pebble opens it. A
// file that cannot be read is left out and moved aside; what can be read of it stays. Pebble itself
// refuses all files because of one.
type mender struct {
	fs     vfs.FS
	dir    string
	aside  string // directory for damaged files
	deep   bool   // read every block of every table
	beside bool   // a server may be writing: the end of the manifest may be on its way
	reread map[string]bool

	names    []string
	wrong    map[string]string // by name, from the inventory
	manifest manifest
	lastFile uint64 // largest number of a file
	damages  []Damage
	changed  bool     // the manifest must be written
	flushed  uint64   // writes of the logs up to this sequence number are in tables
	moves    []string // names of files to move aside, once no manifest lists them
}

// smallArchive is the size of all tables, in bytes, up to which each opening reads every block.
const smallArchive = 32 << 20

// mend mends the archive. The error is that of the file system.
func (m *mender) mend() (err error) {
	if m.names, err = m.fs.List(m.dir); err != nil {
		return err
	}
	slices.Sort(m.names)
	for _, name := range m.names {
		_, n := splitNumber(name)
		m.lastFile = max(m.lastFile, n)
	}
	if !isArchive(m.fs, m.dir) {
		return m.removeInventory() // there is nothing yet
	}
	m.wrong = map[string]string{}
	if v, err := readInventory(m.fs, m.dir); err != nil {
		m.note(inventoryName, err.Error())
	} else if v != nil {
		m.wrong = v.differences(m.fs, m.dir)
	}
	for _, step := range []func() error{
		m.mendOptions, m.mendFormat, m.mendManifest, m.mendTables, m.mendLogs, m.writeManifest,
		m.move, m.removeInventory,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	// Files that no step needed, such as older manifests.
	for _, name := range slices.Sorted(maps.Keys(m.wrong)) {
		m.note(name, m.wrong[name]+"; nothing in it is needed")
	}
	return nil
}

// note adds a damage. What an inventory says of the file is part of it.
func (m *mender) note(name, what string) {
	if w := m.wrong[name]; w != "" {
		if !strings.HasPrefix(what, w) {
			what = w + ": " + what
		}
		delete(m.wrong, name)
	}
	m.damages = append(m.damages, Damage{name, what})
}

func (m *mender) path(name string) string { return m.fs.PathJoin(m.dir, name) }

func (m *mender) has(name string) bool { return slices.Contains(m.names, name) }

// setAside plans to move a file to the directory of damaged files.
func (m *mender) setAside(name string) {
	if m.has(name) {
		m.names = slices.DeleteFunc(m.names, func(n string) bool { return n == name })
		m.moves = append(m.moves, name)
	}
}

// move moves the files that setAside planned.
func (m *mender) move() error {
	for _, name := range m.moves {
		if err := m.fs.MkdirAll(m.aside, 0o700); err != nil {
			return err
		}
		if err := m.fs.Rename(m.path(name), m.fs.PathJoin(m.aside, name)); err != nil {
			return err
		}
	}
	return nil
}

// splitNumber returns the kind and the number of a file of Pebble: 000012.sst, MANIFEST-000012.
func splitNumber(name string) (kind string, n uint64) {
	if rest, ok := strings.CutPrefix(name, "MANIFEST-"); ok {
		kind, name = "MANIFEST", rest
	} else if rest, ok := strings.CutPrefix(name, "OPTIONS-"); ok {
		kind, name = "OPTIONS", rest
	} else if i := strings.IndexByte(name, '.'); i > 0 {
		kind, name = name[i+1:], name[:i]
	}
	n, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return "", 0
	}
	return kind, n
}

// newest returns the names of one kind, newest first.
func (m *mender) newest(kind string) []string {
	var out []string
	for _, name := range m.names {
		if k, _ := splitNumber(name); k == kind {
			out = append(out, name)
		}
	}
	slices.Reverse(out) // the names have leading zeros
	return out
}

// mendOptions moves damaged files of options aside: nothing that was recorded is in them.
func (m *mender) mendOptions() error {
	o := pebbleOptions(&opening{}, false, false)
	o.EnsureDefaults()
	for _, name := range m.newest("OPTIONS") {
		b, err := readFile(m.fs, m.path(name))
		if err == nil && len(b) == 0 {
			err = errors.New("it is empty")
		}
		if err == nil {
			err = o.CheckCompatibility(m.dir, string(b))
		}
		if err == nil && m.wrong[name] == "" {
			continue
		}
		why := m.wrong[name]
		if why == "" {
			why = firstLine(err)
		}
		m.note(name, why+"; nothing that was recorded is in it")
		m.setAside(name)
	}
	for name := range m.wrong {
		if kind, _ := splitNumber(name); kind == "OPTIONS" {
			m.note(name, m.wrong[name]+"; nothing that was recorded is in it")
		}
	}
	return nil
}

const (
	formatMarker   = "format-version"
	manifestMarker = "manifest"
)

// mendFormat writes the marker of the format version again when it is missing.
func (m *mender) mendFormat() error {
	_, value, err := atomicfs.LocateMarkerInListing(m.fs, m.dir, formatMarker, m.names)
	if err != nil {
		return err
	}
	if value != "" {
		return nil
	}
	m.note(m.marker(formatMarker), "it was missing, and was written again")
	return m.mark(formatMarker, pebble.FormatNewest.String())
}

// marker returns the name of a missing marker.
func (m *mender) marker(name string) string {
	for wrong := range m.wrong {
		if strings.HasPrefix(wrong, "marker."+name+".") {
			return wrong
		}
	}
	return "marker." + name
}

func (m *mender) mark(name, value string) error {
	at, _, err := atomicfs.LocateMarker(m.fs, m.dir, name)
	if err != nil {
		return err
	}
	return errors.Join(at.Move(value), at.Close())
}

// mendManifest reads the current manifest. If that is damaged it takes what can be read of it and
// of an older one, and all tables.
func (m *mender) mendManifest() error {
	_, current, err := atomicfs.LocateMarkerInListing(m.fs, m.dir, manifestMarker, m.names)
	if err != nil {
		return err
	}
	missing := current == ""
	if missing {
		if all := m.newest("MANIFEST"); len(all) > 0 {
			current = all[0]
		} else {
			current = "MANIFEST"
		}
	}
	why, torn := m.wrong[current], false
	b, err := readFile(m.fs, m.path(current))
	if err != nil {
		why = err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			why = "it is missing"
		}
	}
	var whole bool
	m.manifest, whole, torn = readManifest(b)
	if !whole && why == "" {
		why = "it cannot be read"
	}
	if missing {
		m.note(m.marker(manifestMarker), "it was missing, and was written again")
		m.changed = true
	}
	switch {
	case why != "":
		m.note(current, why+"; the list of tables was made again from the tables")
		m.setAside(current)
		m.fromOlder()
		return m.addUnlisted()
	case torn && !m.beside && m.isCut():
		m.note(current, "its end is missing; the list of tables was made again from the tables")
		m.setAside(current)
		m.fromOlder()
		return m.addUnlisted()
	}
	return nil
}

// fromOlder adds what an older manifest says to what could be read of the current one.
func (m *mender) fromOlder() {
	for _, name := range m.newest("MANIFEST") {
		b, err := readFile(m.fs, m.path(name))
		old, _, _ := readManifest(b)
		if err != nil || len(old.tables) == 0 && old.nextFile == 0 {
			continue
		}
		for num, t := range old.tables {
			if _, ok := m.manifest.tables[num]; !ok && !m.manifest.deleted[num] {
				m.manifest.tables[num] = t
			}
		}
		m.manifest.minLog = max(m.manifest.minLog, old.minLog)
		m.manifest.lastSeq = max(m.manifest.lastSeq, old.lastSeq)
		m.manifest.nextFile = max(m.manifest.nextFile, old.nextFile)
		break
	}
	// Tables that the older one lists may be obsolete since, and are no longer there.
	for num := range m.manifest.tables {
		if name := tableName(num); !m.has(name) && m.wrong[name] == "" {
			delete(m.manifest.tables, num)
		}
	}
	m.changed = true
}

func tableName(num uint64) string { return fmt.Sprintf("%06d.sst", num) }

// writeManifest writes a new manifest when the tables are no longer those of the current one.
func (m *mender) writeManifest() error {
	if !m.changed {
		return nil
	}
	m.lastFile++
	m.manifest.untangle()
	m.manifest.nextFile = m.lastFile + 1
	name := fmt.Sprintf("MANIFEST-%06d", m.lastFile)
	if err := writeFile(m.fs, m.path(name), func(w io.Writer) error {
		return writeRecords(w, [][]byte{m.manifest.edit()})
	}); err != nil {
		return err
	}
	return m.mark(manifestMarker, name)
}

func (m *mender) removeInventory() error {
	err := m.fs.Remove(m.path(inventoryName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

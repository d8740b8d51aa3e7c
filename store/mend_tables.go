package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
)

// addUnlisted adds the tables that no manifest lists. Copying them finds out what they contain.
// Some may be copies of what others contain, which is left out.
func (m *mender) addUnlisted() error {
	seen := newSeenKeys()
	for num := range m.manifest.tables {
		seen.addTable(m.fs, m.path(tableName(num)))
	}
	for _, name := range m.newest("sst") {
		_, num := splitNumber(name)
		if _, ok := m.manifest.tables[num]; ok || m.manifest.deleted[num] {
			continue
		}
		if err := m.copy(name, tableInfo{num: num}, "", seen); err != nil {
			return err
		}
	}
	// A log that was written to tables may still be there.
	for _, t := range m.manifest.tables {
		m.flushed = max(m.flushed, t.lastSeq)
	}
	return nil
}

// isCut reports whether a manifest whose end cannot be read lacks edits that were complete. A crash
// cuts off one that was not: then the tables that it would list are copies of what is in logs or
// other tables, and all other files are there.
func (m *mender) isCut() bool {
	var newest uint64
	for _, t := range m.manifest.tables {
		if !m.has(tableName(t.num)) {
			return true
		}
		newest = max(newest, t.lastSeq)
	}
	logged := ^uint64(0) // the first write in the logs
	for _, name := range m.newest("log") {
		_, num := splitNumber(name)
		b, err := readFile(m.fs, m.path(name))
		if err != nil || num < m.manifest.minLog {
			continue
		}
		for _, batch := range readRecords(b, uint32(num)).whole {
			if first, _, ok := batchSeqs(batch); ok {
				logged = min(logged, first)
			}
		}
	}
	for _, name := range m.newest("sst") {
		_, num := splitNumber(name)
		if _, ok := m.manifest.tables[num]; ok || m.manifest.deleted[num] {
			continue
		}
		temp := m.path("mend.tmp")
		t, _, err := copyTable(m.fs, m.path(name), temp, nil)
		if err == nil {
			err = m.fs.Remove(temp)
		}
		if err == nil && t.lastSeq > newest && t.firstSeq < logged {
			return true
		}
	}
	return false
}

// batchSeqs returns the first and the last sequence number of a record of a log.
func batchSeqs(batch []byte) (first, last uint64, ok bool) {
	if len(batch) < 12 {
		return 0, 0, false
	}
	first = binary.LittleEndian.Uint64(batch)
	return first, first + max(1, uint64(binary.LittleEndian.Uint32(batch[8:]))) - 1, true
}

// mendTables leaves out what cannot be read of tables.
func (m *mender) mendTables() error {
	var size uint64
	for _, t := range m.manifest.tables {
		size += t.size
	}
	for _, t := range m.manifest.sorted() {
		name := tableName(t.num)
		info, err := m.fs.Stat(m.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			m.note(name, "it is missing; what it contained is left out")
			delete(m.manifest.tables, t.num)
			m.changed = true
			continue
		}
		if err != nil {
			return err
		}
		why := m.wrong[name]
		if why == "" && uint64(info.Size()) != t.size {
			why = fmt.Sprintf("it has %d bytes instead of %d", info.Size(), t.size)
		}
		if why == "" {
			err := checkTable(m.fs, m.path(name), m.deep || m.reread[name] || size <= smallArchive)
			if err == nil {
				continue
			}
			why = firstLine(err)
		}
		if err := m.copy(name, t, why, nil); err != nil {
			return err
		}
	}
	return nil
}

// copy replaces a table by a copy of what can be read of it. why is what is wrong with it; "": as
// far as is known nothing. Keys in seen are left out.
func (m *mender) copy(name string, t tableInfo, why string, seen *seenKeys) error {
	m.lastFile++
	m.changed = true
	delete(m.manifest.tables, t.num)
	fresh, whole, err := copyTable(m.fs, m.path(name), m.path(tableName(m.lastFile)), seen)
	if err == nil {
		fresh.num, fresh.level = m.lastFile, t.level
		m.manifest.tables[fresh.num] = fresh
		m.manifest.lastSeq = max(m.manifest.lastSeq, fresh.lastSeq)
		if whole && why == "" {
			return nil // Pebble removes the original
		}
		if why == "" {
			why = "parts of it cannot be read"
		}
		m.note(name, why+"; the parts that can be read are kept")
		m.setAside(name)
		return nil
	}
	if whole && why == "" && errors.Is(err, errNothing) {
		return nil // others contain it
	}
	if errno := fileSystemError(err); errno != nil {
		return errno
	}
	if why == "" {
		why = firstLine(err)
	}
	m.note(name, why+"; what it contained is left out")
	m.setAside(name)
	return nil
}

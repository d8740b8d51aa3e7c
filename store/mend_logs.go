package store

import (
	"fmt"
	"io"
	"slices"
)

// mendLogs rewrites damaged logs, which hold the newest minutes, with the records that can be read.
func (m *mender) mendLogs() error {
	logs := m.newest("log")
	slices.Reverse(logs)
	for i, name := range logs {
		_, num := splitNumber(name)
		if num < m.manifest.minLog {
			continue // all of it is in tables
		}
		b, err := readFile(m.fs, m.path(name))
		if err != nil {
			return err
		}
		r := readRecords(b, uint32(num))
		all := len(r.whole)
		r.whole = slices.DeleteFunc(r.whole, func(batch []byte) bool {
			_, last, ok := batchSeqs(batch)
			return ok && last <= m.flushed
		})
		// Only the last log may end anywhere: the program was killed.
		if !r.damaged && !(r.torn && i < len(logs)-1) {
			if all != len(r.whole) {
				if err := m.replaceLog(name, nil, r.whole); err != nil {
					return err
				}
			}
			if m.wrong[name] != "" {
				m.note(name, m.wrong[name]+"; the seconds that are missing in it are left out")
			}
			continue
		}
		m.note(name, fmt.Sprintf(
			"parts of it cannot be read; the %d records that can be read are kept", len(r.whole),
		))
		if err := m.replaceLog(name, b, r.whole); err != nil {
			return err
		}
	}
	for name := range m.wrong {
		if _, num := splitNumber(name); isLog(name) && !m.has(name) && num >= m.manifest.minLog {
			m.note(name, m.wrong[name]+"; the newest minutes, which it contained, are left out")
		}
	}
	return nil
}

// replaceLog replaces a log by one of the records that are to be kept, and writes the original, if
// it is damaged, to the directory of damaged files.
func (m *mender) replaceLog(name string, original []byte, whole [][]byte) error {
	temp := m.path("mend.tmp")
	if err := writeFile(m.fs, temp, func(w io.Writer) error {
		return writeRecords(w, whole)
	}); err != nil {
		return err
	}
	if original != nil {
		if err := m.fs.MkdirAll(m.aside, 0o700); err != nil {
			return err
		}
		if err := writeFile(m.fs, m.fs.PathJoin(m.aside, name), func(w io.Writer) error {
			_, err := w.Write(original)
			return err
		}); err != nil {
			return err
		}
	}
	return m.fs.Rename(temp, m.path(name))
}

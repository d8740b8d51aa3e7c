package store

import "fmt"

// mend makes the files readable for Pebble, in memory when readOnly, and notes what is wrong.
func (d *disk) mend(g *opening, readOnly bool) error {
	if readOnly {
		o, err := newOverlay(d.options.fs, d.dir)
		if err != nil {
			return err
		}
		g.gate.FS = o
	}
	d.mu.Lock()
	m := &mender{fs: g.gate.FS, dir: d.dir, aside: d.asideName(), reread: d.reread}
	d.mu.Unlock()
	if err := m.mend(); err != nil {
		return fmt.Errorf("mend the archive: %w", err)
	}
	for i, damage := range m.damages {
		if i == maxNamedFiles {
			d.noteDamage(fmt.Sprintf("and %d more files", len(m.damages)-i))
			break
		}
		d.noteDamage(damage.String())
	}
	if len(m.moves) > 0 && !readOnly {
		d.noteDamage("the damaged files are now in " + m.aside)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tableDamaged, d.reread = false, map[string]bool{}
	return nil
}

// maxNamedFiles limits the damaged files that Problems names.
const maxNamedFiles = 10

// asideName returns the name of a new directory for damaged files, next to the archive.
func (d *disk) asideName() string {
	return d.dir + damagedSuffix + d.options.clock().UTC().Format(damagedTime)
}

// A directory of damaged files is named after the archive, with this and a time.
const (
	damagedSuffix = ".damaged-"
	damagedTime   = "20060102T150405"
)

package symbol

import (
	"debug/elf"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"unicode/utf8"

	"culprit/measure"
)

// A stripped file may name its debug file: .gnu_debuglink has the base name, zero bytes up to a
// multiple of four, and the CRC-32 of the whole debug file.
//
// Source: Separate Debug Files in the documentation of gdb

// A DebugLink is the debug file that a file names. The zero value: it names none.
type DebugLink struct {
	Name string // without a directory
	CRC  uint32
}

// MostLink is how many bytes the name of a DebugLink has.
const MostLink = 255

// Valid reports whether the name is the base name of a file, or there is none.
func (l DebugLink) Valid() bool {
	return len(l.Name) <= MostLink && l.Name != "." && l.Name != ".." &&
		!strings.Contains(l.Name, "/") && utf8.ValidString(l.Name) &&
		measure.Clean(l.Name) == l.Name
}

// debugLink returns the debug file that a file names.
func (h *header) debugLink() DebugLink {
	for i := range h.secs {
		s := &h.secs[i]
		if s.kind != uint32(elf.SHT_PROGBITS) || h.nameOf(s) != ".gnu_debuglink" {
			continue
		}
		if s.size < 8 || s.size > MostLink+8 {
			return DebugLink{}
		}
		b, err := h.read(s.off, s.size)
		if err != nil {
			return DebugLink{}
		}
		name, _, ended := strings.Cut(string(b), "\x00")
		at := (len(name) + 4) &^ 3
		l := DebugLink{Name: name}
		if !ended || name == "" || at+4 > len(b) || !l.Valid() {
			return DebugLink{}
		}
		l.CRC = binary.LittleEndian.Uint32(b[at:])
		return l
	}
	return DebugLink{}
}

// places returns where the debug file of a file may be: by its build ID, and where gdb looks for
// the name that the file has. file is its path.
func (l DebugLink) places(id, file string) (all []string) {
	if len(id) >= 6 {
		all = append(all, "/usr/lib/debug/.build-id/"+id[:2]+"/"+id[2:]+".debug")
	}
	if l.Name == "" || !path.IsAbs(file) {
		return all
	}
	dir := path.Dir(file)
	if l.Name != path.Base(file) { // not the file itself
		all = append(all, path.Join(dir, l.Name))
	}
	return append(all, path.Join(dir, ".debug", l.Name), path.Join("/usr/lib/debug", dir, l.Name))
}

// openDebugFile opens the first of the places of a debug file that exists below one of the roots;
// nil: there is none. The caller closes it.
func openDebugFile(places []string, roots ...string) (*os.File, int64) {
	for _, name := range places {
		for _, root := range roots {
			if f, key, err := openBelow(root, name); err == nil {
				return f, key.size
			}
		}
	}
	return nil, 0
}

// isDebugOf reports whether d is the debug file of h: their build IDs are equal, or where one of
// them has none, the whole of d has the CRC that h names.
func (d *header) isDebugOf(h *header) bool {
	if d.checked != nil {
		return d.checked == h
	}
	id, of := h.buildID(), d.buildID()
	if id != "" && of != "" {
		return id == of
	}
	link := h.debugLink()
	if link.Name == "" {
		return false
	}
	crc := crc32.NewIEEE()
	_, err := io.Copy(crc, io.NewSectionReader(d.r, 0, int64(d.size)))
	return err == nil && crc.Sum32() == link.CRC
}

// mostChecked is how many pairs of files an OwnReader remembers.
const mostChecked = 1 << 10

// A debugChecks remembers which debug file belongs to which file. The zero value is ready. Safe
// for concurrent use.
type debugChecks struct {
	mu    sync.Mutex
	known map[[2]fileKey]bool
}

// isDebugOf returns what header.isDebugOf does, for the files of a request.
func (c *debugChecks) isDebugOf(q *Request, d, h *header) bool {
	key := [2]fileKey{keyOf(q.Debug), keyOf(q.File)}
	c.mu.Lock()
	is, known := c.known[key]
	c.mu.Unlock()
	if known {
		return is
	}
	is = d.isDebugOf(h)
	if m, ok := d.r.(*meteredFile); ok && threadTime() > m.until {
		return false // the next request checks it again
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= mostChecked || c.known == nil {
		c.known = map[[2]fileKey]bool{}
	}
	c.known[key] = is
	return is
}

package symbol

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
)

// mostSectionNames bounds the table of the names of sections that is read.
const mostSectionNames = 64 << 10

// HasNotes reports whether a program or library has a section with the name of notes of probes
// (USDT). It reads the head and the names of sections only, so that thousands of files can be
// asked; the notes themselves are for Code.Notes. It is false for a file that cannot be read.
func HasNotes(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	names := sectionNames(f)
	return bytes.Contains(names, []byte(".note.stapsdt\x00")) ||
		bytes.Contains(names, []byte(".note.usdt\x00"))
}

// sectionNames returns the table of the names of sections of an ELF file (elf(5)); nil: it has
// none, or more than mostSectionNames bytes of them.
func sectionNames(f io.ReaderAt) []byte {
	head := make([]byte, 64)
	if _, err := f.ReadAt(head, 0); err != nil || string(head[:4]) != "\x7fELF" {
		return nil
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[5] == 2 {
		order = binary.BigEndian
	}
	wide := head[4] == 2
	word := func(b []byte, at64, at32 int) uint64 { // an address or an offset
		if wide {
			return order.Uint64(b[at64:])
		}
		return uint64(order.Uint32(b[at32:]))
	}
	table, size, index := word(head, 40, 32), uint64(order.Uint16(head[46:])), 0
	if wide {
		size, index = uint64(order.Uint16(head[58:])), int(order.Uint16(head[62:]))
	} else {
		index = int(order.Uint16(head[50:]))
	}
	section := make([]byte, 64)
	least := uint64(40)
	if wide {
		least = 64
	}
	at := table + uint64(index)*size
	if size < least || at < table || at > 1<<62 {
		return nil
	}
	if _, err := f.ReadAt(section[:least], int64(at)); err != nil {
		return nil
	}
	offset, length := word(section, 24, 16), word(section, 32, 20)
	if length == 0 || length > mostSectionNames || offset > 1<<62 {
		return nil
	}
	names := make([]byte, length)
	if _, err := f.ReadAt(names, int64(offset)); err != nil {
		return nil
	}
	return names
}

package symbol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// This file reads jit-PID.dump, which just-in-time compilers write for perf. A compiler maps a page
// of the file as code, to mark where it is. Numbers are in the machine's order
// (tools/perf/Documentation/jitdump-specification.txt):
//
//	header  magic u32 | version u32 | size u32 | machine u32 | - u32 | pid u32 | time u64 | -
//	record  id u32 | size u32 | time u64 | ...
//	load    ... pid u32 | tid u32 | vma u64 | address u64 | length u64 | index u64 | name 0 | code
//	move    ... pid u32 | tid u32 | vma u64 | old u64 | new u64 | length u64 | index u64
//	lines   ... address u64 | entries u64 | address u64 | line u32 | - u32 | file 0 | ...
//
// A record of lines comes before the code that it describes.
const (
	dumpMagic   = 0x4a695444 // JiTD
	dumpHeader  = 40
	dumpPrefix  = 16
	dumpLoad    = dumpPrefix + 40
	dumpMove    = dumpPrefix + 48
	dumpLines   = dumpPrefix + 16
	dumpLine    = 16 // of an entry, before the name of its file
	dumpVersion = 1
)

// The kinds of records.
const (
	dumpLoads  = 0
	dumpMoves  = 1
	dumpDebugs = 2
)

const (
	// mostDumpRecords is how many records of a file are read, its first ones.
	mostDumpRecords = 1 << 20
	// mostDumpIndex is how many functions can be moved later.
	mostDumpIndex = 1 << 16
	// mostDumpFile is how many bytes of the name of a source file are kept.
	mostDumpFile = 256
)

// isDump reports whether a file is a dump of this machine's byte order.
func isDump(in io.ReaderAt) bool {
	var magic [4]byte
	n, _ := in.ReadAt(magic[:], 0) // a shorter file is none
	return n == len(magic) && binary.NativeEndian.Uint32(magic[:]) == dumpMagic
}

// dumpName returns the name of the dump of a process, by its ID in its namespace.
func dumpName(pid int) string { return fmt.Sprintf("jit-%d.dump", pid) }

// dumpOf returns the index of the mapping that marks the dump of the process; -1: there is none.
func (p *process) dumpOf(inside int) int {
	name := ""
	for i := range p.maps {
		m := &p.maps[i]
		if !m.Exec || m.Inode == 0 || !strings.HasSuffix(m.Path, ".dump") {
			continue
		}
		if name == "" {
			name = dumpName(inside)
		}
		if path.Base(m.Path) == name {
			return i
		}
	}
	return -1
}

// A dumpScan looks up addresses in a dump, record by record.
type dumpScan struct {
	in    io.ReaderAt
	size  int64
	found *mapScan
	buf   []byte // of the file
	at    int64  // where buf begins
	// index has where records of code are, by the index of the code.
	index map[uint64]int64
	lines int64  // the last record of lines; 0: none
	of    uint64 // the address of its code
	moved bool   // code was moved that was loaded before from
}

// scanDump looks up addresses in the records of a dump of size bytes, from an offset on. It returns
// where the last whole record ends. When code was moved, it reads the file from its start. The
// error is that of the file; what was read before it counts.
func scanDump(in io.ReaderAt, from, size int64, addrs []uint64) ([]Name, int64, error) {
	s := &dumpScan{in: in, size: size, found: newMapScan(addrs), index: map[uint64]int64{}}
	to, err := s.read(max(from, 0))
	if s.moved && from > 0 {
		return scanDump(in, 0, size, addrs)
	}
	return s.found.result(), to, err
}

// bytes returns n bytes of the file, at most 32 KB; nil: there are fewer. They are valid until the
// next call.
func (s *dumpScan) bytes(at int64, n int) ([]byte, error) {
	if n > cap(s.buf) && s.buf != nil || at < 0 || at > s.size-int64(n) {
		return nil, nil
	}
	if at < s.at || at+int64(n) > s.at+int64(len(s.buf)) {
		if s.buf == nil {
			s.buf = make([]byte, 0, 32<<10)
		}
		got, err := s.in.ReadAt(s.buf[:min(int64(cap(s.buf)), s.size-at)], at)
		if s.at, s.buf = at, s.buf[:got]; got < n {
			return nil, err // the file was cut off meanwhile
		}
	}
	return s.buf[at-s.at:][:n], nil
}

// text returns a text that ends with a zero byte, from an offset up to an end, at most most bytes.
func (s *dumpScan) text(at, end int64, most int) []byte {
	b, err := s.bytes(at, int(min(int64(most), max(0, end-at))))
	if err != nil {
		return nil
	}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return b
}

// read reads the records from an offset on.
func (s *dumpScan) read(from int64) (to int64, err error) {
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	if from == 0 {
		b, err := s.bytes(0, dumpHeader)
		if b == nil {
			return 0, err
		}
		if v := u32(b[4:]); v != dumpVersion {
			return 0, fmt.Errorf("jitdump of version %d, not %d", v, dumpVersion)
		}
		if from = int64(u32(b[8:])); from < dumpHeader {
			return 0, fmt.Errorf("jitdump with a header of %d bytes", from)
		}
	}
	for range mostDumpRecords {
		b, err := s.bytes(from, dumpPrefix)
		if b == nil {
			return from, err
		}
		kind, length := u32(b), int64(u32(b[4:]))
		if length < dumpPrefix {
			return from, fmt.Errorf("jitdump with a record of %d bytes at byte %d", length, from)
		}
		end := from + length
		if end > s.size {
			return from, nil // it is being written
		}
		need := recordSize(kind)
		if need == 0 || int64(need) > length {
			from = end
			continue
		}
		if b, err = s.bytes(from, need); b == nil {
			return from, err
		}
		switch kind {
		case dumpDebugs:
			s.lines, s.of = from, u64(b[dumpPrefix:])
		case dumpLoads:
			at, index := u64(b[dumpPrefix+16:]), u64(b[dumpPrefix+32:])
			if len(s.index) < mostDumpIndex {
				s.index[index] = from
			}
			lines := s.lines
			if s.of != at {
				lines = 0
			}
			s.found.put(at, at+u64(b[dumpPrefix+24:]), func() string {
				return s.name(from, end, lines)
			})
			s.lines = 0
		case dumpMoves:
			at := u64(b[dumpPrefix+24:])
			load, known := s.index[u64(b[dumpPrefix+40:])]
			s.moved = s.moved || !known
			s.found.put(at, at+u64(b[dumpPrefix+32:]), func() string {
				if !known {
					return ""
				}
				if b, _ := s.bytes(load, dumpPrefix); b != nil {
					return s.name(load, load+int64(u32(b[4:])), 0)
				}
				return ""
			})
		}
		from = end
	}
	return from, nil
}

// recordSize returns how many bytes a record of a kind has at least; 0: it is not needed.
func recordSize(kind uint32) int {
	switch kind {
	case dumpLoads:
		return dumpLoad
	case dumpMoves:
		return dumpMove
	case dumpDebugs:
		return dumpLines
	}
	return 0
}

// sourcePlace matches names that end with a file and a line, as those of V8: f /srv/app.js:3:14.
var sourcePlace = regexp.MustCompile(`\S:\d+$`)

// name returns the name of the code of a record, with the file and the line where it begins unless
// the name has the file. lines is the record of its lines; 0: there is none.
func (s *dumpScan) name(at, end, lines int64) string {
	name := clean(string(s.text(at+dumpLoad, end, maxCompiledName)))
	if lines == 0 || name == "" {
		return name
	}
	b, err := s.bytes(lines, dumpLines+dumpLine)
	if b == nil || err != nil || binary.NativeEndian.Uint64(b[dumpPrefix+8:]) == 0 {
		return name
	}
	line := binary.NativeEndian.Uint32(b[dumpLines+8:])
	b, err = s.bytes(lines, dumpPrefix)
	if b == nil || err != nil {
		return name
	}
	stop := lines + int64(binary.NativeEndian.Uint32(b[4:]))
	base := path.Base(string(s.text(lines+dumpLines+dumpLine, stop, mostDumpFile)))
	// V8 may write bytes that are no text.
	if base != clean(base) || !utf8.ValidString(base) || base == "." || base == "/" ||
		strings.Contains(name, base) || sourcePlace.MatchString(name) {
		return name
	}
	return fmt.Sprintf("%s %s:%d", name, base, line)
}

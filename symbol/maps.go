package symbol

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"culprit/kernel/proc"

	"golang.org/x/sys/unix"
)

// A Mapping is a range of a process's memory, as in /proc/PID/maps.
type Mapping struct {
	Start, End uint64
	Offset     uint64 // of Start in the file
	Exec       bool
	Device     uint64 // of the file system, as in stat(2)
	Inode      uint64 // 0: no file
	Path       string // of the file; [vdso], [heap]; "" of anonymous memory
	Deleted    bool   // the file has no name any more
}

// ParseMaps parses /proc/PID/maps. Blanks before the path are padding, and a newline in it is \012:
//
//	55d0c8a00000-55d0c8a4e000 r-xp 00002000 fd:01 131 /usr/bin/bash
//
// Malformed lines are left out and counted in bad. The mappings are sorted by address.
func ParseMaps(b []byte) (maps []Mapping, bad int) {
	return parseMaps(b, func(b []byte) string { return string(b) })
}

// parseMaps is ParseMaps with a function that returns the text of some bytes.
func parseMaps(b []byte, text func([]byte) string) (maps []Mapping, bad int) {
	maps = make([]Mapping, 0, bytes.Count(b, []byte{'\n'})+1)
	before := mappedFile{text: text}
	for len(b) > 0 {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		if len(line) == 0 {
			continue
		}
		m, ok := parseMapping(line, &before)
		if !ok {
			bad++
			continue
		}
		maps = append(maps, m)
	}
	if !slices.IsSortedFunc(maps, byStart) {
		slices.SortStableFunc(maps, byStart)
	}
	return maps, bad
}

func byStart(a, b Mapping) int { return cmp.Compare(a.Start, b.Start) }

// A mappedFile is the words of a line that name its file. A file's mappings follow one another and
// share its path.
type mappedFile struct {
	path    []byte // as it stands in the line
	pathOf  string // of the mapping
	inode   uint64
	deleted bool
	text    func([]byte) string
}

func parseMapping(line []byte, before *mappedFile) (m Mapping, ok bool) {
	word := func() []byte {
		i := bytes.IndexByte(line, ' ')
		if i < 0 {
			i = len(line)
		}
		w := line[:i]
		line = line[min(i+1, len(line)):]
		return w
	}
	span := word()
	dash := bytes.IndexByte(span, '-')
	if dash < 0 {
		return m, false
	}
	var errs [5]error
	m.Start, errs[0] = proc.ParseHex(span[:dash])
	m.End, errs[1] = proc.ParseHex(span[dash+1:])
	modes := word()
	m.Exec = len(modes) > 2 && modes[2] == 'x'
	m.Offset, errs[2] = proc.ParseHex(word())
	m.Device, errs[4] = parseDevice(word())
	m.Inode, errs[3] = proc.ParseUint(word())
	for _, err := range errs {
		if err != nil {
			return m, false
		}
	}
	if len(modes) < 4 || m.End <= m.Start {
		return m, false
	}
	line = bytes.TrimLeft(line, " ")
	if string(line) != string(before.path) || m.Inode != before.inode {
		path := proc.AppendUnescaped(nil, line)
		before.path, before.inode, before.deleted = line, m.Inode, false
		if m.Inode != 0 {
			path, before.deleted = bytes.CutSuffix(path, []byte(" (deleted)"))
		}
		before.pathOf = before.text(path)
	}
	m.Path, m.Deleted = before.pathOf, before.deleted
	return m, true
}

// parseDevice parses the number of a device: major and minor, in hexadecimal.
func parseDevice(b []byte) (uint64, error) {
	major, minor, _ := bytes.Cut(b, []byte{':'})
	high, err := proc.ParseHex(major)
	if err != nil {
		return 0, err
	}
	low, err := proc.ParseHex(minor)
	return unix.Mkdev(uint32(high), uint32(low)), err
}

// find returns the index of the mapping of an address, or -1.
func find(maps []Mapping, addr uint64) int {
	i := sort.Search(len(maps), func(i int) bool { return maps[i].Start > addr }) - 1
	if i < 0 || addr >= maps[i].End {
		return -1
	}
	return i
}

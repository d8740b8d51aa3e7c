package symbol

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"math"
	"slices"

	"culprit/kernel/proc"
)

// maxPerfMap is how many bytes of a map of generated code are read, its last ones.
const maxPerfMap = 64 << 20

// maxCompiledName is how many bytes of a function's name are kept.
const maxCompiledName = 1 << 10

// parseCompiled parses a line of /tmp/perf-PID.map: start, size, both hexadecimal, name.
//
//	7f2c5c0a1000 1f4 LazyCompile:*render /app/page.js:12
func parseCompiled(line []byte) (start, end uint64, name []byte, ok bool) {
	first := bytes.IndexByte(line, ' ')
	if first < 0 {
		return 0, 0, nil, false
	}
	length := bytes.IndexByte(line[first+1:], ' ')
	if length < 0 {
		return 0, 0, nil, false
	}
	prefix := []byte("0x")
	start, err1 := proc.ParseHex(bytes.TrimPrefix(line[:first], prefix))
	size, err2 := proc.ParseHex(bytes.TrimPrefix(line[first+1:first+1+length], prefix))
	name = line[first+length+2:]
	if err1 != nil || err2 != nil || size == 0 || start+size < start || len(name) == 0 {
		return 0, 0, nil, false
	}
	return start, start + size, name[:min(len(name), maxCompiledName)], true
}

// A mapScan looks up addresses in a map of generated code, line by line. Of the lines that cover an
// address the last one holds, as code that is written over other code does. Only what was asked for
// is kept. Each name has the range of addresses in which the answer is the same, so that other
// addresses of the function need no further scan:
//
//	0 100 a       asked: 10, 30, 60
//	20 20 b       10: a in 0-20   30: b in 20-40   60: a in 40-100
//
// The ranges of two addresses are equal or disjoint, and in the order of the addresses.
type mapScan struct {
	addrs []uint64 // in order, each once
	names []Name
	// below[i] is the highest end of lines that end between address i-1 and i, above[i] the lowest
	// start of those that begin between address i and i+1. They bound addresses without a line.
	below, above []uint64
}

func newMapScan(addrs []uint64) *mapScan {
	s := &mapScan{addrs: addrs, names: make([]Name, len(addrs)), below: make([]uint64, len(addrs)),
		above: make([]uint64, len(addrs))}
	for i := range s.above {
		s.above[i] = math.MaxUint64
	}
	return s
}

// result returns the names after the last line.
func (s *mapScan) result() []Name {
	low, high := uint64(0), uint64(math.MaxUint64)
	for i := range s.names {
		if low = max(low, s.below[i]); s.names[i].Name == "" {
			s.names[i].Low = low
		}
	}
	for i := len(s.names) - 1; i >= 0; i-- {
		if high = min(high, s.above[i]); s.names[i].Name == "" {
			s.names[i].High = high
		}
	}
	return s.names
}

// namelessCode is the name of code that is listed without a name. It hides what was there before.
const namelessCode = "[code without a name]"

// line applies a line of the map. Malformed lines are left out.
func (s *mapScan) line(line []byte) {
	if start, end, text, ok := parseCompiled(line); ok {
		s.put(start, end, func() string { return clean(string(text)) })
	}
}

// put applies code from start to end. name is called if the code was asked for.
func (s *mapScan) put(start, end uint64, name func() string) {
	if end <= start {
		return
	}
	i, _ := slices.BinarySearch(s.addrs, start)
	if i > 0 {
		s.above[i-1] = min(s.above[i-1], start)
	}
	for k := i - 1; k >= 0 && s.names[k].Name != "" && s.names[k].High > start; k-- {
		s.names[k].High = start
	}
	if i < len(s.addrs) && s.addrs[i] < end {
		n := Name{Name: cmp.Or(name(), namelessCode), Start: start, Low: start, High: end}
		for ; i < len(s.addrs) && s.addrs[i] < end; i++ {
			s.names[i] = n
		}
	}
	if i < len(s.addrs) {
		s.below[i] = max(s.below[i], end)
	}
	for ; i < len(s.addrs) && s.names[i].Name != "" && s.names[i].Low < end; i++ {
		s.names[i].Low = end
	}
}

// lines applies the whole lines of b and returns what follows the last newline.
func (s *mapScan) lines(b []byte) []byte {
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return b
		}
		s.line(b[:end])
		b = b[end+1:]
	}
}

// read applies the lines of a file of size bytes from an offset on, at most the last most bytes. It
// returns where the last whole line ends. The error is that of the file; what was read before it
// counts.
func (s *mapScan) read(in io.ReaderAt, from, size, most int64) (to int64, err error) {
	to = from
	skip := size-from > most // then it begins within a line
	if skip {
		from = size - most
	}
	buf := make([]byte, 0, 64<<10)
	for from < size {
		n, err := in.ReadAt(buf[len(buf):min(cap(buf), len(buf)+int(min(size-from, 1<<20)))], from)
		buf, from = buf[:len(buf)+n], from+int64(n)
		rest := buf
		if skip {
			at := bytes.IndexByte(buf, '\n')
			if rest = buf[at+1:]; at >= 0 {
				skip = false
			} else {
				rest = nil
			}
		}
		if !skip {
			rest = s.lines(rest)
		}
		to = from - int64(len(rest))
		if len(rest) == cap(buf) { // a line longer than any name
			rest, skip = nil, true
		}
		buf = buf[:copy(buf[:cap(buf)], rest)]
		if err != nil && !errors.Is(err, io.EOF) {
			return to, err
		}
		if n == 0 {
			break
		}
	}
	return to, nil
}

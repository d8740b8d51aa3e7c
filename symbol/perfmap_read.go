package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Bounds of what is read and kept of the files that just-in-time compilers write. Each of these
// files can grow for as long as its process runs, and any user can write one.
const (
	maxPerfMap  = 64 << 20 // bytes read of one file, its last ones
	maxCompiled = 1 << 20  // ranges kept of one process, the latest ones
	maxJIT      = 256 << 20

	// With DisableSymbolCache.
	maxPerfMapLean  = 16 << 20
	maxCompiledLean = 1 << 16
	maxJITLean      = 16 << 20

	// jitEach is how often the file is looked at. A reading that took long is followed by a pause
	// jitShare times as long.
	jitEach  = time.Second / 2
	jitShare = 20
)

// A jitMap is the content of the file of a process.
type jitMap struct {
	code    []compiled // layered
	size    int        // bytes that code takes, about
	order   uint64     // of the last line
	file    fileKey
	to      int64  // up to where the file was read: behind a newline
	before  []byte // bytes before to; they differ when the file was written anew
	first   []byte // and what the file begins with
	due     time.Time
	omitted bool // there was no space for it
}

// jitCheck is how many bytes of a file's beginning and end are compared.
const jitCheck = 256

// inCompiled returns the just-in-time code at an address. It reads the file again when it has
// changed.
func (ps *Processes) inCompiled(p *process, addr uint64) (compiled, bool) {
	if now := time.Now(); !now.Before(p.jit.due) {
		p.jit.due = now.Add(jitEach)
		if ps.readJIT(p) {
			p.jit.due = time.Now().Add(max(jitEach, jitShare*time.Since(now)))
		}
	}
	return findCompiled(p.jit.code, addr)
}

// readJIT reads what is new in the file of a process; false: nothing is new. A file that is gone,
// or that another user wrote, changes nothing.
func (ps *Processes) readJIT(p *process) bool {
	name := fmt.Sprintf("/tmp/perf-%d.map", ps.insideOf(p))
	f, key, err := openBelow(ps.in(p.pid, "root"), name)
	if err != nil {
		return false
	}
	defer f.Close()
	if key == p.jit.file || !ownedBy(f, ps.in(p.pid, "")) {
		return false
	}
	mostBytes, mostRanges, mostAll := int64(maxPerfMap), maxCompiled, maxJIT
	if ps.lean != nil {
		mostBytes, mostRanges, mostAll = maxPerfMapLean, maxCompiledLean, maxJITLean
	}
	space := mostAll - ps.jitBytes(p)
	if space <= 0 {
		p.jit = jitMap{due: p.jit.due, file: key, omitted: true}
		return true
	}
	p.jit.read(f, key, mostBytes, mostRanges)
	for p.jit.size > space && len(p.jit.code) > 0 {
		p.jit.omitted = true
		p.jit.keep(len(p.jit.code) / 2)
	}
	return true
}

// jitBytes returns what the maps of all processes but one take. Above the limit it drops the least
// recently used.
func (ps *Processes) jitBytes(but *process) int {
	const recent = time.Minute
	all := 0
	for _, p := range ps.procs {
		if p == but || p.jit.size == 0 {
			continue
		}
		if time.Since(p.jit.due) > recent {
			p.jit = jitMap{}
			continue
		}
		all += p.jit.size
	}
	return all
}

// read reads what was appended to the file since the last read, or the last most bytes of a file
// that was written anew. What was read before an error counts.
func (j *jitMap) read(f *os.File, key fileKey, most int64, ranges int) {
	if !j.grew(f, key) {
		*j = jitMap{due: j.due}
		j.first = readUpTo(f, 0, jitCheck)
	}
	j.file = key
	all, order := j.code, j.order
	from := j.to
	skip := key.size-from > most // then it begins within a line
	if skip {
		from = key.size - most
	}
	buf := make([]byte, 0, 64<<10)
	for from < key.size {
		n, err := f.ReadAt(buf[len(buf):min(cap(buf), len(buf)+int(min(key.size-from, 1<<20)))],
			from)
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
			all, rest = addLines(all, rest, &order, ranges)
		}
		j.to = from - int64(len(rest))
		if len(rest) == cap(buf) { // a line longer than any name
			rest, skip = nil, true
		}
		buf = buf[:copy(buf[:cap(buf)], rest)]
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			break
		}
	}
	j.code, j.order = layered(all), order
	j.keep(ranges)
	back := max(0, j.to-jitCheck)
	j.before = readUpTo(f, back, int(j.to-back))
}

// grew reports whether the file is the one that was read, with more at its end.
func (j *jitMap) grew(f *os.File, key fileKey) bool {
	if j.omitted || j.to == 0 || key.dev != j.file.dev || key.ino != j.file.ino || key.size < j.to {
		return false
	}
	return bytes.Equal(j.first, readUpTo(f, 0, len(j.first))) &&
		bytes.Equal(j.before, readUpTo(f, j.to-int64(len(j.before)), len(j.before)))
}

// readUpTo returns at most n bytes of a file from an offset.
func readUpTo(f *os.File, at int64, n int) []byte {
	b := make([]byte, n)
	n, _ = f.ReadAt(b, at)
	return b[:n]
}

// keep drops all but the latest most ranges, and sums the size of the rest.
func (j *jitMap) keep(most int) {
	if len(j.code) > most {
		j.code = append([]compiled(nil), newest(j.code, most)...)
	}
	const each = 8*4 + 16 + 16 // a compiled, and what an allocated name takes beside its bytes
	j.size = each * cap(j.code)
	for i := range j.code {
		j.size += len(j.code[i].name)
	}
}

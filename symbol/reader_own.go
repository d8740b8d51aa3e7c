package symbol

import (
	"debug/elf"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"culprit/symbol/dwarf"
	"culprit/symbol/interp/languages"
	"culprit/symbol/unwind"
)

// OwnReader is a Reader that parses in this process. The zero value is ready. It caches the symbols
// of files that Whole requests ask for.
type OwnReader struct {
	mu      sync.Mutex
	free    []unwindBuffers
	objects map[[2]fileKey]*object // of a file and its debug file
	used    map[*object]uint64
	tick    uint64
	bytes   int
	debugs  debugChecks
	minis   miniCache
}

// mostOwnSymbols is how many bytes of symbols an OwnReader caches, besides those of one file.
const mostOwnSymbols = 48 << 20

// Read implements Reader. The error is of the file, or ErrLimit.
func (r *OwnReader) Read(q *Request) (*Answer, error) {
	runtime.LockOSThread() // whose time is counted
	defer runtime.UnlockOSThread()
	began := threadTime()
	a := &Answer{}
	err := r.read(q, a, began+q.Limit)
	a.CPU = threadTime() - began
	return a, err
}

// ReadAll implements Reader.
func (r *OwnReader) ReadAll(all []*Request) []Result {
	out := make([]Result, len(all))
	for i, q := range all {
		out[i].Answer, out[i].Err = r.Read(q)
	}
	return out
}

func (r *OwnReader) read(q *Request, a *Answer, until time.Duration) error {
	if q.Op == OpFramed {
		if len(q.Addrs) != 1 {
			return errNotELF
		}
		at := q.Addrs[0]
		a.Found = hasFrame(q.Text, at, q.Known)
		return nil
	}
	if q.Op == OpFrames {
		return readFrames(q, a, until)
	}
	in, size, err := metered(q.File, until)
	if err != nil {
		return err
	}
	if q.Op == OpGenerated {
		a.Names, a.To, err = scanGenerated(in, q.From, size, q.Addrs)
		return err
	}
	h, err := readHeader(in, size)
	if err != nil {
		return err
	}
	h.minis, h.file = &r.minis, keyOf(q.File)
	switch q.Op {
	case OpHeader:
		a.BuildID, a.Loads, a.Full = h.buildID(), segmentsOf(h.segments()), h.full()
		a.Link = h.debugLink()
	case OpNames:
		return r.names(q, h, a, until)
	case OpInlined:
		return r.inlined(q, h, a, until)
	case OpUnwinding:
		a.Code, a.Go = segmentsOf(h.codeSegments()), h.isGo()
		if d, ok := h.frameDigest(); ok {
			a.Digest = d[:]
		}
		if l := h.layoutOf(string(q.Text)); l != nil {
			a.Numbers = languages.Numbers(l)
		}
	case OpRows:
		err = r.rows(q, h, a)
	case OpDigest:
		if d, ok := h.digest(spansOf(q.Spans)); ok {
			a.Digest = d[:]
		}
	default:
		err = r.code(q, h, a, until)
	}
	return err
}

// names looks up addresses in a file and its debug file.
func (r *OwnReader) names(q *Request, h *header, a *Answer, until time.Duration) (err error) {
	d := r.debugOf(q, h, until) // without it the names of the file itself count
	a.Names = make([]Name, len(q.Addrs))
	defer func() {
		if err == nil && !h.full() && (d == nil || !d.full()) {
			nameByDebug(q.Addrs, a.Names, until, h, d)
		}
	}()
	if q.Whole {
		o, err := r.whole(q, h, d)
		if err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock() // find caches demangled names
		for i, addr := range q.Addrs {
			if name, from, ok := o.find(addr); ok {
				a.Names[i] = Name{Name: name, Start: addr - from}
			}
		}
		return nil
	}
	into := make(map[uint64]learned, len(q.Addrs))
	err = h.learn(d, q.Addrs, into)
	for i, addr := range q.Addrs {
		if l := into[addr]; l.name != "" {
			a.Names[i] = Name{Name: l.name, Start: addr - l.from}
		}
	}
	if errors.Is(err, ErrLimit) {
		return err
	}
	return nil // what could be read counts
}

// hasDebug reports whether a file has debug information.
func (h *header) hasDebug() bool {
	return slices.ContainsFunc(h.secs, func(s section) bool {
		return h.nameOf(&s) == ".debug_info"
	})
}

// nameByDebug names addresses by the functions in the debug information of the first file that has
// some. It replaces names that begin before the function, and those of functions without a symbol.
func nameByDebug(addrs []uint64, names []Name, until time.Duration, files ...*header) {
	for _, h := range files {
		if h == nil || !h.hasDebug() {
			continue
		}
		d := dwarf.NewDebugFile(Readable)
		if there, err := d.Over(h.r); !there || err != nil {
			continue
		}
		found := d.Functions(addrs, func() bool { return threadTime() > until })
		for i, n := range found {
			if n.Name != "" && (names[i].Name == "" || names[i].Start < n.Start ||
				names[i].Name == boundary(names[i].Start)) {
				names[i] = Name{Name: n.Name, Start: n.Start}
			}
		}
		return
	}
}

// debugOf returns the debug file of a request; nil: there is none, or it belongs to another file.
func (r *OwnReader) debugOf(q *Request, h *header, until time.Duration) *header {
	if q.Debug == nil {
		return nil
	}
	in, size, err := metered(q.Debug, until)
	if err != nil {
		return nil
	}
	d, err := readHeader(in, size)
	if err != nil || !r.debugs.isDebugOf(q, d, h) {
		return nil
	}
	d.checked = h
	return d
}

// whole returns all symbols of a file.
func (r *OwnReader) whole(q *Request, h, d *header) (*object, error) {
	key := [2]fileKey{keyOf(q.File)}
	if q.Debug != nil {
		key[1] = keyOf(q.Debug)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tick++
	if o := r.objects[key]; o != nil {
		r.used[o] = r.tick
		return o, nil
	}
	o := &object{buildID: h.buildID(), loads: h.segments()}
	if err := o.readAll(h, d); errors.Is(err, ErrLimit) {
		return nil, err
	}
	if r.objects == nil {
		r.objects, r.used = map[[2]fileKey]*object{}, map[*object]uint64{}
	}
	r.bytes += o.size()
	r.objects[key], r.used[o] = o, r.tick
	for r.bytes > mostOwnSymbols && len(r.objects) > 1 {
		r.dropOldest()
	}
	return o, nil
}

func (r *OwnReader) dropOldest() {
	var oldest [2]fileKey
	for key, o := range r.objects {
		if than := r.objects[oldest]; than == nil || r.used[o] < r.used[than] {
			oldest = key
		}
	}
	o := r.objects[oldest]
	r.bytes -= o.size()
	delete(r.objects, oldest)
	delete(r.used, o)
}

// readAll reads the symbols of a file, of d if that has them, and the functions without a name. The
// error is of the symbols; what was read before it counts.
func (o *object) readAll(h, d *header) (err error) {
	if !h.full() && d != nil && d.full() && d.isDebugOf(h) {
		err = o.readSymbols(d)
	}
	if len(o.syms) == 0 {
		err = o.readSymbols(h)
	}
	o.addUnnamed(h)
	return err
}

// inlined looks up inlined functions in a file, or in its debug file.
func (r *OwnReader) inlined(q *Request, h *header, a *Answer, until time.Duration) error {
	d := dwarf.NewDebugFile(Readable)
	there, err := d.Over(h.r)
	if !there && err == nil {
		if debug := r.debugOf(q, h, until); debug != nil {
			there, err = d.Over(debug.r)
		}
	}
	if a.Found = there; !there || err != nil {
		return err
	}
	a.Inlined, a.Cut = d.Inlined(q.Addrs, func() bool { return threadTime() > until })
	for i, names := range a.Inlined {
		a.Inlined[i] = names[:min(len(names), MostInlined)]
	}
	return nil
}

// rows passes on the rows of a file.
func (r *OwnReader) rows(q *Request, h *header, a *Answer) error {
	r.mu.Lock()
	var buffers unwindBuffers
	if n := len(r.free); n > 0 {
		buffers, r.free = r.free[n-1], r.free[:n-1]
	} else {
		buffers = newUnwindBuffers()
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.free = append(r.free, buffers)
		r.mu.Unlock()
	}()
	return h.rows(buffers, q.Row, a)
}

// rows passes on the rows of a file, and sets Spans and Digest of an Answer.
func (h *header) rows(buffers unwindBuffers, row func(uint32, unwind.Rule) error, a *Answer) error {
	if !h.unwindable() {
		return nil
	}
	isGo := h.isGo()
	tables := func(row func(uint32, unwind.Rule) error) error {
		return h.unwind(isGo, buffers, row)
	}
	if isGo {
		return h.withGo(row, tables)
	}
	gaps, err := h.withGaps(row, tables)
	for _, g := range gaps {
		a.Spans = append(a.Spans, Span{g.from, g.to})
	}
	if d, ok := h.digest(gaps); ok {
		a.Digest = d[:]
	}
	return err
}

// codeSegments returns the segments of the file that are executed.
func (h *header) codeSegments() (out []segment) {
	for _, p := range h.progs {
		if p.kind == uint32(elf.PT_LOAD) && p.flags&uint32(elf.PF_X) != 0 {
			out = append(out, segment{p.off, p.vaddr, p.filesz, p.mem})
		}
	}
	return out
}

func segmentsOf(all []segment) (out []Segment) {
	for _, s := range all {
		out = append(out, Segment{s.offset, s.vaddr, s.filesz, s.memsz})
	}
	return out
}

func ownSegments(all []Segment) (out []segment) {
	for _, s := range all {
		out = append(out, segment{s.Offset, s.Addr, s.FileSize, s.MemSize})
	}
	return out
}

func spansOf(all []Span) (out []span) {
	for _, s := range all {
		out = append(out, span{s.From, s.To})
	}
	return out
}

// A meteredFile reads a file until the calling thread has used its CPU time. Then it fails with
// ErrLimit.
type meteredFile struct {
	f     *os.File
	until time.Duration
	reads int
}

const (
	meterEvery = 32      // small reads between two looks at the clock
	meterSmall = 4 << 10 // bytes of a small read
	meterPiece = 1 << 20 // bytes read at once
)

// metered returns a file with a limit of CPU time of the calling thread, and its size in bytes.
func metered(f *os.File, until time.Duration) (io.ReaderAt, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errNotELF
	}
	return &meteredFile{f: f, until: until}, info.Size(), nil
}

// ReadAt implements io.ReaderAt.
func (m *meteredFile) ReadAt(b []byte, at int64) (n int, err error) {
	for {
		if m.reads++; (m.reads%meterEvery == 0 || len(b)-n > meterSmall) &&
			threadTime() > m.until {
			return n, ErrLimit
		}
		piece := b[n:min(len(b), n+meterPiece)]
		k, err := m.f.ReadAt(piece, at+int64(n))
		if n += k; err != nil || n == len(b) {
			return n, err
		}
	}
}

// scanGenerated looks up addresses in a map or a dump of generated code. to is where its last whole
// line or record ends.
func scanGenerated(in io.ReaderAt, from, size int64, addrs []uint64) (names []Name, to int64,
	err error) {
	if isDump(in) {
		return scanDump(in, from, size, addrs)
	}
	s := newMapScan(addrs)
	to, err = s.read(in, from, size, maxPerfMap)
	return s.result(), to, err
}

// frameDigestOf returns a digest of an Answer; !ok: it has none.
func frameDigestOf(b []byte) (d frameDigest, ok bool) {
	if len(b) != len(d) {
		return d, false
	}
	copy(d[:], b)
	return d, true
}

// keyOf returns the key of an open file; noFile with an error.
func keyOf(f *os.File) fileKey {
	key, err := statKey(int(f.Fd()))
	if err != nil {
		return noFile
	}
	return key
}

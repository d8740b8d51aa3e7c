package symbolizer

import (
	"encoding/hex"
	"errors"
	"math"
	"time"
	"unicode/utf8"

	"culprit/measure"
	"culprit/symbol"
	"culprit/symbol/unwind"
	"culprit/wire"
)

// version is that of the frames. Both ends are the same program, so any other version is an error.
const version = 5

// magic begins the payload of a hello, the first frame of each direction of the main connection.
const magic = "culprit symbols"

// The kinds of frames.
const (
	kindHello     = 1  // magic, version
	kindLane      = 2  // a descriptor: another connection for requests
	kindRequest   = 3  // with the descriptors of its files
	kindRows      = 65 // a part of the rows of an unwind table
	kindAnswer    = 66
	kindFunctions = 67 // a part of the functions of a file
	kindAlive     = 68 // empty: a request is being answered
)

// Sizes of payloads in bytes. A larger frame ends the connection.
const (
	maxRequest = 1 << 20
	maxAnswer  = 16 << 20
	rowsFrame  = 32 << 10 // a frame of rows or functions is sent when it has as much
)

const (
	maxRows  = 1 << 23 // of a table
	maxRules = 1 << 16
	maxError = 200 // bytes of the text of an error
)

// usage is what the process has used.
type usage struct {
	cpu    time.Duration // since it started
	memory int64         // resident bytes
}

// Codes of the errors of an answer.
const (
	errorNone = iota
	errorFile // of the file, with a text
	errorLimit
	errorTooLong
	errorMuchDebug
	errorLate // nobody waits for the answer
)

// coded are the errors that have a code without a text.
//
// table: never changed
var coded = map[byte]error{
	errorLimit: symbol.ErrLimit, errorTooLong: symbol.ErrTooLong,
	errorMuchDebug: symbol.ErrMuchDebug, errorLate: symbol.ErrUnavailable,
}

func appendHello(b []byte) []byte {
	return wire.AppendUint(wire.AppendString(b, magic), version)
}

func checkHello(payload []byte) error {
	d := &wire.Decoder{Rest: payload}
	if d.String() != magic {
		d.Fail("no hello")
	}
	if v := d.Uint(); d.Err == nil && v != version {
		d.Fail("version %d, want %d", v, version)
	}
	return d.End()
}

// appendRequest appends a request without its descriptors. more: others follow at once, so that its
// answer may be sent together with theirs.
func appendRequest(b []byte, seq uint64, q *symbol.Request, more bool) []byte {
	b = append(wire.AppendUint(b, seq), byte(q.Op))
	b = wire.AppendBool(wire.AppendBool(b, q.File != nil), q.Debug != nil)
	b = wire.AppendBool(b, more)
	b = wire.AppendBool(wire.AppendBool(b, q.Whole), q.Known)
	b = wire.AppendInt(wire.AppendInt(b, q.From), int64(q.Limit))
	b = wire.AppendInt(b, int64(q.Until))
	b = appendSpans(appendAddrs(b, q.Addrs), q.Spans)
	return wire.AppendString(b, string(q.Text))
}

// A header is what a request says of its descriptors and of the next request.
type header struct {
	seq         uint64
	file, debug bool
	more        bool
}

// decodeRequest reads what appendRequest has written.
func decodeRequest(payload []byte) (h header, q *symbol.Request, err error) {
	d := &wire.Decoder{Rest: payload}
	q = &symbol.Request{}
	h.seq, q.Op = d.Uint(), symbol.Op(d.Byte())
	h.file, h.debug, h.more = d.Bool(), d.Bool(), d.Bool()
	q.Whole, q.Known = d.Bool(), d.Bool()
	q.From, q.Limit, q.Until = d.Int(), time.Duration(d.Int()), time.Duration(d.Int())
	q.Addrs, q.Spans = addrs(d), spans(d)
	q.Text = append([]byte(nil), d.Bytes(d.Count(1))...)
	switch {
	case q.Op < symbol.OpHeader || q.Op > symbol.LastOp:
		d.Fail("operation %d", q.Op)
	case h.file == (q.Op == symbol.OpFramed) || h.debug && !h.file:
		d.Fail("operation %d with other files", q.Op)
	case q.From < 0 || q.Limit < 0 || q.Until < 0 || len(q.Text) > symbol.MostText:
		d.Fail("a value is out of range")
	}
	return h, q, d.End()
}

// appendAddrs appends addresses in order as differences.
func appendAddrs(b []byte, all []uint64) []byte {
	b = wire.AppendUint(b, uint64(len(all)))
	last := uint64(0)
	for _, a := range all {
		b = wire.AppendUint(b, a-last)
		last = a
	}
	return b
}

func addrs(d *wire.Decoder) []uint64 {
	n := d.Count(1)
	if n > symbol.MostAddrs {
		d.Fail("%d addresses", n)
		return nil
	}
	var out []uint64
	last := uint64(0)
	for i := range n {
		a := last + d.Uint()
		if i > 0 && a <= last {
			d.Fail("addresses are not in order")
			return nil
		}
		out, last = append(out, a), a
	}
	return out
}

// appendSpans appends spans in order as differences.
func appendSpans(b []byte, all []symbol.Span) []byte {
	b = wire.AppendUint(b, uint64(len(all)))
	last := uint64(0)
	for _, s := range all {
		b = wire.AppendUint(wire.AppendUint(b, s.From-last), s.To-s.From)
		last = s.To
	}
	return b
}

func spans(d *wire.Decoder) (out []symbol.Span) {
	n := d.Count(2)
	if n > symbol.MostSpans {
		d.Fail("%d spans", n)
	}
	last := uint64(0)
	for range n {
		skip, length := d.Uint(), d.Uint()
		if d.Err != nil || skip > math.MaxUint32 || length > math.MaxUint32 ||
			last+skip+length > 1<<32 {
			d.Fail("a span is out of range")
			return nil
		}
		out = append(out, symbol.Span{From: last + skip, To: last + skip + length})
		last += skip + length
	}
	return out
}

// appendAnswer appends an answer with the error of the request and what the process has used.
func appendAnswer(b []byte, seq uint64, a *symbol.Answer, failed error, u usage) []byte {
	b = appendError(wire.AppendUint(b, seq), failed)
	b = wire.AppendInt(wire.AppendInt(b, int64(u.cpu)), u.memory)
	b = wire.AppendString(wire.AppendInt(b, int64(a.CPU)), a.BuildID)
	b = wire.AppendUint(wire.AppendString(b, a.Link.Name), uint64(a.Link.CRC))
	b = appendSegments(appendSegments(b, a.Loads), a.Code)
	for _, v := range []bool{a.Full, a.Go, a.Found, a.Cut} {
		b = wire.AppendBool(b, v)
	}
	b = appendSpans(wire.AppendString(b, string(a.Digest)), a.Spans)
	b = wire.AppendUint(wire.AppendInt(b, a.To), uint64(len(a.Names)))
	for _, n := range a.Names {
		b = wire.AppendUint(wire.AppendString(b, n.Name), n.Start)
		b = wire.AppendUint(wire.AppendUint(b, n.Low), n.High)
	}
	b = wire.AppendUint(b, uint64(len(a.Inlined)))
	for _, names := range a.Inlined {
		b = wire.AppendStrings(b, names)
	}
	b = wire.AppendUint(b, uint64(len(a.Numbers)))
	for _, n := range a.Numbers {
		b = wire.AppendUint(b, n)
	}
	return appendNotes(b, a.Notes)
}

func appendError(b []byte, err error) []byte {
	if err == nil {
		return append(b, errorNone)
	}
	for code, is := range coded {
		if errors.Is(err, is) {
			return append(b, code)
		}
	}
	text := measure.Clean(err.Error())
	for len(text) > maxError {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return wire.AppendString(append(b, errorFile), text)
}

func appendSegments(b []byte, all []symbol.Segment) []byte {
	b = wire.AppendUint(b, uint64(len(all)))
	for _, s := range all {
		for _, v := range []uint64{s.Offset, s.Addr, s.FileSize, s.MemSize} {
			b = wire.AppendUint(b, v)
		}
	}
	return b
}

func segments(d *wire.Decoder) (out []symbol.Segment) {
	n := d.Count(4)
	if n > symbol.MostLoads {
		d.Fail("%d segments", n)
		return nil
	}
	for range n {
		out = append(out, symbol.Segment{Offset: d.Uint(), Addr: d.Uint(), FileSize: d.Uint(),
			MemSize: d.Uint()})
	}
	return out
}

// decodeAnswer reads an answer to a request and checks it: lengths, ranges, order, text. size is
// that of the request's file. failed is the error that the process reports; err means that the
// answer is invalid.
func decodeAnswer(payload []byte, seq uint64, q *symbol.Request, size int64) (a *symbol.Answer,
	u usage, failed, err error) {
	d := &wire.Decoder{Rest: payload}
	if got := d.Uint(); d.Err == nil && got != seq {
		d.Fail("the answer to request %d, want %d", got, seq)
	}
	failed = errorOf(d)
	u = usage{time.Duration(d.Int()), d.Int()}
	a = &symbol.Answer{CPU: time.Duration(d.Int()), BuildID: d.String()}
	a.Link = link(d)
	a.Loads, a.Code = segments(d), segments(d)
	a.Full, a.Go, a.Found, a.Cut = d.Bool(), d.Bool(), d.Bool(), d.Bool()
	a.Digest, a.Spans, a.To = append([]byte(nil), d.Bytes(d.Count(1))...), spans(d), d.Int()
	if _, err := hex.DecodeString(a.BuildID); err != nil || len(a.BuildID) > 2*maxBuildID {
		d.Fail("a build ID of %d bytes", len(a.BuildID))
	}
	if u.cpu < 0 || u.memory < 0 || a.CPU < 0 || a.To < 0 || a.To > max(size, q.From) {
		d.Fail("a number is out of range")
	}
	if n := len(a.Digest); n > 0 && n != digestSize {
		d.Fail("a digest of %d bytes", n)
	}
	decodeNames(d, a, q)
	decodeNumbers(d, a, q)
	a.Notes = notes(d)
	return a, u, failed, d.End()
}

// link reads the debug file that a file names.
func link(d *wire.Decoder) symbol.DebugLink {
	l := symbol.DebugLink{Name: d.String()}
	crc := d.Uint()
	if l.CRC = uint32(crc); crc > math.MaxUint32 || !l.Valid() {
		d.Fail("a debug file with a name of %d bytes", len(l.Name))
		return symbol.DebugLink{}
	}
	return l
}

const (
	maxBuildID = 64 // bytes
	digestSize = 32 // bytes
)

func errorOf(d *wire.Decoder) error {
	code := d.Byte()
	switch {
	case code == errorNone:
		return nil
	case code == errorFile:
		return errors.New(text(d, maxError))
	case coded[code] != nil:
		return coded[code]
	}
	d.Fail("error %d", code)
	return nil
}

// text reads a text that is shown.
func text(d *wire.Decoder, most int) string {
	s := d.String()
	if len(s) > most || !utf8.ValidString(s) || measure.Clean(s) != s {
		d.Fail("a text of %d bytes that is not clean", len(s))
		return ""
	}
	return s
}

// decodeNames reads the names of an answer, which belong to the addresses of the request.
func decodeNames(d *wire.Decoder, a *symbol.Answer, q *symbol.Request) {
	n := d.Count(4)
	if n != 0 && n != len(q.Addrs) {
		d.Fail("%d names of %d addresses", n, len(q.Addrs))
		return
	}
	last := symbol.Name{}
	for i := range n {
		one := symbol.Name{Name: text(d, symbol.MostName), Start: d.Uint(), Low: d.Uint(),
			High: d.Uint()}
		addr := q.Addrs[i]
		switch {
		case one.Name != "" && one.Start > addr:
			d.Fail("the symbol of %x begins at %x", addr, one.Start)
		case q.Op != symbol.OpGenerated:
			one.Low, one.High = 0, 0
		case one.Low > addr || one.High <= addr && addr < math.MaxUint64 ||
			one.Name != "" && one.Start > one.Low:
			d.Fail("the range %x-%x of %x", one.Low, one.High, addr)
		case i > 0 && one != last && one.Low < last.High:
			d.Fail("the range %x-%x overlaps that before", one.Low, one.High)
		}
		if d.Err != nil {
			return
		}
		a.Names, last = append(a.Names, one), one
	}
	if n = d.Count(1); n != 0 && n != len(q.Addrs) {
		d.Fail("inlined functions of %d addresses, want %d", n, len(q.Addrs))
		return
	}
	for range n {
		k := d.Count(1)
		if k > symbol.MostInlined {
			d.Fail("%d inlined functions", k)
			return
		}
		var names []string
		for range k {
			names = append(names, text(d, symbol.MostName))
		}
		a.Inlined = append(a.Inlined, names)
	}
}

// A rowWriter writes rows as frames: the difference of the address and the number of the rule. A
// number that is new is followed by the rule.
type rowWriter struct {
	seq   uint64
	send  func(frame []byte) error
	buf   []byte
	last  uint32
	rules map[unwind.Rule]uint64
}

// add writes a row. The error is that of send.
func (w *rowWriter) add(pc uint32, rule unwind.Rule) error {
	if len(w.buf) == 0 {
		w.buf = wire.AppendUint(wire.Start(w.buf, kindRows), w.seq)
	}
	n, known := w.rules[rule]
	if !known {
		if n = uint64(len(w.rules)); n >= maxRules {
			return symbol.ErrTooLong
		}
		w.rules[rule] = n
	}
	if pc < w.last {
		return symbol.ErrTooLong // rows are in order
	}
	w.buf = wire.AppendUint(wire.AppendUint(w.buf, uint64(pc-w.last)), n)
	w.last = pc
	if !known {
		w.buf = append(w.buf, byte(rule.CFA), byte(rule.BP))
		w.buf = wire.AppendInt(w.buf, int64(rule.Offset))
		w.buf = wire.AppendInt(w.buf, int64(rule.BPOffset))
	}
	if len(w.buf) < rowsFrame {
		return nil
	}
	return w.flush()
}

// flush sends the rows that were not sent. The error is that of send.
func (w *rowWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	b := wire.End(w.buf, 0)
	w.buf = w.buf[:0]
	return w.send(b)
}

// A rowReader reads what a rowWriter has written.
type rowReader struct {
	seq   uint64
	row   func(uint32, unwind.Rule) error
	last  uint64
	rules []unwind.Rule
	count int
	err   error // of row
}

func (r *rowReader) kind() byte { return kindRows }

// failed returns the error of the caller.
func (r *rowReader) failed() error { return r.err }

// stop drops later rows.
func (r *rowReader) stop(err error) { r.err = err }

// decode passes on the rows of a frame until row has failed. The error means that they are invalid.
func (r *rowReader) decode(payload []byte) error {
	d := &wire.Decoder{Rest: payload}
	if got := d.Uint(); d.Err == nil && got != r.seq {
		d.Fail("rows of request %d, want %d", got, r.seq)
	}
	for d.Err == nil && len(d.Rest) > 0 {
		step, n := d.Uint(), d.Uint()
		if r.count++; step > math.MaxUint32 || r.last+step > math.MaxUint32 || r.count > maxRows {
			d.Fail("row %d is out of range", r.count)
			break
		}
		r.last += step
		if n == uint64(len(r.rules)) && n < maxRules {
			r.rules = append(r.rules, rule(d))
		}
		if n >= uint64(len(r.rules)) {
			d.Fail("rule %d of %d", n, len(r.rules))
		}
		if d.Err == nil && r.err == nil {
			r.err = r.row(uint32(r.last), r.rules[n])
		}
	}
	return d.End()
}

func rule(d *wire.Decoder) unwind.Rule {
	r := unwind.Rule{CFA: unwind.CFARule(d.Byte()), BP: unwind.BPRule(d.Byte())}
	cfa, bp := d.Int(), d.Int()
	r.Offset, r.BPOffset = int32(cfa), int32(bp)
	if r.CFA > unwind.CFAOther || r.BP > unwind.BPLost || int64(r.Offset) != cfa ||
		int64(r.BPOffset) != bp {
		d.Fail("an unwind rule is out of range")
	}
	return r
}

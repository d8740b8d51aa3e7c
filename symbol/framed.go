package symbol

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"time"

	"culprit/kernel/proc"
)

// Code that a just-in-time compiler made has no unwind table, and stacks go on by its frame
// pointer. Whether it has one at a place is found out by reading the code in the memory of the
// process.

const (
	// mostFrameCode is how much code before a place is read.
	mostFrameCode = 32 << 10
	// backFrameCode is the same where it is not known where the function begins.
	backFrameCode = 4 << 10
	// framesKept is how long a verdict holds: code may be replaced. In that time at most
	// framesCode bytes of a process are read.
	framesKept = 5 * time.Second
	framesCode = 16 << 20
)

// A frameCheck is what was found of the generated code of a process.
type frameCheck struct {
	since  time.Time
	framed map[uint64]bool
	read   int // bytes of code
}

// Unframed reports for each address of a stack whether it is in generated code without a known
// frame pointer of its own. A walk by frame pointers misses the caller there. nil: none is.
func (ps *Processes) Unframed(pid int, pcs []uint64) (out []bool) {
	ps.run(func() { out = ps.unframed(pid, pcs) })
	return out
}

// LearnFrames finds out for the addresses of some stacks what Unframed reports of them.
func (ps *Processes) LearnFrames(stacks []Asked) {
	ps.run(func() {
		ps.learnGenerated(stacks) // where functions begin
		if ps.talk != nil && len(ps.talk.open) > 0 {
			return // the next round has the answers
		}
		for _, s := range stacks {
			ps.unframed(s.PID, s.PCs)
		}
	})
}

func (ps *Processes) unframed(pid int, pcs []uint64) []bool {
	p, err := ps.process(pid)
	if err != nil {
		return nil
	}
	var out []bool
	for i, pc := range pcs {
		near := pc - uint64(min(i, 1))
		k := find(p.maps, near)
		if k < 0 || !p.maps[k].generated() || ps.framed(p, &p.maps[k], pc, near) {
			continue
		}
		if out == nil {
			out = make([]bool, len(pcs))
		}
		out[i] = true
	}
	return out
}

// generated reports whether a mapping contains code that comes from no file of code.
func (m *Mapping) generated() bool {
	if !m.Exec || strings.HasPrefix(m.Path, "[") {
		return false
	}
	return m.Inode == 0 || strings.HasPrefix(m.Path, "/memfd:") ||
		strings.HasPrefix(m.Path, "/dev/")
}

// framed reports whether a walk finds the caller of generated code at pc: its function has set its
// frame pointer there, or returns next. addr is pc, or an address within the call before it.
func (ps *Processes) framed(p *process, m *Mapping, pc, addr uint64) bool {
	c := &p.frames
	if c.framed == nil || time.Since(c.since) > framesKept {
		*c = frameCheck{since: time.Now(), framed: map[uint64]bool{}}
	}
	type frameKey struct {
		p    *process
		addr uint64
	}
	verdicts := c.framed // reading maps anew, as below, begins other ones
	framed, known := verdicts[addr]
	if known || c.read >= framesCode || ps.talk.has(frameKey{p, addr}) {
		return framed
	}
	from, begins := max(m.Start, addr-min(addr, backFrameCode)), false
	before := ps.talk.pending()
	f, ok := ps.inCompiled(p, addr)
	if ps.talk.pending() > before || ps.talk != nil && ps.talk.text > mostTalkText {
		return false // the next round knows where the function begins, or has space
	}
	if ok && f.Start >= m.Start && f.Start <= addr && addr-f.Start < mostFrameCode {
		from, begins = f.Start, true
	}
	text, err := ps.memoryOf(p, from, min(m.End, addr+16))
	if ps.hangs(p.pid, err); errors.Is(err, proc.ErrHangs) {
		return false
	}
	c.read += len(text)
	if returnsAt(text, pc-from) {
		verdicts[addr] = true
		return true
	}
	if ps.talk != nil {
		ps.talk.text += len(text)
	}
	ps.ask(frameKey{p, addr}, &query{payer: ps.userOf(p), q: &Request{Op: OpFramed, Text: text,
		Addrs: []uint64{addr - from}, Known: begins}, done: func(a *Answer, err error) {
		if err == nil {
			verdicts[addr] = a.Found
		}
	}})
	return verdicts[addr]
}

// returnsAt reports whether code continues at an offset with add $N,%rsp; ret. A walk finds the
// caller there.
func returnsAt(code []byte, at uint64) bool {
	return at+5 <= uint64(len(code)) && string(code[at:at+3]) == "\x48\x83\xc4" &&
		code[at+3] < 0x80 && code[at+4] == 0xc3
}

// memoryOf reads the memory of a process. It returns less where not all can be read.
func (ps *Processes) memoryOf(p *process, from, to uint64) ([]byte, error) {
	path := ps.in(p.pid, "mem")
	return guarded(ps, p.pid, func() ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // it was read from
		b := make([]byte, to-from)
		n, _ := f.ReadAt(b, int64(from))
		return b[:n], nil
	}, nil)
}

// hasFrame reports whether the function at an offset of code has set its frame pointer there.
// known: code begins with the function. Otherwise the function begins at the last place before the
// offset where code begins as functions of compilers do.
func hasFrame(code []byte, at uint64, known bool) bool {
	if at >= uint64(len(code)) {
		return false
	}
	if !known {
		start := max(bytes.LastIndex(code[:at+1], []byte("\x55\x48\x89\xe5")),
			bytes.LastIndex(code[:at+1], []byte("\x55\x48\x8b\xec")))
		if start < 0 {
			return false
		}
		code, at = code[start:], at-uint64(start)
	}
	r := readCode(code, 0, []uint32{0}, nil, true, 1<<63)
	for at > 0 && r.at[at] == stateInner {
		at--
	}
	switch n := r.at[at]; n {
	case stateInner:
		return false
	case stateNone: // nothing in the function leads there: an exit, a handler
		return known && beginsFunction(code)
	default:
		return r.states[n].fp > 0
	}
}

package perfdata

import (
	"encoding/binary"
)

// A Sample is one sample of an event.
type Sample struct {
	Event    int // index of File.Events
	PID, TID int
	Command  string // of the thread; "": unknown
	Process  string // the command of the first thread of the process; "": unknown
	Time     uint64 // ns, of the clock of perf record; 0: unknown
	Period   uint64 // the number of events that it represents, at least 1
	Frames   []Frame
	Dump     *Binary // the dump of generated code that the process has mapped; nil: none
}

// A Frame is an address of a stack. A Sample has the innermost first.
type Frame struct {
	Addr   uint64
	Map    *Mapping // nil: unknown
	Kernel bool
	// Return means that Addr follows a call, so that Addr-1 is in the function that called.
	Return bool
}

// kernelRecord queues a record that the kernel wrote, by its time.
func (r *reader) kernelRecord(b []byte) error {
	if len(r.file.Events) == 0 {
		return r.wrong("records before the events are described")
	}
	event, time := 0, uint64(0)
	first := r.file.Events[0].attr
	if binary.LittleEndian.Uint32(b) == recordSample {
		if len(r.file.Events) > 1 {
			id, ok := sampleIDOf(b[recordHead:], first.sampleType)
			if event, ok = r.eventOf(id, ok); !ok {
				return nil // of an event that is not described
			}
		}
		time = sampleTimeOf(b[recordHead:], r.file.Events[event].attr.sampleType)
	} else if first.idAll {
		time = trailerTime(b, first.sampleType)
	}
	return r.queue.add(r, time, event, b)
}

// eventOf returns the event of a sample's id. A file of one event has ids of no use.
func (r *reader) eventOf(id uint64, ok bool) (int, bool) {
	if !ok {
		return 0, true
	}
	event, known := r.world.ids[id]
	return event, known
}

// sampleIDOf returns the id in a sample.
func sampleIDOf(b []byte, fields uint64) (uint64, bool) {
	at := 0
	switch {
	case fields&sampleIdentifier != 0:
	case fields&sampleID != 0:
		for _, f := range []uint64{sampleIP, sampleTID, sampleTime, sampleAddr} {
			if fields&f != 0 {
				at += 8
			}
		}
	default:
		return 0, false
	}
	if len(b) < at+8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[at:]), true
}

// sampleTimeOf returns the time of a sample in nanoseconds; 0: it has none.
func sampleTimeOf(b []byte, fields uint64) uint64 {
	at := 0
	for _, f := range []uint64{sampleIdentifier, sampleIP, sampleTID} {
		if fields&f != 0 {
			at += 8
		}
	}
	if fields&sampleTime == 0 || len(b) < at+8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b[at:])
}

// trailerTime returns the time at the end of a record that is no sample; 0: it has none.
func trailerTime(b []byte, fields uint64) uint64 {
	if fields&sampleTime == 0 {
		return 0
	}
	behind := 8
	for _, f := range []uint64{sampleID, sampleStreamID, sampleCPU, sampleIdentifier} {
		if fields&f != 0 {
			behind += 8
		}
	}
	if len(b) < recordHead+behind {
		return 0
	}
	return binary.LittleEndian.Uint64(b[len(b)-behind:])
}

// A fields reads the fields of a record one after another.
type fields struct {
	b     []byte
	short bool // it was read beyond the end
}

func (f *fields) u64() uint64 {
	if len(f.b) < 8 {
		f.b, f.short = nil, true
		return 0
	}
	v := binary.LittleEndian.Uint64(f.b)
	f.b = f.b[8:]
	return v
}

// pair reads two numbers of 32 bits.
func (f *fields) pair() (int, int) {
	v := f.u64()
	return int(int32(v)), int(int32(v >> 32))
}

// skip drops n numbers of 64 bits.
func (f *fields) skip(n uint64) {
	if n > uint64(len(f.b)/8) {
		f.b, f.short = nil, true
		return
	}
	f.b = f.b[8*n:]
}

// sample reads a sample and passes it on. A sample that is too short for its fields is damaged.
func (r *reader) sample(b []byte, event int) error {
	e := &r.file.Events[event]
	in := fields{b: b[recordHead:]}
	s := Sample{Event: event, Period: e.attr.period, PID: -1, TID: -1}
	has := func(f uint64) bool { return e.attr.sampleType&f != 0 }
	if has(sampleIdentifier) {
		in.u64()
	}
	ip := uint64(0)
	if has(sampleIP) {
		ip = in.u64()
	}
	if has(sampleTID) {
		s.PID, s.TID = in.pair()
	}
	s.Time = sampleTimeOf(b[recordHead:], e.attr.sampleType)
	for _, f := range []uint64{sampleTime, sampleAddr, sampleID, sampleStreamID, sampleCPU} {
		if has(f) {
			in.u64()
		}
	}
	if has(samplePeriod) {
		s.Period = in.u64()
	}
	if has(sampleRead) {
		skipRead(&in, e.attr.readFormat)
	}
	mode := binary.LittleEndian.Uint16(b[4:]) & miscMode
	frames := r.world.frames[:0]
	if has(sampleCallchain) {
		n := in.u64()
		if n > uint64(len(in.b)/8) {
			in.short = true
		} else {
			frames = r.world.chain(frames, s.PID, mode, in.b[:8*n])
		}
	}
	if in.short {
		return r.wrong("a sample of %d bytes, too few for its fields", len(b))
	}
	if len(frames) == 0 && has(sampleIP) {
		frames = append(frames, r.world.frame(s.PID, mode, ip, false))
	}
	r.world.frames = frames
	s.Frames, s.Period = frames, max(s.Period, 1)
	if p := r.world.processes[s.PID]; p != nil {
		s.Dump = p.dump
	}
	s.Command, s.Process = r.world.command(s.PID, s.TID), r.world.command(s.PID, s.PID)
	if err := r.each(&s); err != nil {
		r.err = err
		return err
	}
	return nil
}

// skipRead skips the values of counters in a sample.
func skipRead(in *fields, format uint64) {
	each := uint64(1)
	for _, f := range []uint64{readID, readLost} {
		if format&f != 0 {
			each++
		}
	}
	times := uint64(0)
	for _, f := range []uint64{readEnabled, readRunning} {
		if format&f != 0 {
			times++
		}
	}
	if format&readGroup == 0 {
		in.skip(each + times)
		return
	}
	n := in.u64()
	in.skip(times)
	if n > uint64(len(in.b)) {
		in.skip(^uint64(0))
		return
	}
	in.skip(n * each)
}

// The marks in a call chain: what follows is code of the kernel, of a user, or of a guest.
//
// table: enum perf_callchain_context
const (
	contextLeast  = ^uint64(4095) + 1
	contextKernel = ^uint64(128) + 1
	contextUser   = ^uint64(512) + 1
)

// chain appends the frames of a call chain.
func (w *world) chain(frames []Frame, pid int, mode uint16, b []byte) []Frame {
	first := true
	for ; len(b) >= 8; b = b[8:] {
		addr := binary.LittleEndian.Uint64(b)
		if addr >= contextLeast {
			switch addr {
			case contextKernel:
				mode = modeKernel
			case contextUser:
				mode = modeUser
			default:
				mode = 0
			}
			first = true
			continue
		}
		frames = append(frames, w.frame(pid, mode, addr, !first))
		first = false
	}
	return frames
}

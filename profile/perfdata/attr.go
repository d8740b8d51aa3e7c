package perfdata

import (
	"encoding/binary"
	"strings"
)

// An attr is the part of perf_event_attr that the layout of records depends on.
type attr struct {
	sampleType uint64
	readFormat uint64
	idAll      bool // other records have the fields of a sample's identity too
	period     uint64
}

// The fields of a sample, in bits of attr.sampleType.
//
// table: enum perf_event_sample_format
const (
	sampleIP         = 1 << 0
	sampleTID        = 1 << 1
	sampleTime       = 1 << 2
	sampleAddr       = 1 << 3
	sampleRead       = 1 << 4
	sampleCallchain  = 1 << 5
	sampleID         = 1 << 6
	sampleCPU        = 1 << 7
	samplePeriod     = 1 << 8
	sampleStreamID   = 1 << 9
	sampleStackUser  = 1 << 13
	sampleIdentifier = 1 << 16
)

// The fields of a counter, in bits of attr.readFormat.
//
// table: enum perf_event_read_format
const (
	readEnabled = 1 << 0
	readRunning = 1 << 1
	readID      = 1 << 2
	readGroup   = 1 << 3
	readLost    = 1 << 4
)

// The bytes of perf_event_attr: of its first version, and up to the flags.
const (
	attrMin   = 64
	flagFreq  = 1 << 10
	flagIDAll = 1 << 18
)

// event adds an event by its perf_event_attr and the ids of its samples.
func (r *reader) event(b, ids []byte) error {
	if len(b) < attrMin {
		return r.wrong("an event of %d bytes", len(b))
	}
	if len(r.file.Events) >= maxEvents {
		return r.wrong("more than %d events", maxEvents)
	}
	flags := binary.LittleEndian.Uint64(b[40:])
	e := Event{
		Type:   binary.LittleEndian.Uint32(b),
		Config: binary.LittleEndian.Uint64(b[8:]),
		attr: attr{
			sampleType: binary.LittleEndian.Uint64(b[24:]),
			readFormat: binary.LittleEndian.Uint64(b[32:]),
			idAll:      flags&flagIDAll != 0,
		},
	}
	if flags&flagFreq == 0 {
		e.attr.period = binary.LittleEndian.Uint64(b[16:])
	}
	e.Stacks = e.attr.sampleType&sampleCallchain != 0
	if e.attr.sampleType&sampleStackUser != 0 {
		r.file.Unwalked = true
	}
	r.charge(128 + 4*len(ids))
	for ; len(ids) >= 8; ids = ids[8:] {
		r.world.ids[binary.LittleEndian.Uint64(ids)] = len(r.file.Events)
	}
	e.Name = defaultName(e.Type, e.Config)
	r.file.Events = append(r.file.Events, e)
	return nil
}

// defaultName returns perf's name of an event of the kernel's own; "" for others.
func defaultName(kind uint32, config uint64) string {
	var names string
	switch kind {
	case 0: // PERF_TYPE_HARDWARE
		names = "cycles instructions cache-references cache-misses branches branch-misses " +
			"bus-cycles stalled-cycles-frontend stalled-cycles-backend ref-cycles"
	case 1: // PERF_TYPE_SOFTWARE
		names = "cpu-clock task-clock page-faults context-switches cpu-migrations minor-faults " +
			"major-faults alignment-faults emulation-faults dummy bpf-output cgroup-switches"
	}
	if all := strings.Fields(names); config < uint64(len(all)) {
		return all[config]
	}
	return ""
}

package kernellog

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"culprit/collect"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Messages reads warnings and worse, and messages of known events, from /dev/kmsg.
type Messages struct {
	open func() (source, error) // nil: opens /dev/kmsg
}

// source returns one message per Read. Its errors are EAGAIN at the end, and EPIPE after messages
// were overwritten. Skip moves behind the last message.
type source interface {
	Read(b []byte) (int, error)
	Skip() error
	Close() error
}

// statID is the statistic of messages.
const statID = measure.StatID("kernel.messages")

// Limits of a reading, and of the texts that are kept.
const (
	maxRecord  = 8 << 10 // bytes of a message (CONSOLE_EXT_LOG_MAX)
	maxRecords = 500     // messages of a reading: the others are skipped
	maxBurst   = 60      // new texts at once
	newEvery   = 2 * time.Second
	maxRecent  = 256 // texts that are not new
)

// fewerTexts is the text of messages that are only counted, because there are too many.
const fewerTexts = "(more messages)"

// Stats returns kernel.messages.
func (Messages) Stats() []measure.Stat {
	return []measure.Stat{{
		ID: statID, Kind: measure.Delta, Unit: measure.Events, Sparse: true,
		Help: "messages of the kernel's log: warnings and worse, and those of known events, " +
			"without addresses and secrets (/dev/kmsg)",
		Fields: []measure.Field{
			{Name: "level", Type: measure.Word, Help: "emergency alert critical error warning " +
				"notice info debug"},
			{Name: "event", Type: measure.Word, Help: "oom-kill hung-task io-error link-up " +
				"link-down crash ...; other: none that is known"},
			{Name: "text", Type: measure.Word, Help: "the message, of at most 160 bytes; beyond " +
				"60 new ones at once and one per 2 s they are only counted"},
		},
	}}
}

// Open opens the log at its end. An error means that it is missing, off, or needs a right. The
// caller closes the Reading.
func (m Messages) Open(env *collect.Env, _ collect.Want) (collect.Reading, error) {
	if env.NoKernelLog {
		return nil, collect.Unsupported("the setting kernel-log is off")
	}
	open := m.open
	if open == nil {
		open = openLog
	}
	s, err := open()
	if err != nil {
		return nil, err
	}
	return &reading{
		source: s, masks: &env.Masks, buffer: make([]byte, maxRecord),
		recent: map[string]bool{}, tokens: maxBurst,
	}, nil
}

// openLog opens /dev/kmsg behind its last message.
func openLog() (source, error) {
	const path = "/dev/kmsg"
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, kernel.Refused("read the kernel's log", "", unix.CAP_SYSLOG)
	case errors.Is(err, fs.ErrNotExist):
		return nil, collect.Unsupported("there is no " + path + ", as in most containers")
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f := logFile(fd)
	if err := f.Skip(); err != nil {
		_ = f.Close() // only read
		return nil, err
	}
	return f, nil
}

// logFile is a descriptor of /dev/kmsg.
type logFile int

// Read implements source.
func (f logFile) Read(b []byte) (int, error) { return unix.Read(int(f), b) }

// Skip implements source.
func (f logFile) Skip() error {
	if _, err := unix.Seek(int(f), 0, unix.SEEK_END); err != nil {
		return fmt.Errorf("seek in the kernel's log: %w", err)
	}
	return nil
}

// Close implements source.
func (f logFile) Close() error { return unix.Close(int(f)) }

// counted identifies equal messages.
type counted struct{ level, event, text string }

type reading struct {
	source source
	masks  *measure.Masker
	buffer []byte

	recent map[string]bool // texts that are not new
	tokens float64         // new texts that may come now
	last   time.Time       // when tokens was set
}

// Read counts the messages since the last reading.
func (r *reading) Read(out *collect.Out) error {
	t := out.Table(statID)
	r.refill(time.Now())
	var order []counted
	counts := map[counted]float64{}
	lost := false
	n := 0
	for ; n < maxRecords; n++ {
		size, err := r.source.Read(r.buffer)
		if errors.Is(err, unix.EPIPE) { // the next read continues after the gap
			lost = true
			continue
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) || err == nil && size <= 0 {
			break
		}
		if err != nil {
			return fmt.Errorf("read the kernel's log: %w", err)
		}
		one, ok := parseRecord(r.buffer[:size], r.masks)
		if !ok || out.First {
			continue
		}
		key := counted{levels[one.level], one.event, r.textOf(one.text)}
		if counts[key] == 0 {
			order = append(order, key)
		}
		counts[key]++
	}
	for _, key := range order {
		t.Row(counts[key], key.level, key.event, key.text)
	}
	if lost {
		t.Note("messages were overwritten before they were read")
	}
	if n == maxRecords {
		t.Note(fmt.Sprintf("more than %d messages at once: the others were not read", maxRecords))
		return r.source.Skip()
	}
	return nil
}

// refill adds the tokens of the time since the last reading.
func (r *reading) refill(now time.Time) {
	if since := now.Sub(r.last); !r.last.IsZero() && since > 0 {
		r.tokens = min(maxBurst, r.tokens+since.Seconds()/newEvery.Seconds())
	}
	r.last = now
}

// textOf returns the text of a message, or fewerTexts if it is new and there were too many.
func (r *reading) textOf(text []byte) string {
	if r.recent[string(text)] {
		return string(text)
	}
	if r.tokens < 1 {
		return fewerTexts
	}
	r.tokens--
	if len(r.recent) >= maxRecent {
		clear(r.recent)
	}
	r.recent[string(text)] = true
	return string(text)
}

// Close closes the log.
func (r *reading) Close() { _ = r.source.Close() } // only read

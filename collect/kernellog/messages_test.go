package kernellog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// scripted is a source with the records of a test. An error takes its turn among them.
type scripted struct {
	records []any
	skipped int
}

func (s *scripted) Read(b []byte) (int, error) {
	if len(s.records) == 0 {
		return 0, unix.EAGAIN
	}
	one := s.records[0]
	s.records = s.records[1:]
	if err, ok := one.(error); ok {
		return 0, err
	}
	return copy(b, one.(string)), nil
}

func (s *scripted) Skip() error {
	s.skipped += len(s.records)
	s.records = nil
	return nil
}

func (*scripted) Close() error { return nil }

// opened returns a machine that reads the source, after its first reading.
func opened(t *testing.T, s *scripted) *collecttest.Machine {
	t.Helper()
	m := collecttest.EmptyMachine(t)
	m.Open(Messages{open: func() (source, error) { return s, nil }})
	m.Read(true)
	return m
}

func TestMessages(t *testing.T) {
	s := &scripted{records: []any{"3,1,2,-;before the start"}}
	m := opened(t, s)
	s.records = []any{
		"4,1,2,-;slow", "3,2,2,-;I/O error, dev vda", unix.EPIPE, "4,3,2,-;slow",
		"14,3,2,-;of a program", unix.EINTR, "6,3,2,-;chatter",
	}
	m.Start(false)
	if err := m.Reading.Read(m.Out); err != nil {
		t.Fatal(err)
	}
	notes := m.Out.Tables()[0].Batch().Notes
	if len(notes) != 1 || !strings.Contains(notes[0], "overwritten") {
		t.Errorf("notes %q", notes)
	}
	got := fmt.Sprint(collecttest.RowsOf(t, m.Out))
	const want = "map[kernel.messages|error|io-error|I/O error, dev vda:1 " +
		"kernel.messages|warning|other|slow:2]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if rows := m.Read(false); len(rows) != 0 {
		t.Errorf("the messages come again: %v", rows)
	}
	s.records = []any{unix.EIO}
	m.Start(false)
	if err := m.Reading.Read(m.Out); !errors.Is(err, unix.EIO) {
		t.Errorf("a log that can't be read: %v", err)
	}
}

// TestMessagesAreBounded: of a flood some texts are kept, all that was read is counted, and the
// rest is skipped with a note.
func TestMessagesAreBounded(t *testing.T) {
	s := &scripted{}
	m := opened(t, s)
	for i := range 2 * maxRecords {
		s.records = append(s.records, fmt.Sprintf("4,1,2,-;disk %d is odd", i))
	}
	rows := m.Read(false)
	sum := 0.0
	for _, n := range rows {
		sum += n
	}
	if others := rows["kernel.messages|warning|other|"+fewerTexts]; len(rows) != maxBurst+1 ||
		sum != maxRecords || others != maxRecords-maxBurst {
		t.Errorf("%d rows of %v messages, %v without a text", len(rows), sum, others)
	}
	if s.skipped != maxRecords {
		t.Errorf("%d messages were skipped", s.skipped)
	}
	// A text that was kept is no new one.
	s.records = []any{"4,1,2,-;disk 7 is odd", "4,1,2,-;disk 9999 is odd"}
	rows = m.Read(false)
	if rows["kernel.messages|warning|other|disk 7 is odd"] != 1 ||
		rows["kernel.messages|warning|other|"+fewerTexts] != 1 {
		t.Errorf("after the flood: %v", rows)
	}
}

// TestOff: with the setting off the log is not opened.
func TestOff(t *testing.T) {
	m := collecttest.EmptyMachine(t)
	m.Env.NoKernelLog = true
	err := m.TryOpen(Messages{open: func() (source, error) {
		t.Error("the log is opened")
		return nil, unix.EPERM
	}})
	if !errors.Is(err, measure.ErrUnsupported) || !strings.Contains(err.Error(), "kernel-log") {
		t.Errorf("error %v", err)
	}
}

// TestLogOfThisMachine: a program that writes to the kernel's log is not the kernel.
func TestLogOfThisMachine(t *testing.T) {
	fd, err := unix.Open("/dev/kmsg", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs: root (%v)", err)
	}
	defer unix.Close(fd) //nolint:errcheck // only for this test
	m := collecttest.EmptyMachine(t)
	if err := m.TryOpen(Messages{}); err != nil {
		t.Skipf("needs: root (%v)", err)
	}
	defer m.Reading.Close()
	m.Read(true)
	if _, err := unix.Write(fd, []byte("<3>culprit test: I/O error")); err != nil {
		t.Skipf("needs: root (%v)", err)
	}
	for key := range m.Read(false) {
		if strings.Contains(key, "culprit test") {
			t.Errorf("a message of a program: %s", key)
		}
	}
}

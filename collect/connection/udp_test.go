package connection

import (
	"net"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
)

// TestUDPReadsFilesOnce: both collectors use one read of a file, and each is throttled on its own.
func TestUDPReadsFilesOnce(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	reading, err := UDP{}.Open(&collect.Env{}, collecttest.WantAll(UDP{}))
	must(t, err)
	defer reading.Close()
	both := reading.(*udpBoth)
	names := both.readings[1].(*namesReading).spaces.List[0].Data
	for _, f := range names.files {
		must(t, f.Close()) // it cannot read itself
	}
	drops := both.readings[0].(*udpReading).spaces.List[0].Data
	words := collect.NewDictionary()
	out := collect.NewOut(UDP{}.Stats(), words, false)
	for n := range 2 {
		names.due, drops.until = time.Time{}, time.Time{}
		out.Start(n == 0, time.Now())
		must(t, reading.Read(out))
		if len(both.texts.of) == 0 {
			t.Fatal("no file was read")
		}
	}
	for _, b := range out.Finish(nil) {
		if b.Over.Span() == 0 || len(b.Notes) > 0 {
			t.Errorf("%s was not measured: %q", b.Stat, b.Notes)
		}
	}
	drops.until = time.Now().Add(time.Hour)
	names.due = time.Time{}
	out.Start(false, time.Now())
	if err := reading.Read(out); err != nil {
		t.Fatal(err)
	}
	for _, b := range out.Finish(nil) {
		if missing := len(b.Notes) > 0; missing != (b.Stat != "udp.socket.drops") {
			t.Errorf("%s, without a file to read: %q", b.Stat, b.Notes)
		}
	}
}

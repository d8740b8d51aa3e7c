package main

import (
	"bytes"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSignalsOfOneRequestEndWithTheResult sends 200 signals within 200 ms: END clauses still run
// and aggregations are printed.
func TestSignalsOfOneRequestEndWithTheResult(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs: root")
	}
	c := startWithFile(
		t, "trace", "-qn", `BEGIN { printf("begun\n"); @ = count(); } END { printf("ended\n"); }`,
		"-x", "switchrate=10ms",
	)
	printed := func() []byte {
		b, err := os.ReadFile(c.Stdout.(*os.File).Name())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for end := time.Now().Add(time.Minute); !bytes.Contains(printed(), []byte("begun")); {
		if time.Now().After(end) {
			t.Fatal("the script does not begin")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for i := range 200 { // 200 ms: well within a second
		sig := []os.Signal{unix.SIGTERM, os.Interrupt}[i%2]
		if c.Process.Signal(sig) != nil {
			break // it has ended
		}
		time.Sleep(time.Millisecond)
	}
	err := c.Wait()
	if out := printed(); !bytes.Contains(out, []byte("ended")) ||
		!bytes.Contains(out, []byte(" 1\n")) {
		t.Errorf("signals within a second: %v, printed %q", err, out)
	}
}

package kernel

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSlackTimers(t *testing.T) {
	runtime.LockOSThread() // the caller's own thread may always
	defer runtime.UnlockOSThread()
	own := "/proc/" + strconv.Itoa(unix.Gettid()) + "/timerslack_ns"
	before, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	was, err := strconv.Atoi(strings.TrimSpace(string(before)))
	if err != nil {
		t.Fatal(err)
	}
	defer SlackTimers(time.Duration(was)) //nolint:errcheck // as below
	if err := SlackTimers(3 * time.Millisecond); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if now, err := os.ReadFile(own); err != nil || string(now) != "3000000\n" {
		t.Errorf("the slack is %q, %v; want 3 ms", now, err)
	}
}

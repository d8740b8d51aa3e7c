// Package proctest has processes whose files cannot be read, for tests.
package proctest

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hangVariable makes the test binary a process that opens the file, reads a line, and executes
// another program: see Main.
const hangVariable = "PROCTEST_HANG"

// Main makes the test binary the process of StartHanging, which never returns. Each TestMain of a
// package that calls StartHanging calls it first.
func Main() {
	if file := os.Getenv(hangVariable); file != "" {
		fmt.Fprintln(os.Stderr, executeWith(file))
		os.Exit(1)
	}
}

func executeWith(file string) error {
	if _, err := os.Open(file); err != nil { // the kernel closes it in execve
		return err
	}
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	return unix.Exec("/bin/sleep", []string{"sleep", "1000"}, nil)
}

// mountHanging mounts a FUSE file system with one file, "file". Closing it hangs until the test or
// a call of the result ends the file system.
func mountHanging(t testing.TB) (file string, end func()) {
	t.Helper()
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs: kernel feature FUSE (%v)", err)
	}
	dir := t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)
	if err := unix.Mount("culprit-test", dir, "fuse", 0, options); err != nil {
		unix.Close(dev)
		t.Skipf("needs: cap:sys_admin to mount (%v)", err)
	}
	go serveHanging(dev)
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = unix.Unmount(dir, unix.MNT_DETACH|unix.MNT_FORCE) // aborts what hangs
		}
	}
	t.Cleanup(end)
	return filepath.Join(dir, "file"), end
}

// serveHanging answers the requests of a FUSE file system (include/uapi/linux/fuse.h) until it is
// unmounted: all but FLUSH, which close(2) sends.
//
//	request: | len 4 | opcode 4 | unique 8 | nodeid 8 | uid, gid, pid, extensions | arguments |
//	answer:  | len 4 | error 4 | unique 8 | arguments |
func serveHanging(dev int) {
	defer unix.Close(dev)
	buf := make([]byte, 1<<20)
	le := binary.NativeEndian
	attributes := func(b []byte, node uint64) []byte { // struct fuse_attr
		mode := uint32(unix.S_IFDIR | 0o755)
		if node == 2 {
			mode = unix.S_IFREG | 0o755
		}
		b = append(le.AppendUint64(b, node), make([]byte, 52)...) // size ... ctimensec
		b = le.AppendUint32(b, mode)
		return append(le.AppendUint32(b, 1), make([]byte, 20)...) // nlink, uid ... flags
	}
	for {
		n, err := unix.Read(dev, buf)
		if err == unix.EINTR || err == unix.ENOENT {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		answer, code := []byte(nil), int32(0)
		switch node := le.Uint64(buf[16:]); le.Uint32(buf[4:]) {
		case 26: // INIT: major, minor, readahead, flags, background, write, time
			answer = le.AppendUint32(le.AppendUint32(nil, 7), 31)
			answer = append(answer, make([]byte, 12)...)
			answer = append(le.AppendUint32(answer, 4096), make([]byte, 40)...)
		case 1: // LOOKUP: nodeid, generation, times 24, attributes
			answer = append(le.AppendUint64(nil, 2), make([]byte, 32)...)
			answer = attributes(answer, 2)
		case 3: // GETATTR: times 16, attributes
			answer = attributes(make([]byte, 16), node)
		case 14: // OPEN: handle, flags
			answer = make([]byte, 16)
		case 25, 2, 36: // FLUSH hangs; FORGET and INTERRUPT have no answer
			continue
		default:
			code = -int32(unix.ENOSYS)
		}
		out := le.AppendUint32(nil, uint32(16+len(answer)))
		out = le.AppendUint32(out, uint32(code))
		out = append(append(out, buf[8:16]...), answer...)
		if _, err := unix.Write(dev, out); err != nil && err != unix.ENOENT {
			return
		}
	}
}

// StartHanging starts a process that hangs in execve(2) after begin is called, until end is: it
// holds the lock under which the kernel produces its io, stack and syscall files, and under which
// it opens maps and mem. It skips the test without FUSE and CAP_SYS_ADMIN.
func StartHanging(t testing.TB) (pid int, begin, end func()) {
	t.Helper()
	file, end := mountHanging(t)
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), hangVariable+"="+file)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Fatal("the process has ended: ", err)
	}
	pid = c.Process.Pid
	return pid, func() {
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		WaitUntil(t, "the process hangs in execve", func() bool { return !Returns(pid, "io") })
	}, end
}

// Returns reports whether a file of a process can be read. A read that takes long is left alone.
func Returns(pid int, name string) bool {
	done := make(chan struct{})
	go func() {
		_, _ = os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(time.Second):
		return false
	}
}

// WaitUntil waits for a condition.
func WaitUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute until %s", what)
		}
	}
}

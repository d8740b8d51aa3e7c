package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nobody is the user of local attackers.
const nobody = 65534

// asNobody prepares a program that runs without any right.
func asNobody(args ...string) *exec.Cmd {
	c := exec.Command(args[0], args[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: false},
		Pdeathsig:  syscall.SIGKILL, Setpgid: true,
	}
	return c
}

// actAsNobody prepares an act of this program that runs without any right.
func actAsNobody(args ...string) *exec.Cmd {
	return asNobody(append([]string{"/proc/self/exe", "act"}, args...)...)
}

// act makes this process an attacker.
func act(args []string) int {
	var err error
	switch args[0] {
	case "jit":
		err = actJIT(args[1])
	case "idle":
		err = actIdle(args[1], args[2])
	case "named":
		err = actNamed(args[1])
	case "listen":
		err = actListen(args[1], args[2])
	case "socket":
		err = actSocket(args[1])
	default:
		err = fmt.Errorf("no act is called %q", args[0])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "act:", err)
		return 1
	}
	return 0
}

// waitForEnd waits until this process is killed or asked to end.
func waitForEnd() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
}

// jitCode counts down from a million and returns: mov ecx,1048576; dec ecx; jnz; ret.
// table: instructions
var jitCode = []byte{0xb9, 0x00, 0x00, 0x10, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3}

// actJIT runs code in anonymous memory, beside the symbol map of a just-in-time compiler. kind says
// what is at the path of the map: "none", "large" (60 MB, a million functions), "fifo",
// "directory",
// "shadow" or "zero" (links), "sparse" (3 GB).
func actJIT(kind string) error {
	path := fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())
	if err := makeMap(kind, path); err != nil {
		return err
	}
	defer os.RemoveAll(path)
	memory, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	copy(memory, jitCode)
	if runtime.GOARCH != "amd64" {
		return errNotLooked
	}
	code := unsafe.Pointer(&memory[0])
	entry := unsafe.Pointer(&code)
	call := *(*func())(unsafe.Pointer(&entry))
	for {
		call()
		time.Sleep(15 * time.Millisecond)
	}
}

func makeMap(kind, path string) error {
	switch kind {
	case "large":
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		var b []byte
		for i := range 1_000_000 {
			b = strconv.AppendInt(b, int64(0x10000+i*16), 16)
			b = fmt.Appendf(b, " 10 n%048d\n", i)
			if len(b) > 1<<20 || i == 999_999 {
				if _, err := f.Write(b); err != nil {
					return err
				}
				b = b[:0]
			}
		}
		return nil
	case "fifo":
		return unix.Mkfifo(path, 0o644)
	case "directory":
		return os.Mkdir(path, 0o755)
	case "shadow":
		return os.Symlink("/etc/shadow", path)
	case "zero":
		return os.Symlink("/dev/zero", path)
	case "sparse":
		if err := os.WriteFile(path, []byte("10000 10 f\n"), 0o644); err != nil {
			return err
		}
		return os.Truncate(path, 3<<30)
	}
	return nil
}

// actIdle opens connections that send a part of a request and then nothing, from many addresses of
// the loopback network.
func actIdle(address, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	if err := raiseFiles(); err != nil {
		return err
	}
	var all []net.Conn
	for i := range n {
		d := net.Dialer{
			Timeout:   2 * time.Second,
			LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+i/200), byte(1+i%200))},
		}
		c, err := d.Dial("tcp", address)
		if err != nil {
			continue // the server refuses it, or does not accept
		}
		_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nX: ")) // as above
		all = append(all, c)
	}
	fmt.Println("open", len(all))
	waitForEnd()
	runtime.KeepAlive(all)
	return nil
}

// actNamed spins under a name.
func actNamed(name string) error {
	runtime.LockOSThread()
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
		return err // the main thread's name is the process's
	}
	b := append([]byte(name), 0)
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0); err != nil {
		return err
	}
	for n := uint64(1); n != 0; n += 2 { // it is sampled: an odd number is never 0
	}
	return nil
}

// actListen answers each request with 401 and writes the Authorization headers that it gets.
func actListen(address, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return http.ListenAndServe(address, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(f, "%s %s\n", r.URL, r.Header.Get("Authorization"))
			w.WriteHeader(http.StatusUnauthorized)
		}))
}

// actSocket asks a unix socket, and fails if it is answered.
func actSocket(path string) error {
	c, err := net.DialTimeout("unix", path, 5*time.Second)
	if err != nil {
		fmt.Println("not connected")
		return nil
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // on a socket just made
	_, _ = c.Write([]byte("GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	b := make([]byte, 100)
	if n, _ := c.Read(b); n > 0 {
		return fmt.Errorf("answered: %q", b[:n])
	}
	fmt.Println("closed without an answer")
	return nil
}

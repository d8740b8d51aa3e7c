package command

import (
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// typedCalls makes the kernel call, on this thread: do_filp_open, which returns a struct file;
// inet_create, which returns -EPROTONOSUPPORT; and ns_capable, which returns true and then, without
// the capability, false.
func typedCalls(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread has lost a capability
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_APPEND|unix.O_NOATIME, 0)
	if err != nil {
		t.Error(err)
		return
	}
	unix.Close(fd) //nolint:errcheck // nothing was written
	const noProtocol = 250
	_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, noProtocol)
	if err != unix.EPROTONOSUPPORT {
		t.Errorf("a socket of an unknown protocol: %v", err)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Error(err)
	}
	host := []byte(unix.ByteSliceToString(name.Nodename[:]))
	if err := unix.Sethostname(host); err != nil {
		t.Errorf("with the capability: %v", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Error(err)
	}
	data[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	if err := unix.Capset(&header, &data[0]); err != nil {
		t.Error(err)
	}
	if err := unix.Sethostname(host); err != unix.EPERM {
		t.Errorf("without the capability: %v", err)
	}
}

// TestTypedReturns: what functions of the kernel return has its type of BTF: members of structs,
// the sign of an int, and no more bits than a bool has.
func TestTypedReturns(t *testing.T) {
	tracetest.Needs(t, feature.Kretprobe)
	tracetest.Needs(t, feature.BTF)
	for _, tt := range []struct{ name, text, want string }{
		{"member", `fbt::do_filp_open:return /pid == $pid && args[1]->f_flags & 0x40000/
			{ @[args[1]->f_flags & 0x40402] = count(); }`, "263170 1"},
		{"members of members", `fbt::do_filp_open:return /pid == $pid && args[1]->f_flags & 0x40000/
			{ @[stringof(args[1]->f_path.dentry->d_name.name)] = count(); }`, "null 1"},
		{"negative int", `fbt::inet_create:return /pid == $pid/ { @[args[1]] = count(); }`, "-93 1"},
		{"negative arg1", `fbt::inet_create:return /pid == $pid/ { @[(int)arg1] = count(); }`, "-93 1"},
		{"compared int", `fbt::inet_create:return /pid == $pid && args[1] < 0/ { @[-args[1]] = count(); }`,
			"93 1"},
		{"bool", `fbt::ns_capable:return /pid == $pid/ { @[args[1] ? "yes" : "no"] = count(); }`,
			"no 1 yes 1"},
		{"bool as a number", `fbt::ns_capable:return /pid == $pid/ { @[(int)arg1] = count(); }`,
			"0 1 1 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, out, errs := traced(t, program("%s", tt.text), func() {
				done := make(chan bool)
				go func() { defer close(done); typedCalls(t) }()
				<-done
			})
			if got := strings.Join(strings.Fields(out), " "); got != tt.want || errs != "" {
				t.Errorf("printed %q, want %q; said %q", got, tt.want, errs)
			}
		})
	}
}

// TestTypedReturnsOfBpftrace is TestTypedReturns in bpftrace's language, also with the kernel's
// trampolines.
func TestTypedReturnsOfBpftrace(t *testing.T) {
	tracetest.Needs(t, feature.Kretprobe)
	tracetest.Needs(t, feature.BTF)
	for _, tt := range []struct {
		name, text, want string
		needs            feature.Feature
	}{
		{"kretprobe, int", `kretprobe:inet_create /pid == PID/ { printf("%d\n", (int32)retval); exit(); }`,
			"-93", feature.Kretprobe},
		{"kretfunc, int", `kretfunc:inet_create /pid == PID/ { printf("%d\n", retval); exit(); }`,
			"-93", feature.Fentry},
		{"kretfunc, member", `kretfunc:do_filp_open /pid == PID && (retval->f_flags & 0x40000)/
			{ printf("%x\n", retval->f_flags & 0x40402); exit(); }`, "40402", feature.Fentry},
		{"kretfunc, bool", `kretfunc:ns_capable /pid == PID/ { @[retval] = count(); } interval:s:3 { exit(); }`,
			`@\[0\]: (\d+) @\[1\]: \d+`, feature.Fentry},
		{"kretfunc, members of members", `kretfunc:do_filp_open
			/pid == PID && (retval->f_flags & 0x40000)/
			{ printf("%s\n", str(retval->f_path.dentry->d_name.name)); exit(); }`,
			"null", feature.Fentry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tracetest.Needs(t, tt.needs)
			text := strings.ReplaceAll(tt.text, "PID", strconv.Itoa(os.Getpid()))
			r := BpftraceRequest{Program: text, Quiet: true}
			over := make(chan bool)
			var calls sync.WaitGroup
			calls.Go(func() {
				for {
					done := make(chan bool)
					go func() { defer close(done); typedCalls(t) }()
					<-done
					select {
					case <-over:
						return
					case <-time.After(200 * time.Millisecond):
					}
				}
			})
			out, messages, err := runBpftrace(t, r)
			close(over)
			calls.Wait()
			out = strings.Join(strings.Fields(out), " ")
			if !regexp.MustCompile("^"+tt.want+"$").MatchString(out) || err != nil || messages != "" {
				t.Errorf("printed %q, want %q; said %q, %v", out, tt.want, messages, err)
			}
		})
	}
}

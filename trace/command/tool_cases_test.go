package command

import (
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"culprit/symbol"
	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// toolWork is a program whose calls are known: its argument chooses.
const toolWork = `
#define _GNU_SOURCE
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
volatile unsigned long sink;
__attribute__((noinline)) void *spawned(void *x) { sink++; return x; }
__attribute__((noinline)) void leaky(void) { char *p = malloc(1000); p[1] = 1; sink += (unsigned long)p; }
__attribute__((noinline)) void tidy(void) { char *p = malloc(3000); p[1] = 1; sink += (unsigned long)p; p = realloc(p, 9000); sink += (unsigned long)p; free(p); }
__attribute__((noinline)) void both(pthread_mutex_t *x, pthread_mutex_t *y) { pthread_mutex_lock(x); pthread_mutex_lock(y); sink++; pthread_mutex_unlock(y); pthread_mutex_unlock(x); }
__attribute__((noinline)) void spin(void) { for (int i = 0; i < 1000; i++) sink = sink * 3 + i; }
int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	struct addrinfo *found = 0;
	pthread_t t;
	if (!strcmp(what, "naps")) for (int i = 0; i < 40; i++) usleep(3000);
	if (!strcmp(what, "threads")) for (int i = 0; i < 3; i++) { pthread_create(&t, 0, spawned, 0); pthread_join(t, 0); }
	if (!strcmp(what, "memory")) for (int i = 0; i < 25; i++) { leaky(); tidy(); }
	if (!strcmp(what, "locks")) for (int i = 0; i < 3; i++) { both(&a, &b); both(&b, &a); }
	if (!strcmp(what, "resolve")) for (int i = 0; i < 2; i++) { getaddrinfo("127.0.0.9", 0, 0, &found); }
	if (!strcmp(what, "ask")) for (int i = 0; i < 500; i++) sink += getppid();
	if (!strcmp(what, "spin")) { struct timespec t; do { spin(); clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); } while (t.tv_nsec < 400000000 && !t.tv_sec); }
	return 0;
}`

var own = map[string]string{"pid": "%d"}

var processCases = []toolCase{
	{tool: "execsnoop", do: started(3, "/bin/echo", "culprit-exec"),
		want: `^echo +\d+ +%d +0 /bin/echo culprit-exec$`, lines: 3},
	{tool: "execsnoop", given: map[string]string{"fails": "true", "line": "culprit-fails"},
		do: times(2, func() {
			os.StartProcess("/no/such/culprit-fails", nil, &os.ProcAttr{}) //nolint:errcheck // it fails
		}), want: ` 2 /no/such/culprit-fails$`, lines: 2},
	{tool: "exitsnoop", given: map[string]string{"failed": "true"}, do: started(2, "/bin/sh", "-c", "exit 77"),
		want: `^sh +\d+ +%d +\d+ +\d+\.\d{6} code 77$`, lines: 2},
	{tool: "exitsnoop", do: started(1, "/bin/sh", "-c", "kill -9 $$"),
		want: `^sh +\d+ +%d +\d+ +\d+\.\d{6} signal 9$`, lines: 1},
	{tool: "pidpersec", want: `^ +PROCESSES`, lines: 1}, // TestToolCountsProcesses
	{tool: "killsnoop", given: map[string]string{"pid": "%d", "signal": "18"}, do: times(5, func() {
		unix.Kill(os.Getpid(), unix.SIGCONT) //nolint:errcheck // it is traced
	}), want: `^%d +\S.* 18 +%d +0$`, lines: 5},
	{tool: "sigsnoop", given: map[string]string{"pid": "%d", "signal": "28"}, do: times(4, func() {
		unix.Kill(os.Getpid(), unix.SIGWINCH) //nolint:errcheck // it is traced
	}), want: `^%d +\S.* 28 +%d +\S+`, lines: 4},
	{tool: "setuids", given: own, do: times(3, func() {
		unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), ^uintptr(0), ^uintptr(0))
	}), want: `setresuid +ruid=-1 euid=-1 suid=-1 0$`, lines: 3},
	{tool: "capable", given: own, needs: "capability:cap_capable", do: times(3, func() {
		unix.Chroot("/") //nolint:errcheck // it is traced
	}), want: ` 18 +CAP_SYS_CHROOT +-?\d+$`, lines: 3},
	{tool: "loads", needs: "kernel:avenrun", want: `\d+\.\d\d +\d+\.\d\d`, lines: -1},
	{tool: "undump", given: own, do: func(t *testing.T, _ *toolCase) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		for range 3 {
			unix.Write(fds[0], []byte("culprit-undump")) //nolint:errcheck // it is traced
			unix.Read(fds[1], make([]byte, 100))         //nolint:errcheck // it is traced
		}
	}, want: `14 culprit-undump`, lines: 3},
	{tool: "naptime", given: own, do: times(3, func() {
		unix.Nanosleep(&unix.Timespec{Nsec: 7123456}, nil) //nolint:errcheck // it is traced
	}), want: ` 0\.007$`, lines: 3},
	{tool: "oomkill", needs: "oom:mark_victim", want: `^FPID`, lines: 1}, // nothing is killed
	{tool: "mountsnoop", given: own, do: times(2, func() {
		unix.Mount("culprit-source", "/no/such/target", "tmpfs", 0, "") //nolint:errcheck // it fails
	}), want: ` 2 +mount\("culprit-source", "/no/such/target", "tmpfs"\)`, lines: 2},
	{tool: "syscount", given: own, do: times(777, func() {
		unix.RawSyscall(unix.SYS_SCHED_GET_PRIORITY_MAX, 1, 0, 0)
	}), want: `^sched_get_priority_max +(\d+)$`, sum: 777},
	{tool: "syscount", given: map[string]string{"pid": "%d", "latency": "true", "failures": "true", "top": "100"},
		do: times(33, func() {
			unix.RawSyscall(unix.SYS_SCHED_GET_PRIORITY_MIN, 99, 0, 0)
		}), want: `^sched_get_priority_min +\d+ +(\d+)$`, sum: 33},
	{tool: "shmsnoop", given: own, do: times(2, func() {
		unix.SysvShmGet(0x43554c50, 4096, 0) //nolint:errcheck // there is none
	}), want: `shmget +0xf+ +2 +0x43554c50, 0x1000, 0x0$`, lines: 2},
}

var fileCases = []toolCase{
	{tool: "opensnoop", given: map[string]string{"pid": "%d", "failed": "true"}, do: times(6, func() {
		os.Open("/no/such/culprit-open") //nolint:errcheck // it fails
	}), want: `^%d +\S.* -1 +2 /no/such/culprit-open$`, lines: 6},
	{tool: "opensnoop", given: map[string]string{"timestamp": "true"}, do: started(2, "cat", "/proc/version"),
		want: `^ +\d+\.\d{6} \d+ +cat +\d+ +0 /proc/version$`, lines: 2},
	{tool: "opensnoop", given: map[string]string{"pid": "%d", "full-path": "true"},
		do: func(t *testing.T, _ *toolCase) {
			fd, err := unix.Open("/proc", unix.O_DIRECTORY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Close(fd)
			for range 3 {
				// A file that nothing else in this process reads.
				file, err := unix.Openat(fd, "sys/kernel/../kernel/domainname", unix.O_RDONLY, 0)
				if err != nil {
					t.Error(err)
				}
				unix.Close(file)
			}
		}, want: `^%d +\S.* \d+ +0 /proc/sys/kernel/domainname$`, lines: 3},
	{tool: "statsnoop", given: own, do: times(5, func() {
		unix.Stat("/no/such/culprit-stat", &unix.Stat_t{}) //nolint:errcheck // it fails
	}), want: ` 2 /no/such/culprit-stat$`, lines: 5},
	{tool: "syncsnoop", given: own, do: func(t *testing.T, _ *toolCase) {
		onFile(t, "culprit-sync", func(f *os.File) {
			f.Sync()                    //nolint:errcheck // it is traced
			unix.Fdatasync(int(f.Fd())) //nolint:errcheck // it is traced
		})
	}, want: ` (fsync|fdatasync) +/.*/culprit-sync$`, lines: 2},
	{tool: "fileslower", given: own, operands: []string{"0"}, do: func(t *testing.T, _ *toolCase) {
		onFile(t, "culprit-slow", func(f *os.File) {
			f.Write(make([]byte, 5000))       //nolint:errcheck // it is traced
			f.ReadAt(make([]byte, 4096), 100) //nolint:errcheck // it is traced
			f.ReadAt(make([]byte, 4096), 200) //nolint:errcheck // it is traced
		})
	}, want: ` (W +5000|R +4096) +\d+\.\d+ /.*/culprit-slow$`, lines: 3},
	{tool: "filetop", given: own, operands: []string{"1000"}, do: func(t *testing.T, _ *toolCase) {
		onFile(t, "culprit-top", func(f *os.File) {
			f.Write(make([]byte, 16<<10)) //nolint:errcheck // it is traced
			for range 4 {
				f.ReadAt(make([]byte, 8<<10), 0) //nolint:errcheck // it is traced
			}
		})
	}, want: ` +4 +1 +32 +16 +48 /.*/culprit-top$`, lines: 1},
	{tool: "ext4sync", given: own, needs: "ext4", do: func(t *testing.T, c *toolCase) {
		onFile(t, "sync", func(f *os.File) {
			for range 3 {
				f.Sync() //nolint:errcheck // it is traced
			}
		})
	}, want: `^ +\d+\.\d+ \S.* +%d +\d+\.\d{3} \d+$`, lines: -3},
	{tool: "cachestat", needs: "filemap:mm_filemap_get_pages and ext4", operands: []string{"0.1"},
		do: func(t *testing.T, _ *toolCase) {
			onFile(t, "cached", func(f *os.File) {
				f.Write(make([]byte, 64*4096)) //nolint:errcheck // it is traced
				for range 100 {
					f.ReadAt(make([]byte, 64*4096), 0) //nolint:errcheck // it is traced
				}
			})
			time.Sleep(250 * time.Millisecond)
		}, want: `^ +(\d+) +\d+ +\d+$`, sum: -6400},
	{tool: "writeback", needs: "ext4", do: func(t *testing.T, _ *toolCase) {
		onFile(t, "written", func(f *os.File) {
			f.Write(make([]byte, 64*4096)) //nolint:errcheck // it is traced
			unix.Syncfs(int(f.Fd()))       //nolint:errcheck // it is traced
		})
	}, want: ` sync +\d+\.\d{3}$`, lines: -1},
	{tool: "drsnoop", want: `^COMM`, lines: 1},
	{tool: "compactsnoop", needs: "compaction:mm_compaction_begin", want: `^COMM`, lines: 1},
	{tool: "filelife", do: removeFiles, want: `culprit-life$`, lines: 2},
	{tool: "vfsstat", given: own, operands: []string{"0.1"}, do: func(t *testing.T, _ *toolCase) {
		times(50, func() { os.ReadFile("/proc/version") })(t, nil) //nolint:errcheck // it is traced
		time.Sleep(250 * time.Millisecond)
	}, want: `^ +(\d+) +\d+ +\d+ +\d+ +\d+$`, sum: -50},
	{tool: "vfscount", given: own, do: times(50, func() {
		os.ReadFile("/proc/version") //nolint:errcheck // it is traced
	}), want: `^vfs_read +(\d+)$`, sum: -50},
	{tool: "ext4slower", given: own, operands: []string{"0"}, needs: "ext4", do: removeFiles,
		want: ` O +\d+\.\d{3} /.*/culprit-life$`, lines: 2},
	{tool: "ext4dist", given: own, needs: "ext4", do: removeFiles, want: `operation = ext4_file_open`,
		lines: 1},
	{tool: "dcsnoop", given: own, do: times(2, func() {
		os.Open("/tmp/culprit-missed-" + strconv.Itoa(os.Getpid())) //nolint:errcheck // it fails
	}), want: ` M culprit-missed-`, lines: -1},
	{tool: "swapin", want: `^COMM`, lines: -1},
}

// removeFiles creates and removes two files.
func removeFiles(t *testing.T, _ *toolCase) {
	for range 2 {
		name := filepath.Join(t.TempDir(), "culprit-life")
		os.WriteFile(name, []byte("x"), 0o600) //nolint:errcheck // it is traced
		os.Remove(name)                        //nolint:errcheck // it is traced
	}
}

// direct writes blocks of a size to a file past the page cache.
func direct(blocks, size int) func(*testing.T, *toolCase) {
	return func(t *testing.T, _ *toolCase) {
		onFile(t, "direct", func(f *os.File) {
			memory, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Munmap(memory)
			f.Write(memory) //nolint:errcheck // it prepares
			f.Sync()        //nolint:errcheck // it prepares
			fd, err := unix.Open(f.Name(), unix.O_RDWR|unix.O_DIRECT, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Close(fd)
			for i := range blocks {
				at := int64(i%4) * int64(128<<10)
				unix.Pwrite(fd, memory[:size], at) //nolint:errcheck // it is traced
			}
		})
	}
}

var diskCases = []toolCase{
	{tool: "biosnoop", needs: "ext4", do: direct(5, 28672),
		want: ` %d +\S+ +W +\d+ +28672 +\d+\.\d{3}$`, lines: 5},
	{tool: "biosnoop", given: map[string]string{"queue": "true"}, needs: "ext4", do: direct(4, 36864),
		want: ` %d +\S+ +W +\d+ +36864 +\d+\.\d{3} +\d+\.\d{3}$`, lines: 4},
	{tool: "biolatency", needs: "ext4", do: direct(20, 4096), want: `\|@* +(\d+) *$`, sum: -20},
	{tool: "biostacks", needs: "ext4", do: direct(20, 4096), want: `\|@* +(\d+) *$`, sum: -20},
	{tool: "bitesize", needs: "ext4", do: direct(20, 4096), want: `^ +4 \|@* +(\d+) *$`, sum: -20},
	{tool: "biotop", needs: "ext4", operands: []string{"1000"}, do: direct(20, 4096),
		want: `^%d +\S.* W +\S+ +(\d+) +\d+ +\d+$`, sum: -20},
	{tool: "biopattern", needs: "ext4", operands: []string{"0.1"}, do: func(t *testing.T, c *toolCase) {
		direct(20, 4096)(t, c)
		time.Sleep(200 * time.Millisecond)
	}, want: `^\S+ +(\d+) +\d+ +\d+$`, sum: -15},
	{tool: "seeksize", needs: "ext4", do: direct(20, 4096), want: `\|@* +(\d+) *$`, sum: -15},
}

// connections opens connections to a listener, each of which receives 51,200 bytes. Operands and
// options that are PORT become its port.
func connections(n int) func(*testing.T, *toolCase) {
	return func(t *testing.T, _ *toolCase) {
		l := toolListener
		for range n {
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			server, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			client.Write(make([]byte, 51200)) //nolint:errcheck // the end reads it
			for left := 51200; left > 0; {
				got, err := server.Read(make([]byte, 51200))
				if err != nil {
					t.Error(err)
					return
				}
				left -= got
			}
			client.Close()
			server.Read(make([]byte, 1)) //nolint:errcheck // it is the end
			server.Close()
		}
	}
}

// toolListener is the listener of connections, whose port no other test has.
var toolListener, toolPort = listening()

func listening() (net.Listener, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "0"
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return l, port
}

var netCases = []toolCase{
	{tool: "tcplife", given: map[string]string{"localport": toolPort}, do: connections(3),
		want: ` 127\.0\.0\.1 +` + toolPort + ` +127\.0\.0\.1 +\d+ +0 +50 \d+\.\d{3}$`, lines: -3},
	{tool: "tcpstates", given: map[string]string{"remoteport": toolPort}, do: connections(3),
		want: `state-syn-sent +-> state-established +\d+\.\d{3}$`, lines: -3},
	{tool: "tcpconnect", given: map[string]string{"port": toolPort}, do: connections(3),
		want: `^%d +\S.* 127\.0\.0\.1 +` + toolPort + `$`, lines: -3},
	{tool: "tcpconnect", given: map[string]string{"port": toolPort, "count": "true"}, do: connections(3),
		want: `^%d +\S.* 127\.0\.0\.1 +` + toolPort + ` +(\d+)$`, sum: -3},
	{tool: "tcpconnlat", given: own, do: connections(3),
		want: `^%d +\S.* 127\.0\.0\.1 +` + toolPort + ` +\d+\.\d{3}$`, lines: -3},
	{tool: "tcpaccept", given: map[string]string{"port": toolPort}, do: connections(3),
		want: `^%d +\S.* 127\.0\.0\.1 +\d+ +127\.0\.0\.1 +` + toolPort + `$`, lines: -3},
	{tool: "tcptop", given: own, operands: []string{"1000"}, needs: "sock:sock_send_length",
		do: connections(3), want: ` ` + toolPort + ` +127\.0\.0\.1 +\d+ +(\d+) +0$`, sum: -150},
	{tool: "tcprtt", given: map[string]string{"byladdr": "true"}, do: connections(3),
		want: `address = 127\.0\.0\.1`, lines: 1},
	{tool: "tcpdrop", needs: "skb:kfree_skb", do: func(t *testing.T, _ *toolCase) {
		for range 3 {
			if c, err := net.Dial("tcp", "127.0.0.1:9"); err == nil {
				c.Close()
			}
		}
	}, want: `127\.0\.0\.1:9 +\d+$`, lines: -3},
	{tool: "tcpretrans", do: retransmit, want: ` 127\.0\.0\.1 +\d+ +127\.0\.0\.1 +\d+ +state-`, lines: -1},
	{tool: "udpconnect", given: own, do: times(3, func() {
		if c, err := net.Dial("udp", "127.0.0.1:4321"); err == nil {
			c.Close()
		}
	}), want: `^%d +\S.* 4 +127\.0\.0\.1 +4321$`, lines: 3},
	{tool: "bindsnoop", given: map[string]string{"port": "54321"}, do: times(2, func() {
		if c, err := net.ListenPacket("udp4", "127.0.0.2:54321"); err == nil {
			c.Close()
		}
	}), want: `^%d +\S.* 2 +54321$`, lines: 2},
	{tool: "solisten", given: own, do: times(2, func() {
		if c, err := net.Listen("tcp4", "127.0.0.3:54322"); err == nil {
			c.Close()
		}
	}), want: `^%d +\S.* 2 +\d+ +54322 +0$`, lines: 2},
}

// retransmit connects to a listener whose queue is full: the SYN is sent again after a second.
func retransmit(t *testing.T, _ *toolCase) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer unix.Close(fd)
	at := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Bind(fd, at); err != nil {
		t.Error(err)
		return
	}
	unix.Listen(fd, 0) //nolint:errcheck // connect fails otherwise
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Error(err)
		return
	}
	for range 4 {
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(c)
		unix.Connect(c, name) //nolint:errcheck // it is in progress
	}
	time.Sleep(1300 * time.Millisecond)
}

var cpuCases = []toolCase{
	// A few of the 40 naps have no switch: their timer ended before the thread had left its CPU,
	// which happens where a hypervisor takes the CPU away at that moment.
	{tool: "runqlat", command: "naps", want: `\|@* +(\d+) *$`, sum: -30},
	{tool: "runqslower", command: "naps", operands: []string{"0"}, want: ` work +\d+ +\d+$`, lines: -30},
	{tool: "cpudist", command: "naps", want: `\|@* +(\d+) *$`, sum: -30},
	{tool: "cpudist", command: "naps", given: map[string]string{"offcpu": "true"},
		want: `^ +(?:[1-9]\d{4,}|2048|4096|8192) \|@* +(\d+) *$`, sum: -30},
	{tool: "offcputime", command: "naps", want: `^ +(\d+) us$`, sum: -90000},
	{tool: "offwaketime", command: "naps", want: ` -- woken by `, lines: -1},
	{tool: "wakeuptime", needs: "tool gcc", do: func(t *testing.T, _ *toolCase) {
		started(1, toolProgram, "naps")(t, nil)
	}, want: `target: work +\d+ us$`, lines: -1},
	{tool: "profile", command: "spin", given: map[string]string{"frequency": "199"},
		want: "^ +work`spin", lines: -1},
	{tool: "runqlen", given: map[string]string{"frequency": "199"}, do: times(1, func() {
		time.Sleep(200 * time.Millisecond)
	}), want: `\|@* +(\d+) *$`, sum: -10},
	{tool: "cpuwalk", given: map[string]string{"frequency": "199"}, do: times(1, func() {
		for start := time.Now(); time.Since(start) < 200*time.Millisecond; {
			syscall.Getppid()
		}
	}), want: `^\d+ +(\d+) +\d+$`, sum: -5},
	{tool: "hardirqs", given: map[string]string{"count": "true"}, want: `^HARDIRQ +COUNT$`, lines: 1},
	{tool: "softirqs", given: map[string]string{"count": "true"}, do: connections(10),
		want: `^net_rx +(\d+)$`, sum: -10},
	{tool: "softirqs", given: map[string]string{"dist": "true"}, do: connections(10),
		want: `^softirq = net_rx \(us\)`, lines: 1},
	{tool: "wqlat", needs: "ext4", do: direct(20, 4096), want: `^time in us$`, lines: 1},
}

var userCases = []toolCase{
	{tool: "funccount", command: "ask", operands: []string{"c:getppid"}, want: `^getppid +(\d+)$`, sum: 500},
	{tool: "funccount", given: own, operands: []string{"t:syscalls:sys_enter_getpgid"}, do: times(321, func() {
		unix.Getpgid(0) //nolint:errcheck // it is traced
	}), want: `^getpgid +(\d+)$`, sum: -321},
	{tool: "funclatency", command: "naps", operands: []string{"c:usleep"},
		want: `^avg = [3-9]\d{6,} ns, count = (\d+)$`, sum: 40},
	{tool: "funcslower", command: "naps", operands: []string{"c:usleep"}, want: ` usleep$`, lines: 40},
	{tool: "stackcount", command: "ask", operands: []string{"c:getppid"},
		given: map[string]string{"user-stacks-only": "true"}, want: `^ +(\d+)$`, sum: 500},
	{tool: "argdist", command: "naps", operands: []string{"c:usleep", "arg0"}, want: `^ +3000 +(\d+)$`, sum: 40},
	{tool: "threadsnoop", command: "threads", want: "^\\d+ +\\d+ +work +work`spawned$", lines: 3},
	{tool: "memleak", command: "memory", want: `^ +25000 bytes in 25 allocations$`, lines: 1},
	{tool: "deadlock", command: "locks", want: `^pid \d+ work: .* in the other order:$`, lines: 1},
	{tool: "gethostlatency", command: "resolve", want: ` work +\d+\.\d{3} 127\.0\.0\.9$`, lines: 2},
	{tool: "bashreadline", needs: "tool bash", do: typed, want: `^ +\d+\.\d{6} \d+ +echo culprit-readline$`,
		lines: 1},
	{tool: "sslsniff", needs: "tool openssl", do: encrypted,
		want: `^WRITE .* openssl +\d+ +15 +culprit-secret\\n$`, lines: 1},
	{tool: "pythoncalls", needs: "tool /usr/bin/python3", prepare: needsUSDT, do: calledPython,
		want: `one.py +one +(\d+)$`, sum: 1234},
	{tool: "phpcalls", needs: "tool php", prepare: needsPHP, do: calledPHP,
		want: `one.php +Sum +one +(\d+)$`, sum: 1234},
	{tool: "dbslower", needs: "tool postgres", operands: []string{"postgres"}, want: `^TIME`, lines: 1},
	{tool: "javagc", needs: "tool java", want: `^ +\d+\.\d{6} \d+ +\d+\.\d{3} [01]$`, lines: -3,
		prepare: startJava, do: times(1, func() { time.Sleep(500 * time.Millisecond) })},
}

// typed types a line into a shell that reads lines by readline().
func typed(t *testing.T, _ *toolCase) {
	c := exec.Command("/bin/bash", "--norc", "--noprofile", "-i")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Stdin = strings.NewReader("echo culprit-readline\nexit\n")
	c.Run() //nolint:errcheck // its status is that of the last line
}

// encrypted sends a line by openssl to a server.
func encrypted(t *testing.T, _ *toolCase) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	c := exec.Command("openssl", "s_client", "-quiet", "-no_ign_eof", "-connect",
		server.Listener.Addr().String())
	c.Stdin = strings.NewReader("culprit-secret\n")
	c.Run() //nolint:errcheck // the server refuses the request
}

// needsUSDT skips the case when this Python has no probes.
func needsUSDT(t *testing.T, _ *toolCase) {
	if !symbol.HasNotes("/usr/bin/python3") {
		t.Skip("needs: tool python3 with USDT probes")
	}
}

// calledPython runs a Python program that calls a function 1234 times.
func calledPython(t *testing.T, _ *toolCase) {
	name := filepath.Join(t.TempDir(), "one.py")
	const text = "def one(x): return x + 1\nfor i in range(1234): one(i)\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("/usr/bin/python3", name).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// needsPHP skips the case when this PHP has no probes.
func needsPHP(t *testing.T, _ *toolCase) {
	program, err := exec.LookPath("php")
	if err != nil {
		t.Fatal(err)
	}
	if !symbol.HasNotes(program) {
		t.Skip("needs: tool php with USDT probes")
	}
}

// calledPHP runs a PHP program that calls a method 1234 times.
func calledPHP(t *testing.T, _ *toolCase) {
	name := filepath.Join(t.TempDir(), "one.php")
	const text = `<?php class Sum { function one($x) { return $x + 1; } }
		$s = new Sum; for ($i = 0; $i < 1234; $i++) $s->one($i);`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("php", name)
	c.Env = append(os.Environ(), "USE_ZEND_DTRACE=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// startJava starts a Java program that collects garbage, and waits until it runs.
func startJava(t *testing.T, c *toolCase) {
	name := filepath.Join(t.TempDir(), "Work.java")
	const text = `public class Work { public static void main(String[] a) throws Exception {
		System.out.println("runs");
		for (int i = 0; i < 3000; i++) { System.gc(); Thread.sleep(20); } } }`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	java := exec.Command("java", "-XX:+UseSerialGC", "-Xmx64m", name)
	in, out := tracetest.Pipe(t, java)
	t.Cleanup(func() {
		in.Close()
		java.Process.Kill() //nolint:errcheck // it may have ended
		java.Wait()         //nolint:errcheck // it was killed
	})
	if _, err := out.Read(make([]byte, 8)); err != nil { // it runs
		t.Fatal(err)
	}
}

package command

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// shell runs a shell's commands below this process.
func shell(t *testing.T, text string) {
	t.Helper()
	if out, err := exec.Command("/bin/sh", "-c", text).CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", text, err, out)
	}
}

// Each step in the life of a process fires its probe once, with the right process.
func TestProcessProbes(t *testing.T) {
	const shells, kills, missing = 9, 3, 4
	shell(t, "exit 0") // before its first program, Go makes a process to see what the kernel can
	_, out, errs := traced(t, program(`
		proc:::create /pid == $pid && args[0]->pr_ppid == $pid/ { @["create"] = count(); }
		proc:::start /ppid == $pid && pid == tid/ { @["start"] = count(); self->started = timestamp; }
		proc:::start /ppid == $pid && curpsinfo->pr_pid != pid/ { @["another"] = count(); }
		proc:::exec /ppid == $pid && self->started && args[0] == "/bin/sh"/ { @["exec"] = count(); }
		proc:::exec-success /ppid == $pid && self->started && execname == "sh"/ { @["success"] = count(); }
		proc:::exec-failure /progenyof($pid) && args[0] == ENOENT && errno == ENOENT/ { @["failure"] = count(); }
		proc:::exit /ppid == $pid && self->started && args[0] == CLD_EXITED/ { @["exit"] = count(); }
		proc:::exit /ppid == $pid && self->started && (args[0] == CLD_KILLED || arg0 == CLD_DUMPED)/ { @["killed"] = count(); }
		proc:::lwp-start /ppid == $pid && pid == tid/ { @["lwp-start"] = count(); }
		proc:::lwp-create /pid == $pid && args[1]->pr_pid == pid && args[0]->pr_lwpid != pid/ { @["thread"] = count(); }
		proc:::lwp-start /pid == $pid && curlwpsinfo->pr_lwpid == tid && tid != pid/ { @["thread begun"] = count(); }
		proc:::signal-send /args[1]->pr_ppid == $pid && arg2 == SIGKILL/ { @["kill sent"] = count(); }
		END { printa("%%s %%@d\n", @); }`), func() {
		for range shells {
			shell(t, "exit 0")
		}
		for range kills {
			if err := exec.Command("/bin/sh", "-c", "kill -9 $$").Run(); err == nil {
				t.Error("a shell that killed itself ended well")
			}
		}
		for range missing {
			shell(t, "/no/such/program 2>/dev/null || true")
		}
		done := make(chan bool)
		go func() { // the thread ends with the goroutine, and another one must come to be
			runtime.LockOSThread()
			close(done)
		}()
		<-done
		go runtime.LockOSThread()
		shell(t, "exit 0")
	})
	if errs != "" {
		t.Error(errs)
	}
	got := answers(t, out)
	all := int64(shells + kills + missing + 1)
	expect(t, got, map[string]int64{
		"create": all, "start": all, "another": 0, "lwp-start": all, "exec": all, "success": all, "exit": all - kills, "killed": kills, "kill sent": kills,
		"failure": missing,
	})
	// one may come to be while programs are taken off
	if d := got["thread"] - got["thread begun"]; d < -2 || d > 2 {
		t.Errorf("%d threads were made, and %d began", got["thread"], got["thread begun"])
	}
	if got["thread"] == 0 {
		t.Log("no thread came to be meanwhile")
	}
}

// Signals fire probes when they are sent, discarded, handled and waited for, and so do faults that
// the processor reports.
func TestSignalProbes(t *testing.T) {
	const sent, ignored, handled, faults = 30, 5, 6, 2
	_, out, errs := traced(t, program(`
		proc:::signal-send /pid == $pid && args[2] == %d && args[1]->pr_pid == $pid/ { @["sent"] = count(); }
		proc:::signal-discard /progenyof($pid) && args[2] == SIGUSR2 && execname == "sh"/ { @["discarded"] = count(); }
		proc:::signal-handle /progenyof($pid) && args[0] == SIGUSR1 && args[2] && execname == "sh"/ { @["handled"] = count(); }
		proc:::signal-send /progenyof($pid) && args[2] == SIGSEGV && pid == args[1]->pr_pid/ { @["by itself"] = count(); }
		proc:::fault /progenyof($pid)/ { @["faults"] = count(); }
		END { printa("%%s %%@d\n", @); }`, unix.SIGURG), func() {
		for range sent {
			if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGURG); err != nil {
				t.Error(err)
			}
		}
		shell(t, fmt.Sprintf("trap '' USR2; for i in $(seq %d); do kill -USR2 $$; done", ignored))
		shell(t, fmt.Sprintf("trap ':' USR1; for i in $(seq %d); do kill -USR1 $$; done", handled))
		for range faults {
			exec.Command("/bin/sh", "-c", "kill -SEGV $$").Run() //nolint:errcheck // it is killed
		}
	})
	if errs != "" {
		t.Error(errs)
	}
	got := answers(t, out)
	// kill is no fault
	expect(
		t,
		got,
		map[string]int64{
			"discarded": ignored,
			"handled":   handled,
			"by itself": faults,
			"faults":    0,
		},
	)
	// Go's scheduler sends itself such signals too
	if got["sent"] < sent {
		t.Errorf("%d signals were reported, and %d sent", got["sent"], sent)
	}
}

// In sched:::on-cpu the current thread is the one that gets the CPU.
//
// Some kernels run no program while certain threads run, such as process 1 of a small virtual
// machine, and count no miss. So a count may be too small, and the test then repeats it.
func TestSchedulerProbes(t *testing.T) {
	var wrong []string
	for range 6 {
		if wrong = schedulerProbes(t); len(wrong) == 0 {
			return
		}
		t.Log(strings.Join(wrong, "; "))
	}
	t.Error("not once what it should be: ", strings.Join(wrong, "; "))
}

// schedulerProbes returns a list of wrong counts.
func schedulerProbes(t *testing.T) (wrong []string) {
	const naps = 40
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ready, begin, done := make(chan int), make(chan bool), make(chan bool)
	go func() {
		runtime.LockOSThread()
		ready <- unix.Gettid()
		<-begin
		for range naps {
			unix.ClockNanosleep(
				unix.CLOCK_MONOTONIC, 0, &unix.Timespec{Nsec: 1e6}, nil,
			) //nolint:errcheck // a shorter nap is one too
		}
		close(done)
	}()
	tid := <-ready
	_, out, errs := traced(t, program(`
		sched:::off-cpu { self->off = timestamp; self->who = tid; }
		sched:::on-cpu /self->off && (self->who != tid || curthread->pid != tid || curthread->tgid != pid || curlwpsinfo->pr_lwpid != tid)/ { @["strangers"] = sum(1); }
		sched:::on-cpu /self->off && tid == %[1]d/ { @["on"] = sum(1); @["away"] = sum(timestamp - self->off); self->on = vtimestamp; }
		sched:::on-cpu /self->off && tid == %[1]d && execname == curthread->comm && uid == %[2]d && ppid == $ppid && stackdepth > 0/ { @["known"] = sum(1); }
		sched:::on-cpu { self->off = 0; }
		sched:::off-cpu /self->on && tid == %[1]d && vtimestamp < self->on/ { @["backwards"] = sum(1); }
		sched:::off-cpu /tid == %[1]d/ { @["off"] = sum(1); }
		sched:::off-cpu /args[0]->pr_lwpid == %[1]d && args[1]->pr_pid == $pid/ { @["announced"] = sum(1); }
		sched:::sleep /tid == %[1]d/ { @["sleeps"] = sum(1); }
		sched:::preempt /tid == %[1]d/ { @["preempted"] = sum(1); }
		sched:::wakeup /args[0]->pr_lwpid == %[1]d/ { @["woken"] = sum(1); }
		sched:::enqueue /args[0]->pr_lwpid == %[1]d && args[2]->cpu_id >= 0 && args[1]->pr_pid == $pid/ { @["enqueued"] = sum(1); }
		sched:::dequeue /args[0]->pr_lwpid == %[1]d/ { @["dequeued"] = sum(1); }
		sched:::tick { @["ticks"] = sum(1); }
		END { printa("%%s %%@d\n", @); }`, tid, os.Getuid()), func() {
		close(begin)
		<-done
	})
	if errs != "" {
		say("%s", errs)
	}
	got := answers(t, out)
	expect(t, got, map[string]int64{"strangers": 0, "backwards": 0, "known": got["on"]})
	if n := got["sleeps"]; n < naps {
		say("%d sleeps, want at least %d", n, naps)
	}
	// Programs are attached one after the other, and it is taken off while the thread may be
	// anywhere.
	for _, pair := range [][2]string{{"on", "off"}, {"announced", "off"}, {"enqueued", "dequeued"}} {
		if d := got[pair[0]] - got[pair[1]]; d < -2 || d > 2 {
			say("%s %d, %s %d", pair[0], got[pair[0]], pair[1], got[pair[1]])
		}
	}
	if got["woken"] < naps { // more often when it is woken before it sleeps
		say("woken %d times, of %d sleeps", got["woken"], got["sleeps"])
	}
	if d := got["sleeps"] + got["preempted"] - got["off"]; d < -2 || d > 2 {
		say(
			"%d sleeps and %d preemptions, but %d times off the CPU", got["sleeps"],
			got["preempted"], got["off"],
		)
	}
	if got["away"] < naps*int64(time.Millisecond)*9/10 {
		say("away for %v, want %d naps of 1 ms", time.Duration(got["away"]), naps)
	}
	return wrong
}

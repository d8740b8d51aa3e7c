package facts

import (
	"slices"
	"strings"
)

// CrashLoop is the subject of a finding about a program that fails again and again.
type CrashLoop struct {
	Process string
	Ends    map[string]float64 // how often, by process.failures' end
	Cgroups []string           // of the processes, or of their parents
}

// KilledIn reports whether most of the processes were killed in a control group, or in one below
// it; "" is the whole machine.
func (c CrashLoop) KilledIn(cgroup string) bool {
	all := 0.0
	for _, n := range c.Ends {
		all += n
	}
	return c.Ends["SIGKILL"] >= all/2 && (cgroup == "" ||
		slices.ContainsFunc(c.Cgroups, func(g string) bool {
			return g == cgroup || Below(g, cgroup)
		}))
}

// CrashMeaning returns what a signal that a faulty program gets means; "" for other ends.
func CrashMeaning(end string) string {
	switch end {
	case "SIGSEGV":
		return "an access to memory that it does not have"
	case "SIGBUS":
		return "an access to memory that cannot be read, as of a file that became shorter"
	case "SIGABRT":
		return "it aborted itself, as after a failed assertion"
	case "SIGFPE":
		return "an invalid calculation, as a division by 0"
	case "SIGILL":
		return "an instruction that this processor does not have"
	case "SIGTRAP":
		return "a trap, as of a failed check"
	case "SIGSYS":
		return "a system call that its filter (seccomp) forbids"
	case "SIGXCPU":
		return "its limit of CPU time"
	case "SIGXFSZ":
		return "its limit of the size of files"
	}
	return ""
}

// table: names of programs that start services again when these end; the kernel cuts a name after
// 15 bytes. A name that ends with * is a beginning.
var supervisors = []string{"systemd", "init", "containerd-shim*", "conmon", "docker-init", "tini",
	"dumb-init", "catatonit", "runsv", "s6-supervise", "supervise", "supervise-daemo",
	"supervisord", "monit", "PM2*", "circusd", "procd", "perpd", "god", "nomad", "upstart",
	"daemon"}

// IsSupervisor reports whether a program starts services again when these end. What other programs
// start may fail by design: a shell that runs grep expects code 1.
func IsSupervisor(process string) bool {
	return slices.ContainsFunc(supervisors, func(name string) bool {
		begin, some := strings.CutSuffix(name, "*")
		return process == begin || some && strings.HasPrefix(process, begin)
	})
}

// IsContainerRuntime reports whether a program starts what runs in a container: the container
// itself, and commands in it, such as checks of its health.
func IsContainerRuntime(process string) bool {
	return strings.HasPrefix(process, "containerd-shim") || process == "conmon"
}

// table: programs that answer a question with the code with which they end. A name that ends with *
// is a beginning.
var answering = []string{"test", "[", "grep", "egrep", "fgrep", "zgrep", "rg", "diff", "cmp",
	"pgrep", "pidof", "pkill", "kill", "killall", "which", "expr", "false", "let", "ping*", "fping",
	"arping", "nc", "ncat", "curl", "wget", "dig", "host", "nslookup", "getent", "mountpoint",
	"systemctl", "pg_isready", "mysqladmin", "redis-cli", "fuser", "lsof", "flock", "timeout",
	"git",
	"dpkg*", "rpm", "id", "tty", "stty", "ls", "stat", "cat", "cp", "rm", "mkdir", "rmdir", "cc",
	"cc1*", "gcc*", "g++*", "clang*", "ld", "ld.*", "collect2", "conftest"}

// AnswersByCode reports whether a program answers a question with its code: grep ends with 1 where
// it found nothing.
func AnswersByCode(process string) bool {
	return slices.ContainsFunc(answering, func(name string) bool {
		begin, some := strings.CutSuffix(name, "*")
		return process == begin || some && strings.HasPrefix(process, begin)
	})
}

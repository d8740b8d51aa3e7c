package confine

import (
	"fmt"
	"os"
	"slices"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// The lists contain allowed system calls. Any other one fails with EPERM, and so does each one of
// another architecture. Names that an architecture does not have are left out.

// common is what every process needs: Go's runtime, files that are open, pipes and sockets.
func common() []string {
	return []string{
		"arch_prctl", "brk", "capget", "clock_getres", "clock_gettime", "clock_nanosleep",
		"close", "dup", "dup3", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2",
		"epoll_wait", "eventfd2", "exit", "exit_group", "fcntl", "fstat", "fstatfs", "futex",
		"getcwd", "getdents64", "getegid", "geteuid", "getgid", "getgroups", "getitimer",
		"getpeername", "getpgrp", "getpid", "getppid", "getpriority", "getrandom", "getresgid",
		"getresuid", "getrlimit", "getrusage", "getsockname", "getsockopt", "gettid",
		"gettimeofday", "getuid", "lseek", "madvise", "membarrier", "mincore", "mmap",
		"mprotect", "mremap", "munmap", "nanosleep", "newfstatat", "pidfd_open", "pipe2", "poll",
		"ppoll", "prctl", "pread64", "preadv", "prlimit64", "read", "readlink", "readlinkat",
		"readv", "recvfrom", "recvmmsg", "recvmsg", "restart_syscall", "rseq", "rt_sigaction",
		"rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sched_getaffinity", "sched_yield",
		"sendmmsg", "sendmsg", "sendto", "set_robust_list", "setitimer", "setrlimit",
		"setsockopt", "shutdown", "sigaltstack", "socketpair", "stat", "statfs", "statx",
		"sysinfo", "timer_create", "timer_delete", "timer_settime", "times", "umask", "uname",
		"write", "writev", "access", "faccessat", "faccessat2", "lstat", "fadvise64", "getpgid",
		"getsid",
	}
}

// forServer is what the server needs too: its archive, and connections.
func forServer() []string {
	return []string{
		"accept", "accept4", "bind", "chdir", "chmod", "connect", "copy_file_range", "fallocate",
		"fchdir", "fchmod", "fchmodat", "fdatasync", "flock", "fsync", "ftruncate", "link",
		"linkat", "listen", "mkdir", "mkdirat", "open", "openat", "pwrite64", "pwritev",
		"rename", "renameat", "renameat2", "rmdir", "sendfile", "splice", "sync_file_range",
		"truncate", "unlink", "unlinkat", "utimensat",
	}
}

// forRecorder is what the recorder needs too: BPF, perf events, network namespaces, memory of other
// processes, and messages of the kernel.
func forRecorder() []string {
	return []string{
		"bind", "bpf", "connect", "ioctl", "kcmp", "memfd_create", "mlock", "munlock",
		"name_to_handle_at", "perf_event_open", "process_vm_readv", "sched_getattr",
		"sched_getparam", "sched_getscheduler", "sched_setaffinity", "setns", "syslog",
		"getxattr", "inotify_add_watch", "inotify_init1", "inotify_rm_watch", "listmount",
		"statmount",
	}
}

// forWorker is all that a worker needs: Go's runtime, and reading and writing what is open. It
// cannot open, connect or start anything.
func forWorker() []string {
	return []string{
		"brk", "clock_getres", "clock_gettime", "clock_nanosleep", "close", "epoll_create1",
		"epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd2", "exit",
		"exit_group", "fcntl", "fstat", "futex", "getpid", "getrandom", "getrusage", "gettid",
		"gettimeofday", "madvise", "membarrier", "mincore", "munmap", "nanosleep", "pipe2", "poll",
		"ppoll", "read", "readv", "restart_syscall", "rseq", "rt_sigaction", "rt_sigprocmask",
		"rt_sigreturn", "sched_getaffinity", "sched_yield", "set_robust_list", "setitimer",
		"sigaltstack", "timer_create", "timer_delete", "timer_settime", "write", "writev",
	}
}

// WorkerCalls limits this process to the system calls of a worker: it can use what is open, take
// memory that is not executable, and start threads. The error is as that of ServerCalls.
func WorkerCalls() error {
	return allow(forWorker(), []seccomp.NameWithConditions{
		arg("mmap", 2, seccomp.BitsNotSet, unix.PROT_EXEC),
		arg("mprotect", 2, seccomp.BitsNotSet, unix.PROT_EXEC),
	})
}

// namespaceFlags are the flags of clone(2) that make namespaces.
const namespaceFlags = unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET |
	unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWUTS

// writeFlags are the flags of open(2) by which files are changed or made.
const writeFlags = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

// arg is a condition on an argument of a system call.
func arg(name string, n uint32, op seccomp.Operation, v uint64) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{
		Name:       name,
		Conditions: seccomp.ArgumentConditions{{Argument: n, Operation: op, Value: v}},
	}
}

// sockets allows socket(2) for address families.
func sockets(families ...uint64) (all []seccomp.NameWithConditions) {
	for _, f := range families {
		all = append(all, arg("socket", 0, seccomp.Equal, f))
	}
	return all
}

// ServerCalls limits this process to the system calls of the server: no other program, no BPF, no
// look into processes, no sockets but those of unix and IP. The error says that the kernel or the
// architecture has no filters.
func ServerCalls() error {
	with := sockets(unix.AF_UNIX, unix.AF_INET, unix.AF_INET6)
	for _, request := range []uint64{unix.TCGETS, unix.TIOCGWINSZ} {
		with = append(with, arg("ioctl", 1, seccomp.Equal, request))
	}
	return allow(slices.Concat(common(), forServer()), with)
}

// RecorderCalls limits this process to the system calls of the recorder: no other program, no
// sockets but those of unix and netlink, no file is made, changed or opened for writing. tracefs
// permits writing, which old kernels need for probes. The error is as that of ServerCalls.
func RecorderCalls(tracefs bool) error {
	with := sockets(unix.AF_UNIX, unix.AF_NETLINK)
	names := slices.Concat(common(), forRecorder())
	if tracefs {
		names = append(names, "open", "openat")
	} else {
		with = append(with,
			arg("open", 1, seccomp.BitsNotSet, writeFlags),
			arg("openat", 2, seccomp.BitsNotSet, writeFlags))
	}
	return allow(names, with)
}

// allow installs a filter in all threads.
func allow(names []string, with []seccomp.NameWithConditions) error {
	info, err := arch.GetInfo("")
	if err != nil || len(info.SyscallNames) == 0 {
		return fmt.Errorf("limit the system calls: no list of this architecture: %w", err)
	}
	with = append(with,
		arg("clone", 0, seccomp.BitsNotSet, namespaceFlags),
		arg("tgkill", 0, seccomp.Equal, uint64(os.Getpid()))) // Go preempts its threads by signals
	missing := func(name string) bool { _, ok := info.SyscallNames[name]; return !ok }
	group := seccomp.SyscallGroup{
		Action: seccomp.ActionAllow,
		Names:  slices.DeleteFunc(names, missing),
		NamesWithCondtions: slices.DeleteFunc(with, func(n seccomp.NameWithConditions) bool {
			return missing(n.Name)
		}),
	}
	groups := []seccomp.SyscallGroup{group}
	if !missing("clone3") {
		// Its flags are in memory, where a filter cannot read them. After ENOSYS C libraries use
		// clone.
		groups = append(groups, seccomp.SyscallGroup{
			Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: []string{"clone3"},
		})
	}
	err = seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true,
		Flag:       seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{
			DefaultAction: seccomp.ActionErrno, // EPERM
			Syscalls:      groups,
		},
	})
	if err != nil {
		return fmt.Errorf("limit the system calls: %w", err)
	}
	return nil
}

package facts

import (
	"slices"
	"strconv"
	"strings"

	"culprit/diagnose"
)

// A Failure is a class of system calls that fail because something is used up, refused or broken.
// Errors that healthy programs get all day, such as ENOENT, are in none.
type Failure struct {
	Error  string
	Calls  []string // beginnings of the names of system calls; nil: all but Except
	Except []string // beginnings of names
	Means  string   // what it means, as the end of a sentence
	Verify string   // a command; %d: the process
}

// Failures returns the classes. A call belongs to the first that has it.
func Failures() []Failure {
	memory := []string{"mmap", "mremap", "mprotect", "mlock", "shmat", "clone", "fork", "vfork",
		"io_setup", "io_uring_setup", "execve"}
	files := []string{"read", "write", "pread", "pwrite", "open", "fsync", "fdatasync", "msync",
		"sync", "ftruncate", "truncate", "fallocate", "getdents", "stat", "fstat", "newfstat",
		"statx", "rename", "unlink", "mkdir", "link", "sendfile", "copy_file_range", "lseek"}
	tasks := []string{"clone", "fork", "vfork"}
	return []Failure{
		{Error: "EMFILE", Calls: []string{"inotify_init"},
			Means:  "its user may not have more inotify instances",
			Verify: "sysctl fs.inotify.max_user_instances"},
		{Error: "ENOSPC", Calls: []string{"inotify_add_watch"},
			Means:  "its user may not have more inotify watches",
			Verify: "sysctl fs.inotify.max_user_watches"},
		{Error: "ENOSPC", Calls: []string{"semget", "shmget", "msgget", "mq_open"},
			Means:  "there may not be more objects of its kind in this IPC namespace",
			Verify: "ipcs -l; ipcs -u; grep -r . /proc/sys/fs/mqueue"},
		{Error: "ENOMEM", Calls: memory, Means: "the memory that it asks for is refused",
			Verify: "wc -l /proc/%[1]d/maps; sysctl vm.max_map_count vm.overcommit_memory; " +
				"grep -E 'address|locked|data' /proc/%[1]d/limits"},
		{Error: "EAGAIN", Calls: tasks,
			Means: "its user or its control group may not have more processes and threads",
			Verify: "grep processes /proc/%[1]d/limits; ps -L -u $(stat -c %%u /proc/%[1]d) | " +
				"wc -l; cat /proc/%[1]d/cgroup"},
		{Error: "EAGAIN", Calls: []string{"io_setup"},
			Means:  "the requests of asynchronous I/O of the machine are used up",
			Verify: "sysctl fs.aio-nr fs.aio-max-nr"},
		{Error: "EFBIG", Means: "the file would be larger than its limit",
			Verify: "grep 'file size' /proc/%[1]d/limits"},
		{Error: "EDQUOT", Calls: []string{"add_key", "request_key", "keyctl"},
			Means: "its user may not have more keys", Verify: "cat /proc/key-users"},
		{Error: "EDQUOT", Means: "a quota of its user is used up",
			Verify: "quota -u $(stat -c %%u /proc/%[1]d)"},
		{Error: "ENOSPC", Except: []string{"bpf", "perf_event_open"},
			Means:  "there is no space left where it writes, or none of what it asks for",
			Verify: "ls -l /proc/%[1]d/fd; df -h; df -i"},
		{Error: "EMFILE", Except: []string{"perf_event_open"},
			Means:  "it may not open more files",
			Verify: "ls /proc/%[1]d/fd | wc -l; grep 'open files' /proc/%[1]d/limits"},
		{Error: "ENFILE", Means: "the machine may not open more files",
			Verify: "cat /proc/sys/fs/file-nr"},
		{Error: "EADDRINUSE", Calls: []string{"bind", "listen"},
			Means: "the port or the path that it asks for is taken, or no local port is left",
			Verify: "ss -tulnp; sysctl net.ipv4.ip_local_port_range; " +
				"nsenter -t %[1]d -n ss -s"},
		{Error: "EADDRNOTAVAIL", Calls: []string{"bind", "connect"},
			Means:  "it asks for an address that this machine does not have, or no port is left",
			Verify: "nsenter -t %[1]d -n ip -br addr; nsenter -t %[1]d -n ss -s"},
		{Error: "EAGAIN", Calls: []string{"connect"},
			Means: "no local port is left for it, or an AF_UNIX socket accepts no more",
			Verify: "nsenter -t %[1]d -n ss -s; sysctl net.ipv4.ip_local_port_range; " +
				"nsenter -t %[1]d -n ss -xl"},
		{Error: "ECONNREFUSED", Calls: []string{"connect"},
			Means:  "nobody listens at the AF_UNIX socket that it connects to",
			Verify: "culprit trace -n 'syscall::connect:entry /pid == %[1]d/ { ustack(); }'"},
		{Error: "ENOBUFS", Means: "a queue or a buffer of the network is full",
			Verify: "ip -s link; tc -s qdisc"},
		{Error: "ENOLCK", Means: "file locks are used up, or the file server refuses them",
			Verify: "grep locks /proc/%[1]d/limits; wc -l /proc/locks"},
		{Error: "EIO", Calls: files, Means: "the device or the file system reports an error",
			Verify: "dmesg | tail -50; ls -l /proc/%[1]d/fd"},
		{Error: "ESTALE", Means: "the file server no longer knows the file",
			Verify: "ls -l /proc/%[1]d/fd; grep nfs /proc/mounts"},
		{Error: "EUCLEAN", Means: "the file system is damaged", Verify: "dmesg | tail -50"},
		{Error: "EBADMSG", Calls: files, Means: "the file system or the device is damaged",
			Verify: "dmesg | tail -50"},
	}
}

// FailureOf returns the index of the class of a row of syscall.count by error; -1: none.
func FailureOf(all []Failure, r *diagnose.Row) int {
	begins := func(prefix string) bool { return strings.HasPrefix(r.Word("syscall"), prefix) }
	return slices.IndexFunc(all, func(f Failure) bool {
		return r.Word("error") == f.Error &&
			(f.Calls == nil || slices.ContainsFunc(f.Calls, begins)) &&
			!slices.ContainsFunc(f.Except, begins)
	})
}

// FailingCalls is the subject of a finding about system calls of a program that fail.
type FailingCalls struct {
	Failure Failure
	Program Program
	Rate    float64 // per second
}

// Explained reports whether failed calls with another cause include some of these.
func (f FailingCalls) Explained(rows []*diagnose.Row) bool {
	return slices.ContainsFunc(rows, func(r *diagnose.Row) bool {
		pid, _ := strconv.Atoi(r.Word("pid"))
		return r.Word("error") == f.Failure.Error && f.Program.Has(pid)
	})
}

package trace

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ProcessMacros returns the macro variables that describe this process: $pid, $uid ...
func ProcessMacros() map[string]string {
	out := map[string]string{}
	for name, n := range map[string]int{
		"pid": os.Getpid(), "ppid": os.Getppid(), "uid": os.Getuid(), "euid": os.Geteuid(), "gid": os.Getgid(), "egid": os.Getegid(),
		"pgid": unix.Getpgrp(), "projid": 0, "taskid": os.Getpid(),
	} {
		out[name] = strconv.Itoa(n)
	}
	if n, err := unix.Getsid(0); err == nil {
		out["sid"] = strconv.Itoa(n)
	}
	return out
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const forms = "needs: root | needs: cap:NAME | needs: kernel feature NAME | needs: tool NAME | " +
	"needs: quiet machine (words may follow)"

// A machine is what a skip's reason is held against.
type machine struct {
	root bool
	caps uint64                 // effective capabilities, a bit each
	tool func(name string) bool // is it installed
}

// host reads what this process may do, from proc_pid_status(5), and looks for tools on PATH and in
// the two folders of system tools that an ordinary user's PATH may lack.
func host() machine {
	m := machine{root: os.Geteuid() == 0, tool: installed}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(status)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			m.caps, _ = strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		}
	}
	return m
}

func installed(name string) bool {
	if _, err := exec.LookPath(name); err == nil {
		return true
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

var (
	// logged matches what t.Skip and t.Log print: an indented file:line and the text.
	logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)$`)
	need   = regexp.MustCompile(
		`^needs: (root|cap:(\w+)|kernel feature (\S+)|tool ([\w.+-]+)|quiet machine)(?:[^\w].*)?$`,
	)
)

// reason finds the reason of a skip in a test's output: the last thing that it logged.
func reason(output string) string {
	why := ""
	for line := range strings.Lines(output) {
		if m := logged.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			why = m[1]
		}
	}
	if why == "" {
		return "(no reason)"
	}
	return why
}

// judge says what is wrong with a skip's reason on this machine, or "" when it holds. That a kernel
// lacks a feature, or that others use the CPUs, is believed: the test that skips has measured it.
func (m machine) judge(why string) string {
	parts := need.FindStringSubmatch(why)
	if parts == nil {
		return "the reason is not of the form " + forms
	}
	switch {
	case parts[1] == "root":
		if m.root {
			return "this is root"
		}
	case parts[2] != "":
		bit, known := capabilities[strings.TrimPrefix(strings.ToLower(parts[2]), "cap_")]
		if !known {
			return fmt.Sprintf("no capability is called %q", parts[2])
		}
		if m.caps&(1<<bit) != 0 {
			return fmt.Sprintf("cap:%s is held", parts[2])
		}
	case parts[4] != "":
		if m.tool(parts[4]) {
			return fmt.Sprintf("%s is installed", parts[4])
		}
	}
	return ""
}

// table: bits of include/uapi/linux/capability.h, those that a performance tool can meet.
var capabilities = map[string]uint{
	"chown": 0, "dac_override": 1, "dac_read_search": 2, "fowner": 3, "kill": 5, "setgid": 6, "setuid": 7,
	"net_bind_service": 10, "net_broadcast": 11, "net_admin": 12, "net_raw": 13, "ipc_lock": 14,
	"sys_module": 16, "sys_rawio": 17, "sys_chroot": 18, "sys_ptrace": 19, "sys_pacct": 20, "sys_admin": 21,
	"sys_boot": 22, "sys_nice": 23, "sys_resource": 24, "sys_time": 25, "syslog": 34,
	"perfmon": 38, "bpf": 39, "checkpoint_restore": 40,
}

package kernel

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Capabilities is a set of capabilities(7): bit n is capability n, unix.CAP_NET_ADMIN and so on.
type Capabilities uint64

// Has reports whether the set contains the capability.
func (c Capabilities) Has(capability int) bool {
	return capability >= 0 && capability < 64 && c>>uint(capability)&1 != 0
}

// Names lists the set as "CAP_NET_ADMIN"; a capability without a known name is "CAP_41".
func (c Capabilities) Names() []string {
	list := []string{}
	for i := range 64 {
		if c.Has(i) {
			list = append(list, capabilityName(i))
		}
	}
	return list
}

func capabilityName(i int) string {
	if i < len(capabilityNames) {
		return "CAP_" + capabilityNames[i]
	}
	return fmt.Sprintf("CAP_%d", i)
}

// capabilityNames is include/uapi/linux/capability.h in order.
var capabilityNames = [...]string{"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID",
	"KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK",
	"IPC_OWNER", "SYS_MODULE", "SYS_RAWIO",
	"SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE",
	"SYS_TIME", "SYS_TTY_CONFIG", "MKNOD",
	"LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
	"WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
	"PERFMON", "BPF", "CHECKPOINT_RESTORE"}

// Capabilities returns the effective capabilities of the calling thread. In a user namespace they
// hold only for what that namespace owns; a feature.Feature answers whether something works. The
// error is of /proc/thread-self/status.
func (r Root) Capabilities() (Capabilities, error) {
	path := r.InProc("thread-self/status")
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the capabilities: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			v, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			if err != nil {
				return 0, fmt.Errorf("parse %s: %w", path, err)
			}
			return Capabilities(v), nil
		}
	}
	return 0, fmt.Errorf("no CapEff in %s: %w", path, measure.ErrUnclear)
}

// MayBPF reports whether the kernel lets a process with these capabilities load the programs of
// package bpf.
func (c Capabilities) MayBPF() bool {
	return c.Has(unix.CAP_SYS_ADMIN) || c.Has(unix.CAP_BPF) && c.Has(unix.CAP_PERFMON)
}

package kernel

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Capabilities is a set of capabilities(7): bit n stands for capability n, unix.CAP_NET_ADMIN and so on.
type Capabilities uint64

// Has says whether the capability is in the set.
func (c Capabilities) Has(capability int) bool {
	return capability >= 0 && capability < 64 && c>>uint(capability)&1 != 0
}

// Names lists the set as "CAP_NET_ADMIN"; one that culprit does not know is "CAP_41".
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
var capabilityNames = [...]string{"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO",
	"SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD",
	"LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
	"PERFMON", "BPF", "CHECKPOINT_RESTORE"}

// Capabilities gives the effective capabilities of the calling thread. Within a user namespace they hold only for what
// that namespace owns: ask a Feature whether a thing works.
func (r Root) Capabilities() (Capabilities, error) {
	path := "thread-self/status"
	b, err := r.ReadProc(path, nil)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", r.InProc(path), err)
	}
	for c := Scan(b); !c.End(); c.NextLine() {
		if string(c.Word()) == "CapEff:" {
			v := c.Hex()
			if c.Err() != nil {
				return 0, fmt.Errorf("parse %s: %w", r.InProc(path), c.Err())
			}
			return Capabilities(v), nil
		}
	}
	return 0, fmt.Errorf("no CapEff in %s: %w", r.InProc(path), measure.ErrUnclear)
}

// filtered says whether a filter of system calls (seccomp(2), as systemd's SystemCallFilter= and containers set one) keeps this thread from bpf(2) or
// perf_event_open(2). To who has the rights the kernel itself says of a call that makes no sense that it is invalid, and never that it is not permitted.
func (r Root) filtered() bool {
	b, err := r.ReadProc("thread-self/status", nil)
	if err != nil {
		return false
	}
	const noCommand, noFlags = 1 << 30, 1 << 30
	for c := Scan(b); !c.End(); c.NextLine() {
		if string(c.Word()) == "Seccomp:" {
			if c.Uint() != 2 || c.Err() != nil {
				return false
			}
			_, _, bpf := unix.RawSyscall(unix.SYS_BPF, noCommand, 0, 0)
			_, _, perf := unix.RawSyscall6(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, noFlags, 0)
			return bpf == unix.EPERM || perf == unix.EPERM
		}
	}
	return false
}

// Description is what is to be told of a kernel, as JSON too. What could not be found out is "" or null.
type Description struct {
	Release      string       `json:"release"` // "6.18.44"
	Version      string       `json:"version"` // "#1 SMP ..."
	Architecture string       `json:"architecture"`
	OnlineCPUs   int          `json:"online_cpus"`   // 0: could not tell
	PossibleCPUs int          `json:"possible_cpus"` // 0: could not tell
	UsableCPUs   int          `json:"usable_cpus"`   // by this process; 0: could not tell
	PageBytes    int          `json:"page_bytes"`
	Ticks        int          `json:"ticks_per_second"` // USER_HZ
	Boot         measure.Time `json:"boot"`

	Container     string   `json:"container"`      // "docker", "kubernetes", "gvisor" ...: a hint; "" none seen
	UserNamespace bool     `json:"user_namespace"` // capabilities hold for part of the machine only
	PIDNamespace  bool     `json:"pid_namespace"`  // other processes of the machine are not seen
	Capabilities  []string `json:"capabilities"`   // effective; null: could not tell

	PerfEventParanoid *int   `json:"perf_event_paranoid"`
	KptrRestrict      *int   `json:"kptr_restrict"`
	Lockdown          string `json:"lockdown"` // "none", "integrity", "confidentiality"

	Cgroups  []Cgroup       `json:"cgroups"`
	Features []FeatureState `json:"features"`
}

// FeatureState is the answer of one feature.
type FeatureState struct {
	Name   string `json:"name"`
	Answer string `json:"answer"` // "yes", "unsupported", "denied", "unclear"
	Why    string `json:"why"`    // "" for yes
}

// Answer gives the word for what Feature.Have said: "yes", "unsupported", "denied" or "unclear".
func Answer(err error) string {
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, measure.ErrDenied):
		return "denied"
	case errors.Is(err, measure.ErrUnsupported):
		return "unsupported"
	}
	return "unclear"
}

// Describe looks at everything once; a few hundred milliseconds, most of it for what is tried out by attaching BPF.
func (r Root) Describe() Description {
	d := Description{
		Release:           r.line("sys/kernel/osrelease"),
		Version:           r.line("sys/kernel/version"),
		Architecture:      runtime.GOARCH,
		UsableCPUs:        UsableCPUs(),
		PageBytes:         PageSize(),
		Ticks:             TicksPerSecond(),
		Boot:              BootTime(),
		Container:         r.container(),
		PerfEventParanoid: r.sysctl("kernel/perf_event_paranoid"),
		KptrRestrict:      r.sysctl("kernel/kptr_restrict"),
		Cgroups:           []Cgroup{},
	}
	if cpus, err := r.OnlineCPUs(); err == nil {
		d.OnlineCPUs = len(cpus)
	}
	if cpus, err := r.PossibleCPUs(); err == nil {
		d.PossibleCPUs = len(cpus)
	}
	if c, err := r.Capabilities(); err == nil {
		d.Capabilities = c.Names()
	}
	if groups, err := r.Cgroups(); err == nil && groups != nil {
		d.Cgroups = groups
	}
	if b, err := r.ReadSys("kernel/security/lockdown", nil); err == nil {
		d.Lockdown = marked(string(b))
	}
	if b, err := r.ReadProc("self/uid_map", nil); err == nil {
		c := Scan(b)
		inside, outside, length := c.Uint(), c.Uint(), c.Uint()
		d.UserNamespace = inside != 0 || outside != 0 || length != 1<<32-1
	}
	d.PIDNamespace = r.InPIDNamespace()
	for _, f := range Features() {
		s := FeatureState{Name: f.String()}
		err := f.Have(r)
		if s.Answer = Answer(err); err != nil {
			s.Why = strings.TrimPrefix(err.Error(), s.Name+": ")
		}
		d.Features = append(d.Features, s)
	}
	return d
}

// marked gives the word in brackets: "none [integrity] confidentiality".
func marked(s string) string {
	_, s, _ = strings.Cut(s, "[")
	s, _, ok := strings.Cut(s, "]")
	if !ok {
		return ""
	}
	return s
}

// InPIDNamespace says that this process has another number than the kernel itself has for it, and sees other processes of the machine not at all.
func (r Root) InPIDNamespace() bool {
	const first = 0xEFFFFFFC // PROC_PID_INIT_INO, include/linux/proc_ns.h
	var st unix.Stat_t
	return !r.captured() && unix.Stat("/proc/self/ns/pid", &st) == nil && st.Ino != first
}

// gvisorVersion is what gVisor shows as the kernel's version, always (pkg/sentry/syscalls/linux/linux64.go).
const gvisorVersion = "#1 SMP Sun Jan 10 15:06:54 PST 2016"

// container looks for the traces that container engines leave. None is a proof, and none is needed for anything but words.
func (r Root) container() string {
	if r.line("sys/kernel/version") == gvisorVersion || strings.Contains(r.line("version"), gvisorVersion) {
		return "gvisor"
	}
	if !r.captured() {
		if b, err := ReadFile("/run/systemd/container", nil); err == nil && len(b) > 0 {
			return strings.TrimSpace(string(b))
		}
	}
	for path := range strings.SplitSeq(r.line("self/cgroup")+"\n"+r.line("1/cgroup"), "\n") {
		for _, hint := range [...][2]string{{"kubepods", "kubernetes"}, {"docker", "docker"}, {"libpod", "podman"}, {"containerd", "containerd"}, {"lxc", "lxc"}} {
			// Only as the beginning of a group's name: docker.service is the engine, not a container.
			if _, name, ok := strings.Cut(path, "/"+hint[0]); ok && !strings.HasPrefix(name, ".service") {
				return hint[1]
			}
		}
	}
	if !r.captured() {
		for _, mark := range [...][2]string{{"/.dockerenv", "docker"}, {"/run/.containerenv", "podman"}} {
			if unix.Access(mark[0], unix.F_OK) == nil {
				return mark[1]
			}
		}
	}
	return ""
}

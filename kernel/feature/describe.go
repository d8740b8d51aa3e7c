package feature

import (
	"errors"
	"runtime"
	"strings"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Description describes a kernel, as JSON too. What could not be found out is "" or null.
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

	// "docker", "kubernetes", "gvisor" ...: a hint; "" none seen
	Container     string   `json:"container"`
	UserNamespace bool     `json:"user_namespace"` // capabilities hold for part of the machine only
	PIDNamespace  bool     `json:"pid_namespace"`  // other processes of the machine are not seen
	Capabilities  []string `json:"capabilities"`   // effective; null: could not tell

	PerfEventParanoid *int   `json:"perf_event_paranoid"`
	KptrRestrict      *int   `json:"kptr_restrict"`
	Lockdown          string `json:"lockdown"` // "none", "integrity", "confidentiality"

	Cgroups  []proc.Cgroup  `json:"cgroups"`
	Features []FeatureState `json:"features"`
}

// FeatureState is the answer of one feature.
type FeatureState struct {
	Name   string `json:"name"`
	Answer string `json:"answer"` // "yes", "unsupported", "denied", "unclear"
	Why    string `json:"why"`    // "" for yes
}

// Answer returns the word for the result of Feature.Have: "yes", "unsupported", "denied" or
// "unclear".
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

// Describe reads and tries everything once. It takes some hundred milliseconds, most of them for
// features that attach BPF programs.
func Describe(r kernel.Root) Description {
	d := Description{
		Release:           proc.Line(r, "sys/kernel/osrelease"),
		Version:           proc.Line(r, "sys/kernel/version"),
		Architecture:      runtime.GOARCH,
		UsableCPUs:        proc.UsableCPUs(),
		PageBytes:         kernel.PageSize(),
		Ticks:             kernel.TicksPerSecond(),
		Boot:              kernel.BootTime(),
		Container:         container(r),
		PerfEventParanoid: sysctl(r, "kernel/perf_event_paranoid"),
		KptrRestrict:      sysctl(r, "kernel/kptr_restrict"),
		Cgroups:           []proc.Cgroup{},
	}
	if cpus, err := proc.OnlineCPUs(r); err == nil {
		d.OnlineCPUs = len(cpus)
	}
	if cpus, err := proc.PossibleCPUs(r); err == nil {
		d.PossibleCPUs = len(cpus)
	}
	if c, err := r.Capabilities(); err == nil {
		d.Capabilities = c.Names()
	}
	if groups, err := proc.Cgroups(r); err == nil && groups != nil {
		d.Cgroups = groups
	}
	if b, err := proc.ReadSys(r, "kernel/security/lockdown", nil); err == nil {
		d.Lockdown = marked(string(b))
	}
	if b, err := proc.ReadProc(r, "self/uid_map", nil); err == nil {
		c := proc.Scan(b)
		inside, outside, length := c.Uint(), c.Uint(), c.Uint()
		d.UserNamespace = inside != 0 || outside != 0 || length != 1<<32-1
	}
	d.PIDNamespace = InPIDNamespace(r)
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

// marked returns the word in brackets: "none [integrity] confidentiality".
func marked(s string) string {
	_, s, _ = strings.Cut(s, "[")
	s, _, ok := strings.Cut(s, "]")
	if !ok {
		return ""
	}
	return s
}

// InPIDNamespace reports whether this process is in a PID namespace below the first. Then pids
// differ from the kernel's, and other processes of the machine are not visible.
func InPIDNamespace(r kernel.Root) bool {
	const first = 0xEFFFFFFC // PROC_PID_INIT_INO, include/linux/proc_ns.h
	var st unix.Stat_t
	return !r.Captured() && unix.Stat("/proc/self/ns/pid", &st) == nil && st.Ino != first
}

// gvisorVersion is what gVisor always shows as the kernel's version
// (pkg/sentry/syscalls/linux/linux64.go).
const gvisorVersion = "#1 SMP Sun Jan 10 15:06:54 PST 2016"

// container returns a hint which container engine started this process. It is used in texts only.
func container(r kernel.Root) string {
	if proc.Line(r, "sys/kernel/version") == gvisorVersion ||
		strings.Contains(proc.Line(r, "version"), gvisorVersion) {
		return "gvisor"
	}
	if !r.Captured() {
		if b, err := proc.ReadFile("/run/systemd/container", nil); err == nil && len(b) > 0 {
			return strings.TrimSpace(string(b))
		}
	}
	for path := range strings.SplitSeq(proc.Line(r, "self/cgroup")+"\n"+proc.Line(r, "1/cgroup"),
		"\n") {
		for _, hint := range [...][2]string{{"kubepods", "kubernetes"}, {"docker", "docker"},
			{"libpod", "podman"}, {"containerd", "containerd"}, {"lxc", "lxc"}} {
			// Only as the beginning of a group's name: docker.service is the engine, not a
			// container.
			if _, name, ok := strings.Cut(path, "/"+hint[0]); ok &&
				!strings.HasPrefix(name, ".service") {
				return hint[1]
			}
		}
	}
	if !r.Captured() {
		for _, mark := range [...][2]string{{"/.dockerenv", "docker"},
			{"/run/.containerenv", "podman"}} {
			if unix.Access(mark[0], unix.F_OK) == nil {
				return mark[1]
			}
		}
	}
	return ""
}

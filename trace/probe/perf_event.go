package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// A PerfEvent is an event that perf knows by a name.
type PerfEvent struct {
	Name     string // perf's: page-faults, also for faults
	Provider string // of D: software or hardware
	Period   uint64 // of hardware events: how many events usually make a sample; else 1
	// Mode says that an event comes from the code that runs, of the kernel or of a program. Events
	// without it come from the kernel's own code.
	Mode bool
}

// Probe returns the probe of D that fires at one of every events.
func (e PerfEvent) Probe(every uint64) string {
	return fmt.Sprintf("%s:::%s-%d", e.Provider, e.Name, every)
}

// notSampled are events that are no reason for a sample: timers, and those that never happen.
//
// table: names of perf
var notSampled = []string{"bpf-output", "cpu-clock", "dummy", "task-clock"}

// PerfEventNamed returns an event by its name in perf, or one of the aliases; false: there is none.
func PerfEventNamed(name string) (PerfEvent, bool) {
	for _, e := range namedEvents() {
		if name == e.Name || name == e.alias {
			return e.PerfEvent, true
		}
	}
	return PerfEvent{}, false
}

// PerfEventNames returns the names of all events of a provider.
func PerfEventNames(provider string) (names []string) {
	for _, e := range namedEvents() {
		if e.Provider == provider {
			names = append(names, e.Name)
		}
	}
	return names
}

type namedEvent struct {
	PerfEvent
	alias string
}

func namedEvents() (out []namedEvent) {
	for _, e := range perfEvents("software") {
		if slices.Contains(notSampled, e.name) {
			continue
		}
		mode := e.config != unix.PERF_COUNT_SW_CONTEXT_SWITCHES &&
			e.config != unix.PERF_COUNT_SW_CPU_MIGRATIONS
		out = append(out, namedEvent{PerfEvent{e.name, "software", 1, mode}, e.alias})
	}
	for _, e := range append(perfEvents("hardware"), cacheEvents()...) {
		out = append(out, namedEvent{PerfEvent{e.name, "hardware", e.period, true}, e.alias})
	}
	return out
}

// HardwareError returns why this machine does not count an event of the hardware. refusal is the
// kernel's error, which is returned where it says something else.
func HardwareError(name string, refusal error) error {
	if !errors.Is(refusal, unix.ENOENT) && !errors.Is(refusal, unix.EOPNOTSUPP) &&
		!errors.Is(refusal, unix.ENODEV) && !errors.Is(refusal, unix.EINVAL) &&
		!errors.Is(refusal, measure.ErrUnsupported) {
		return refusal
	}
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES,
		Size: unix.PERF_ATTR_SIZE_VER0, Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel,
	}, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		unix.Close(fd) //nolint:errcheck // it counted nothing
		return fmt.Errorf("this CPU does not count %s: %w", name, measure.ErrUnsupported)
	}
	return fmt.Errorf("this machine has no hardware counters, as most virtual machines: "+
		"%s, tracepoints and probes work, and without --event a timer samples: %w",
		strings.Join(PerfEventNames("software"), ", "), measure.ErrUnsupported)
}

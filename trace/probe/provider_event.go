package probe

import (
	"fmt"
	"strconv"
	"strings"

	"culprit/lang/check"

	"golang.org/x/sys/unix"
)

const (
	firstEvent  = 99_000
	mostEventID = 999
)

// A perfEvent is an event of perf_event_open(2) that fires a probe once per period events.
type perfEvent struct {
	kind   uint32 // PERF_TYPE_SOFTWARE, PERF_TYPE_HARDWARE or PERF_TYPE_HW_CACHE
	config uint64
	period uint64
}

// An eventName is an event by its name in perf, with the period that bpftrace uses without one.
type eventName struct {
	name, alias string
	perfEvent
}

// perfEvents returns the events of a provider.
func perfEvents(of string) []eventName {
	const soft, hard = unix.PERF_TYPE_SOFTWARE, unix.PERF_TYPE_HARDWARE
	if of == "software" {
		return []eventName{
			{"alignment-faults", "", perfEvent{soft, unix.PERF_COUNT_SW_ALIGNMENT_FAULTS, 1}},
			{"bpf-output", "", perfEvent{soft, unix.PERF_COUNT_SW_BPF_OUTPUT, 1}},
			{"context-switches", "cs", perfEvent{soft, unix.PERF_COUNT_SW_CONTEXT_SWITCHES, 1000}},
			{"cpu-clock", "cpu", perfEvent{soft, unix.PERF_COUNT_SW_CPU_CLOCK, 1_000_000}},
			{"cpu-migrations", "", perfEvent{soft, unix.PERF_COUNT_SW_CPU_MIGRATIONS, 1}},
			{"dummy", "", perfEvent{soft, unix.PERF_COUNT_SW_DUMMY, 1}},
			{"emulation-faults", "", perfEvent{soft, unix.PERF_COUNT_SW_EMULATION_FAULTS, 1}},
			{"major-faults", "", perfEvent{soft, unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1}},
			{"minor-faults", "", perfEvent{soft, unix.PERF_COUNT_SW_PAGE_FAULTS_MIN, 100}},
			{"page-faults", "faults", perfEvent{soft, unix.PERF_COUNT_SW_PAGE_FAULTS, 100}},
			{"task-clock", "", perfEvent{soft, unix.PERF_COUNT_SW_TASK_CLOCK, 1_000_000}},
		}
	}
	return []eventName{
		{"backend-stalls", "stalled-cycles-backend",
			perfEvent{hard, unix.PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 1e6}},
		{"branch-instructions", "branches",
			perfEvent{hard, unix.PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 100_000}},
		{"branch-misses", "", perfEvent{hard, unix.PERF_COUNT_HW_BRANCH_MISSES, 100_000}},
		{"bus-cycles", "", perfEvent{hard, unix.PERF_COUNT_HW_BUS_CYCLES, 100_000}},
		{"cache-misses", "", perfEvent{hard, unix.PERF_COUNT_HW_CACHE_MISSES, 1_000_000}},
		{"cache-references", "", perfEvent{hard, unix.PERF_COUNT_HW_CACHE_REFERENCES, 1_000_000}},
		{"cpu-cycles", "cycles", perfEvent{hard, unix.PERF_COUNT_HW_CPU_CYCLES, 1_000_000}},
		{"frontend-stalls", "stalled-cycles-frontend",
			perfEvent{hard, unix.PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 1e6}},
		{"instructions", "", perfEvent{hard, unix.PERF_COUNT_HW_INSTRUCTIONS, 1_000_000}},
		{"ref-cycles", "", perfEvent{hard, unix.PERF_COUNT_HW_REF_CPU_CYCLES, 1_000_000}},
	}
}

// cacheEvents returns the events of the caches, by their names in perf: LLC-load-misses. The config
// is that of PERF_TYPE_HW_CACHE: cache, operation and result, 8 bits each.
func cacheEvents() (out []eventName) {
	const load, store, prefetch = 1, 2, 4 // what perf counts of a cache
	for cache, c := range []struct {
		name       string
		operations int
	}{
		{"L1-dcache", load | store | prefetch},
		{"L1-icache", load | prefetch},
		{"LLC", load | store | prefetch},
		{"dTLB", load | store | prefetch},
		{"iTLB", load},
		{"branch", load},
		{"node", load | store | prefetch},
	} {
		for operation, words := range [][2]string{
			{"-loads", "-load-misses"}, {"-stores", "-store-misses"},
			{"-prefetches", "-prefetch-misses"},
		} {
			for result, word := range words {
				if c.operations&(1<<operation) == 0 {
					continue
				}
				out = append(out, eventName{c.name + word, "", perfEvent{unix.PERF_TYPE_HW_CACHE,
					uint64(cache | operation<<8 | result<<16), 1_000_000}})
			}
		}
	}
	return out
}

// eventProvider has the software or hardware events of perf, software:::page-faults-100: the probe
// fires once in 100 page faults. Without a number it has the period of bpftrace.
func eventProvider(of string) *provider {
	first := uint32(firstEvent)
	if of == "hardware" {
		first += (mostEventID + 1) / 2
	}
	return &provider{
		name: of, first: first, last: first + mostEventID/2, named: true,
		list: func(_ *Env, _ *want, yield func(*found)) error {
			for i, e := range perfEvents(of) {
				yield(eventProbe(of, e.name, first+uint32(i), e.perfEvent))
			}
			return nil
		},
		make: func(e *Env, name string) (*found, error) {
			events := perfEvents(of)
			if of == "hardware" { // these are not listed, as bpftrace does not
				events = append(events, cacheEvents()...)
			}
			for _, event := range events {
				for _, word := range []string{event.name, event.alias} {
					rest, ok := strings.CutPrefix(name, word+"-")
					if word == "" || !ok && name != word {
						continue
					}
					made := event.perfEvent
					if ok {
						n, err := strconv.ParseUint(rest, 10, 62)
						if err != nil || n == 0 {
							continue
						}
						made.period = n
					}
					id, known := e.perfIDs[of+name]
					if !known {
						if len(e.perfIDs) > 400 {
							return nil, fmt.Errorf("%s is one event too many", name)
						}
						id = first + 50 + uint32(len(e.perfIDs))
						e.perfIDs[of+name] = id
					}
					return eventProbe(of, name, id, made), nil
				}
			}
			return nil, nil
		},
	}
}

func eventProbe(of, name string, id uint32, e perfEvent) *found {
	return &found{
		Listed: Listed{ID: id, Provider: of, Name: name},
		site:   check.SitePerfEvent, perf: &e,
	}
}

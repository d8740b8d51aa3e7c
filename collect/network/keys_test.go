package network

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
)

// socketTables are Tables without those that netlink reads from this machine.
type socketTables struct{ Tables }

func (s socketTables) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r, err := s.Tables.Open(env, want)
	if err != nil {
		return nil, err
	}
	return socketTablesReading{r.(*netCaches)}, nil
}

type socketTablesReading struct{ *netCaches }

func (r socketTablesReading) Read(o *collect.Out) error {
	for _, s := range r.spaces.List {
		rest := time.Now().Add(time.Hour)
		s.Data.neighbourPace.next, s.Data.fdbPace.next = rest, rest
	}
	return r.netCaches.Read(o)
}

// keyedMachines are the collectors of files that lack keys or columns on some kernels.
func keyedMachines() map[string]collecttest.KeyedMachine {
	softnet := collecttest.ColumnKeys(0, 16)
	softnet.Grow = func(text string) string { // the 13th column is the CPU
		grown := collecttest.GrowFrom(0, 16)(text)
		for n, line := range strings.Split(strings.TrimSuffix(grown, "\n"), "\n") {
			w := strings.Fields(line)
			w[12] = strconv.Itoa(n)
			grown = strings.Replace(grown, line, strings.Join(w, " "), 1)
		}
		return grown
	}
	cpus := map[string]string{"sys/devices/system/cpu/online": "0-1\n"}
	return map[string]collecttest.KeyedMachine{
		"softnet": {
			Collector: Softnet{},
			Files:     map[string]collecttest.KeyedFile{"proc/net/softnet_stat": softnet},
			Beside:    cpus,
		},
		"protocols": {
			Collector: Protocols{},
			Files: map[string]collecttest.KeyedFile{
				"proc/net/snmp":      collecttest.HeadedKeys,
				"proc/net/netstat":   collecttest.HeadedKeys,
				"proc/net/snmp6":     collecttest.LineKeys,
				"proc/net/sockstat":  collecttest.PairKeys,
				"proc/net/sockstat6": collecttest.PairKeys,
			},
			Spread: 2,
		}, // counters and levels of a protocol
		"socket tables": {
			Collector: socketTables{},
			Files: map[string]collecttest.KeyedFile{
				"proc/net/sockstat":  collecttest.PairKeys,
				"proc/net/sockstat6": collecttest.PairKeys,
			},
			Spread: 2, // entries and growth
			// A protocol that is not in the kernel has no sockets.
			Dependent: map[string]string{"proc/net/sockstat UDPLITE:": "cache.entries||udp " +
				"cache.growth||udp", "proc/net/sockstat UDPLITE: inuse": "cache.entries||udp " +
				"cache.growth||udp",
				"proc/net/sockstat6 UDPLITE6:": "cache.entries||udp cache.growth||udp", "proc/net/sockstat6 UDPLITE6: inuse": "cache.entries||udp cache.growth||udp",
				"proc/net/sockstat6 ": "cache.entries||udp cache.growth||udp " +
					"cache.entries||tcp-est cache.growth||tcp-est"},
		},
	}
}

func TestMissingKeys(t *testing.T)      { collecttest.CheckMissingKeys(t, keyedMachines()) }
func TestNothingBelowZero(t *testing.T) { collecttest.CheckNothingBelowZero(t, keyedMachines()) }

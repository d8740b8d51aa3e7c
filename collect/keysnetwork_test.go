package collect

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// socketTables are NetCaches without what netlink tells of this machine.
type socketTables struct{ NetCaches }

func (s socketTables) Open(env *Env, want Want) (Reading, error) {
	r, err := s.NetCaches.Open(env, want)
	if err != nil {
		return nil, err
	}
	return socketTablesReading{r.(*netCaches)}, nil
}

type socketTablesReading struct{ *netCaches }

func (r socketTablesReading) Read(o *Out) error {
	for _, s := range r.spaces.list {
		rest := time.Now().Add(time.Hour)
		s.data.neighbourPace.next, s.data.fdbPace.next = rest, rest
	}
	return r.netCaches.Read(o)
}

// keyedNetwork are the readers of named keys and of columns that some kernels lack.
func keyedNetwork() map[string]keyedMachine {
	softnet := columnKeys(0, 16)
	softnet.grow = func(text string) string { // the 13th column is the CPU
		grown := growFrom(0, 16)(text)
		for n, line := range strings.Split(strings.TrimSuffix(grown, "\n"), "\n") {
			w := strings.Fields(line)
			w[12] = strconv.Itoa(n)
			grown = strings.Replace(grown, line, strings.Join(w, " "), 1)
		}
		return grown
	}
	cpus := map[string]string{"sys/devices/system/cpu/online": "0-1\n"}
	return map[string]keyedMachine{
		"softnet": {collector: Softnet{}, files: map[string]keyedFile{"proc/net/softnet_stat": softnet}, beside: cpus},
		"protocols": {collector: NetProtocols{}, files: map[string]keyedFile{"proc/net/snmp": headedKeys, "proc/net/netstat": headedKeys, "proc/net/snmp6": lineKeys,
			"proc/net/sockstat": pairKeys, "proc/net/sockstat6": pairKeys}, spread: 2}, // counters and levels of a protocol
		"socket tables": {collector: socketTables{}, files: map[string]keyedFile{"proc/net/sockstat": pairKeys, "proc/net/sockstat6": pairKeys},
			spread: 2, // entries and growth
			// A protocol that is not in the kernel has no sockets.
			dependent: map[string]string{"proc/net/sockstat UDPLITE:": "cache.entries||udp cache.growth||udp", "proc/net/sockstat UDPLITE: inuse": "cache.entries||udp cache.growth||udp",
				"proc/net/sockstat6 UDPLITE6:": "cache.entries||udp cache.growth||udp", "proc/net/sockstat6 UDPLITE6: inuse": "cache.entries||udp cache.growth||udp",
				"proc/net/sockstat6 ": "cache.entries||udp cache.growth||udp cache.entries||tcp-est cache.growth||tcp-est"}},
	}
}

func TestMissingKeysNetwork(t *testing.T)      { checkMissingKeys(t, keyedNetwork()) }
func TestNothingBelowZeroNetwork(t *testing.T) { checkNothingBelowZero(t, keyedNetwork()) }

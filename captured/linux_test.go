package captured

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLinuxTools reads what tools of Linux printed on a busy machine of two CPUs without disks or
// links that were short.
func TestLinuxTools(t *testing.T) {
	for _, tt := range []struct {
		file, tool string
		kinds      []Kind
		rows       int // at least
	}{
		{"linux-mpstat.txt", "mpstat", []Kind{CPUs}, 9},
		{"linux-vmstat.txt", "vmstat", []Kind{Paging}, 3},
		{"linux-iostat-x.txt", "iostat", []Kind{CPUs, Disks}, 2},
		{"linux-sar-u.txt", "mpstat", []Kind{CPUs}, 9},
		{"linux-sar-n.txt", "sar", []Kind{Devices, Devices, Counters, Counters}, 2},
		{"linux-sar-mem.txt", "sar", []Kind{Queue, Paging, Memory, Disks}, 2},
		{"linux-sadf.json", "sadf", []Kind{CPUs, Queue, Memory, Disks, Devices}, 2},
		{"linux-netstat-s.txt", "netstat", []Kind{Counters}, 10},
		{"linux-netstat-i.txt", "netstat", []Kind{Totals}, 2},
		{"linux-ethtool.txt", "ethtool", []Kind{Links}, 1},
		{"linux-ip-s.txt", "ip", []Kind{Addresses, Totals}, 2},
		{"linux-ifconfig.txt", "ifconfig", []Kind{Addresses, Totals}, 2},
		{"linux-free.txt", "free", []Kind{Memory}, 2},
		{"linux-df.txt", "df", []Kind{Files}, 4},
		{"linux-uptime.txt", "uptime", []Kind{Load}, 1},
		{"linux-nstat.txt", "nstat", []Kind{Counters}, 50},
		{"linux-top.txt", "top", []Kind{Load, CPUs, Memory, Processes}, 1},
		{"linux-ps.txt", "ps", []Kind{Processes}, 5},
		{"linux-pidstat.txt", "pidstat", []Kind{Processes}, 1},
		{"linux-pidstat-d.txt", "pidstat", []Kind{Processes}, 5},
		{"linux-pidstat-r.txt", "pidstat", []Kind{Processes}, 5},
		{"linux-pidstat-w.txt", "pidstat", []Kind{Processes}, 5},
		{"linux-perf-stat.txt", "perf stat", []Kind{Counters}, 4},
		{"linux-perf-stat-x.txt", "perf stat", []Kind{Counters}, 4},
		{"linux-perf-stat-I.txt", "perf stat", []Kind{Counters}, 16},
		{"linux-slabtop.txt", "slabtop", []Kind{Slabs}, 30},
		{"linux-tc-s.txt", "tc", []Kind{Qdiscs}, 2},
		{"linux-free-h.txt", "free", []Kind{Memory}, 2},
		{"linux-df-h.txt", "df", []Kind{Files}, 4},
		{"linux-df-i.txt", "df", []Kind{Files}, 4},
		{"linux-w.txt", "uptime", []Kind{Load}, 1},
		{"linux-lscpu.txt", "lscpu", []Kind{Counters}, 2},
		{"linux-lsof.txt", "lsof", []Kind{Descriptors}, 8},
		{"linux-perf-report.txt", "perf", []Kind{Samples}, 30},
		{"linux-proc-stat.txt", "/proc/stat", []Kind{Ticks}, 3},
		{"linux-proc-diskstats.txt", "/proc/diskstats", []Kind{DiskTicks}, 2},
		{"linux-proc-dev.txt", "/proc/net/dev", []Kind{Totals}, 2},
		{"linux-proc-snmp.txt", "/proc/net/snmp", []Kind{Counters}, 20},
		{"linux-proc-netstat.txt", "/proc/net/snmp", []Kind{Counters}, 50},
		{"linux-proc-interrupts.txt", "/proc/interrupts", []Kind{Handlers}, 5},
		{"linux-proc-softnet_stat.txt", "/proc/net/softnet_stat", []Kind{Packets}, 2},
		{"linux-proc-meminfo.txt", "/proc/meminfo", []Kind{Counters}, 30},
		{"linux-proc-loadavg.txt", "/proc/loadavg", []Kind{Load}, 1},
		{"linux-proc-vmstat.txt", "/proc/vmstat", []Kind{Counters}, 2},
		{"linux-pressure-io.txt", "/proc/pressure", []Kind{Pressure}, 2},
	} {
		t.Run(tt.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			c, err := Read(tt.file, string(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range tt.kinds {
				i := slices.IndexFunc(c.Tables, func(o *Table) bool { return o.Kind == kind })
				if i < 0 {
					t.Errorf("no table of kind %s", kind)
				} else if n := len(c.Tables[i].Rows); n < tt.rows {
					t.Errorf("table %s has %d rows, want %d", kind, n, tt.rows)
				}
			}
			if !slices.ContainsFunc(c.Tables, func(o *Table) bool { return o.Tool == tt.tool }) {
				t.Errorf("no table of %s", tt.tool)
			}
			for _, f := range Diagnose([]*Capture{c}).Findings {
				switch f.Rule {
				case "cpu-saturated", "load-high", "net-drops", "tcp-listen-overflow":
				default:
					t.Errorf("finding %s: %s", f.ID, f.Claim)
				}
			}
		})
	}
}

// TestSnapshots reads two snapshots of /proc, four seconds of CPU time apart.
func TestSnapshots(t *testing.T) {
	const first = "cpu  1000 0 500 8000 100 0 50 0 0 0\ncpu0 500 0 250 4000 50 0 25 0 0 0\n" +
		"cpu1 500 0 250 4000 50 0 25 0 0 0\n" +
		"   8       0 sda 100 0 800 50 200 0 1600 90 0 1000 3000 0 0 0 0\n" +
		"  eth9: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n"
	const last = "cpu  1400 0 800 8090 100 0 60 0 0 0\ncpu0 890 0 250 4005 50 0 30 0 0 0\n" +
		"cpu1 510 0 550 4085 50 0 30 0 0 0\n" +
		"   8       0 sda 300 0 800 4050 400 0 1600 6090 0 4950 27000 0 0 0 0\n" +
		"  eth9: 496001000 400010 0 0 0 0 0 0 4002000 40020 0 0 0 0 0 0\n"
	c, err := Read("proc.txt", first+"\n"+last)
	if err != nil {
		t.Fatal(err)
	}
	r := Diagnose([]*Capture{c})
	f := findingOf(r, "disk-saturated/sda")
	if f == nil {
		t.Fatalf("no saturated disk: %v %v", ids(r), r.Fine)
	}
	if f := findingOf(r, "link-saturated/eth9"); f == nil {
		t.Errorf("no full link: %v %v", ids(r), r.Fine)
	}
}

package captured

import (
	"fmt"
	"strings"
	"testing"
)

// systemFaults are tables of perf stat, numastat, lsof, slabtop, tc, lscpu, free and df with the
// findings that they allow.
var systemFaults = []struct {
	name, id, text string
	words          []string
}{
	{"perf stat, few instructions", "cpu-waits-for-memory/machine", `
 Performance counter stats for 'system wide':

         80,412.55 msec cpu-clock                        #    8.000 CPUs utilized
            41,204      context-switches                 #  512.407 /sec
   201,031,370,000      cycles                           #    2.500 GHz                      (50.02%)
    42,216,587,700      instructions                     #    0.21  insn per cycle           (62.51%)
     8,100,000,000      branches                         #  100.731 M/sec                    (62.50%)
        12,000,000      branch-misses                    #    0.15% of all branches          (62.49%)
     1,000,000,000      cache-references                 #   12.436 M/sec                    (62.50%)
       610,000,000      cache-misses                     #   61.000 % of all cache refs      (49.98%)

      10.051571429 seconds time elapsed`,
		[]string{"0.21 instructions per cycle", "61 % of cache-references"}},
	{"perf stat of a German locale", "cpu-waits-for-memory/machine", `
 Performance counter stats for './sim':
          5.012,31 msec task-clock                       #    0,998 CPUs utilized
    12.530.775.000      cycles:u                         #    2,500 GHz
     3.759.232.500      instructions:u                   #    0,30  insn per cycle`,
		[]string{"0.3 instructions per cycle"}},
	{"perf stat -x,", "tlb-misses/perf", `
4001.20,msec,task-clock,4001200000,100.00,1.000,CPUs utilized
12003600000,,cycles,4001200000,100.00,3.000,GHz
14404320000,,instructions,4001200000,100.00,1.20,insn per cycle
4000000000,,dTLB-loads,4001200000,100.00,999.7,M/sec
500000000,,dTLB-load-misses,4001200000,100.00,12.50,of all dTLB cache accesses`,
		[]string{"12 % of the loads", "miss the TLB"}},
	{"perf stat -I -x;", "branch-misses/perf", `
1.000104;CPU0;1000,1;msec;cpu-clock;1000100000;100,00;;
1.000104;CPU0;2000000000;;cpu_core/cycles/;1000100000;100,00;;
1.000104;CPU0;3000000000;;cpu_core/instructions/;1000100000;100,00;;
1.000104;CPU0;600000000;;branches;1000100000;100,00;;
1.000104;CPU0;90000000;;branch-misses;1000100000;100,00;;
2.000211;CPU0;600000000;;branches;1000100000;100,00;;
2.000211;CPU0;30000000;;branch-misses;1000100000;100,00;;`,
		[]string{"10 %", "120,000,000 branch-misses"}},
	{"perf stat and lscpu", "cpu-slow/machine", `
$ lscpu
CPU(s):                  16
On-line CPU(s) list:     0-15
CPU max MHz:             3900.0000
NUMA node(s):            1
$ perf stat -a sleep 5
 Performance counter stats for 'system wide':
         80,000.00 msec cpu-clock                        #   16.000 CPUs utilized
    96,000,000,000      cycles                           #    1.200 GHz
   120,000,000,000      instructions                     #    1.25  insn per cycle`,
		[]string{"1200 MHz", "31 %", "3900 MHz"}},
	{"lscpu, CPUs offline", "cpus-offline/machine", `
Architecture:        x86_64
CPU(s):              8
On-line CPU(s) list: 0-3
Off-line CPU(s) list: 4-7`, []string{"4-7"}},
	{"numastat", "numa-remote/machine", `
                           node0           node1
numa_hit              1259462318       892102113
numa_miss                2103481        99201123
numa_foreign            99201123         2103481
interleave_hit             40211           40180
local_node             959462318       592102113
other_node             302103481       399201123`,
		[]string{"31 %", "node 1", "since boot"}},
	{"numastat twice", "numa-remote/machine", `
$ numastat
                           node0           node1
local_node             959462318       592102113
other_node                103481          201123
$ sleep 10; numastat
                           node0           node1
local_node             959472318       592112113
other_node                103481          221123`,
		[]string{"50 %", "other_node 20,000, local_node 20,000"}},
	{"numastat -m", "numa-full/node0", `
Per-node system memory usage (in MBs):
                          Node 0          Node 1           Total
                 --------------- --------------- ---------------
MemTotal                64213.21        64502.11       128715.32
MemFree                   512.40        40123.90        40636.30
MemUsed                 63700.81        24378.21        88079.02`,
		[]string{"node 0", "node 1"}},
	{"numastat -p", "numa-spread/PID 4711 (qemu-kvm)", `
Per-node process memory usage (in MBs) for PID 4711 (qemu-kvm)
                           Node 0          Node 1           Total
                  --------------- --------------- ---------------
Huge                         0.00            0.00            0.00
Heap                        12.04            1.00           13.04
Stack                        0.11            0.02            0.13
Private                   9021.30         6010.20        15031.50
----------------  --------------- --------------- ---------------
Total                     9033.45         6011.22        15044.67`,
		[]string{"qemu-kvm", "40 %"}},
	{"lsof, deleted files", "deleted-files/java", `
COMMAND    PID     USER   FD      TYPE             DEVICE    SIZE/OFF       NODE NAME
systemd      1     root  cwd       DIR              253,0         256         64 /
java      4711      app    1w      REG              253,3 12884901888      10021 /var/log/app/catalina.out (deleted)
java      4711      app    2w      REG              253,3 12884901888      10021 /var/log/app/catalina.out (deleted)
java      4711      app   40u     IPv6              88120         0t0        TCP *:8080 (LISTEN)
mysqld     900    mysql   12u      REG              253,3        4096      20044 /tmp/ib abc (deleted)`,
		[]string{"java[4711]", "12 GiB", "/var/log/app/catalina.out", "descriptor 1w"}},
	{"lsof, unclosed sockets", "connections-unclosed/agent", "COMMAND PID USER FD TYPE DEVICE " +
		"SIZE/OFF NODE NAME\n" + numbered(60, func(n int) string {
		return fmt.Sprintf("agent 77 root %du sock 0,9 0t0 %d protocol: TCP\n", n, 9000+n)
	}), []string{"agent[77]", "60 sockets"}},
	{"lsof, near the limit", "limit-reached/files:nginx", numbered(1020, func(n int) string {
		return fmt.Sprintf("nginx 31 www-data %du IPv4 %d 0t0 TCP 10.0.0.1:80->10.0.0.2:%d "+
			"(ESTABLISHED)\n", n, 7000+n, 30000+n)
	}), []string{"nginx[31]", "1,020"}},
	{"slabtop -o", "kernel-memory/kmalloc-512", `
 Active / Total Objects (% used)    : 22098679 / 22200353 (99.5%)
 Active / Total Size (% used)       : 9560717.42K / 9580514.62K (99.8%)
 Minimum / Average / Maximum Object : 0.01K / 0.26K / 50.28K

  OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME
384636 374781  97%    0.19K  18316       21     73264K dentry
18000000 18000000 100%    0.50K 562500       32   9000000K kmalloc-512`,
		[]string{"kmalloc-512", "8.58 GiB", "cannot free"}},
	{"slabtop and free", "kernel-memory/dentry", `
$ free -h
               total        used        free      shared  buff/cache   available
Mem:            62Gi       1.1Gi        18Gi       8.7Mi        43Gi        60Gi
Swap:             0B          0B          0B
$ slabtop -o
  OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME
99384636 99374781  99%    0.19K  4732602       21  18930408K dentry`,
		[]string{"29 % of the memory", "frees it"}},
	{"tc -s qdisc", "net-drops/eth0/queue", `
qdisc noqueue 0: dev lo root refcnt 2
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
qdisc tbf 8001: dev eth0 root refcnt 2 rate 100Mbit burst 32Kb lat 50.0ms
 Sent 7107451000 bytes 4726060 pkt (dropped 471200, overlimits 990112 requeues 2)
 backlog 120090b 81p requeues 2`,
		[]string{"eth0", "tbf", "9.1 %", "81 packets wait"}},
	{"free -h", "memory-pressure/machine", `
               total        used        free      shared  buff/cache   available
Mem:            62Gi        60Gi       310Mi       8.7Mi       1.2Gi       512Mi
Swap:          2.0Gi       1.9Gi        20Mi`, []string{"0.8 % of the memory"}},
	{"df with long devices", "filesystem-full//srv", `
Filesystem           1K-blocks      Used Available Use% Mounted on
/dev/mapper/vg_srv-lv_root_with_a_long_name
                      51475068  12000000  36853628  25% /
/dev/mapper/vg_srv-lv_data_with_a_long_name
                     103081248 103081248         0 100% /srv`,
		[]string{"/srv", "100 %"}},
}

func numbered(n int, line func(int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line(i))
	}
	return b.String()
}

// TestSystemHealthy: the same tools on machines without a fault.
func TestSystemHealthy(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"perf stat", `
 Performance counter stats for 'system wide':
         80,412.55 msec cpu-clock                        #    8.000 CPUs utilized
   201,031,370,000      cycles                           #    2.500 GHz
   102,216,587,700      instructions                     #    0.51  insn per cycle
     8,100,000,000      branches                         #  100.731 M/sec
       610,000,000      branch-misses                    #    7.53% of all branches`},
		{"perf stat of an idle machine", `
 Performance counter stats for 'system wide':
         80,412.55 msec cpu-clock                        #    8.000 CPUs utilized
        91,031,370      cycles                           #    0.001 GHz
        12,216,587      instructions                     #    0.13  insn per cycle`},
		{"numastat", "node0 node1\nlocal_node 959462318 592102113\nother_node 102103481 9201123"},
		{"lsof", "java 4711 app 1w REG 253,3 900000000 10021 /var/log/x (deleted)\n" +
			"java 4711 app 2u REG 0,1 90000000000 10021 /memfd:pool (deleted)\n" +
			"java 4711 app 3u REG 0,1 90000000000 10022 /dev/shm/pool (deleted)"},
		{"slabtop", "9384636 9374781 99% 0.19K 446887 21 1787548K dentry"},
		{"tc", "qdisc pfifo_fast 0: dev eth0 root refcnt 2 bands 3\n" +
			"Sent 7107451 bytes 72606000 pkt (dropped 70000, overlimits 0 requeues 2)\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Read("ticket.txt", tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if r := Diagnose([]*Capture{c}); len(r.Findings) > 0 {
				t.Errorf("findings %v", ids(r))
			}
		})
	}
}

func TestNumberUnits(t *testing.T) {
	for text, want := range map[string]float64{"23Gi": 23 << 30, "1.5MiB": 1.5 * (1 << 20), "0B": 0,
		"512B": 512, "4,5Gi": 4.5 * (1 << 30), "12k": 12 << 10} {
		if v, ok := number(text); !ok || v != want {
			t.Errorf("%s is %v, %v, want %v", text, v, ok, want)
		}
	}
	for _, text := range []string{"Gi", "B", "i", "iB", "xB", "wifi", "Mi"} {
		if v, ok := number(text); ok {
			t.Errorf("%s is %v, want no number", text, v)
		}
	}
}

package captured

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// faults lists tables of other machines, tools and versions, with the finding that they allow.
var faults = []struct {
	name, id, text string
	words          []string
}{
	{"mpstat of Linux, softirq on one CPU", "cpu-unlike-peers/cpu3", `
12:00:01 PM  CPU   %usr   %nice   %sys %iowait   %irq   %soft  %steal  %guest   %idle
12:00:02 PM  all    3.10    0.00   1.20    0.00    0.00   24.00    0.00    0.00   71.70
12:00:02 PM    0    4.00    0.00   1.00    0.00    0.00    0.50    0.00    0.00   94.50
12:00:02 PM    1    3.00    0.00   2.00    0.00    0.00    1.00    0.00    0.00   94.00
12:00:02 PM    2    5.00    0.00   1.00    0.00    0.00    0.00    0.00    0.00   94.00
12:00:02 PM    3    0.40    0.00   1.00    0.00    0.00   96.00    0.00    0.00    2.60
12:00:02 PM    4    2.00    0.00   1.00    0.00    0.00    0.50    0.00    0.00   96.50`,
		[]string{"96 % soft", "2.6 % idle"}},
	{"mpstat with decimal commas", "cpu-unlike-peers/cpu1", `
14:00:01  CPU   %usr   %nice   %sys %iowait   %irq   %soft  %steal  %guest  %gnice  %idle
14:00:02    0   1,00   0,00   1,00   0,00   0,00   0,00   0,00   0,00   0,00  98,00
14:00:02    1  12,00   0,00  80,00   0,00   0,00   0,00   0,00   0,00   0,00   8,00
14:00:02    2   2,00   0,00   1,00   0,00   0,00   0,00   0,00   0,00   0,00  97,00
14:00:02    3   3,00   0,00   1,00   0,00   0,00   0,00   0,00   0,00   0,00  96,00
Durchschn.:  0   1,00   0,00   1,00   0,00   0,00   0,00   0,00   0,00   0,00  98,00`,
		[]string{"80 % sys", "8 % idle"}},
	{"vmstat of Linux, swapping", "swapping/machine", `
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0 200000 100000  10000 500000    1    2    20    30  100  200  5  3 91  1  0
 3  2 900000  20000   1000  40000 9000 7000  9100  7200 3000 5000 10 12 50 28  0
 2  3 950000  20000   1000  40000 8000 6000  8100  6200 3000 5000 10 12 50 28  0`,
		[]string{"7.81 MiB in", "5.86 MiB out"}},
	{"vmstat of Solaris, page scanner", "memory-pressure/machine", `
 kthr      memory            page            disk          faults      cpu
 r b w   swap  free  re  mf pi po fr de sr m0 m1 m2 m3   in   sy   cs us sy id
 0 0 0 9000000 800000 10 20 0 0 0 0 0 0 0 0 0 400 900 500 5 5 90
 2 0 0 900000 12000 90 220 80 900 1800 0 4300 0 0 0 0 900 1900 1500 25 15 60
 2 0 0 900000 11000 90 220 80 900 1800 0 4700 0 0 0 0 900 1900 1500 25 15 60`,
		[]string{"4,300 pages/s"}},
	{"iostat of sysstat 12", "disk-saturated/sdb", `
Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util
sda              1.00      4.00     0.00   0.00    0.40     4.00    2.00      8.00     0.00   0.00    0.50     4.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    0.00   0.30
sdb             80.00    640.00     0.00   0.00   95.00     8.00   40.00    320.00     0.00   0.00  210.00     8.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00   15.20  99.70`,
		[]string{"99.7 % busy", "133 ms a request"}},
	{"iostat of sysstat 9", "disk-saturated/sdc", `
Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util
sdc               0.00     3.00  110.00   20.00  1760.00   160.00    14.77     7.90   61.00   7.60  98.80`,
		[]string{"61 ms a request", "7.9 requests"}},
	{"iostat of Solaris", "disk-saturated/c1t0d0", `
                    extended device statistics
    r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b device
    0.2    0.4    1.6    3.2  0.0  0.0    0.0    5.0   0   0 c0t0d0
   95.0  120.0  760.0  960.0  0.0  9.5    0.0   44.2   0 100 c1t0d0`,
		[]string{"44.2 ms a request", "100 % busy"}},
	{"sar -d", "disk-saturated/dm-4", `
09:10:01 AM       DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
09:20:01 AM      dm-3      1.00      4.00      4.00      0.00      8.00      0.00      0.50      0.10
09:20:01 AM      dm-4    210.00   1680.00      0.00      0.00      8.00      6.20     29.50     97.30`,
		[]string{"97.3 % busy", "29.5 ms a request"}},
	{"sar -n EDEV", "net-drops/ens5", `
10:00:01        IFACE   rxerr/s   txerr/s    coll/s  rxdrop/s  txdrop/s  txcarr/s  rxfram/s  rxfifo/s  txfifo/s
10:00:02           lo      0.00      0.00      0.00      0.00      0.00      0.00      0.00      0.00      0.00
10:00:02         ens5      0.00      0.00      0.00    812.00      0.00      0.00      0.00      0.00      0.00`,
		[]string{"812 per second"}},
	{"sar -n TCP,ETCP", "tcp-retransmits/machine", `
10:00:01     active/s passive/s    iseg/s    oseg/s
10:00:02         2.00      5.00   9000.00  10000.00
10:00:01     atmptf/s  estres/s retrans/s isegerr/s   orsts/s
10:00:02         0.00      0.00    700.00      0.00      0.00`,
		[]string{"7 %", "700"}},
	{"netstat -s", "tcp-listen-overflow/machine", `
Tcp:
    1200 active connection openings
    90000 segments received
    80000 segments sent out
    12 segments retransmitted
TcpExt:
    48213 times the listen queue of a socket overflowed
    48213 SYNs to LISTEN sockets dropped`,
		[]string{"48,213 times"}},
	{"nicstat of another machine", "interface-unused/bge2", `
    Time      Int   rKB/s   wKB/s   rPk/s   wPk/s    rAvs    wAvs %Util    Sat
07:01:02     bge1  4012.0   301.0  3300.5  5800.1  1244.8   53.14  3.53   0.00
07:01:02     bge2  4020.0    0.00  3305.5    0.00  1245.3    0.00  3.29   0.00`,
		[]string{"3,305.5 packets/s", "bge1 beside it"}},
	{"prstat -mL, waiting for CPUs", "thread-lat/java/9", `
   PID USERNAME USR SYS TRP TFL DFL LCK SLP LAT VCX ICX SCL SIG PROCESS/LWPID
  4711 app       40 5.0 0.0 0.0 0.0 0.0  15  40 200 900  2K   0 java/9
  4712 app      0.1 0.1 0.0 0.0 0.0 0.0 100 0.0  10   0  20   0 cron/1`,
		[]string{"waits for a CPU 40 %"}},
	{"ethtool at half of its speed", "link-below-mode/eno1", `
Settings for eno1:
	Supported link modes:   100baseT/Full
	                        1000baseT/Full
	                        10000baseT/Full
	Link partner advertised link modes:  100baseT/Full 1000baseT/Full
	Speed: 1000Mb/s
	Duplex: Full
	Link detected: yes`,
		[]string{"1 of 10 Gbit/s", "at most 1000 Mbit/s"}},
	{"top of procps 4", "cpu-saturated/machine", `
top - 10:11:12 up 3 days,  2:03,  1 user,  load average: 9.80, 8.00, 7.00
Tasks: 120 total,   9 running, 111 sleeping,   0 stopped,   0 zombie
%Cpu(s): 88.0 us, 11.0 sy,  0.0 ni,  1.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st
MiB Mem :   7950.1 total,   3000.0 free,   2000.0 used,   2950.1 buff/cache
MiB Swap:      0.0 total,      0.0 free,      0.0 used.   5600.0 avail Mem
    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
   4242 www       20   0  999.9m 120000   9000 R 180.0   1.5  12:34.56 php-fpm: pool www
    991 root      20   0  250000  12000   9000 S   1.0   0.1   0:10.00 sshd`,
		[]string{"1 % idle", "php-fpm", "180 %"}},
	{"steal", "cpu-steal/machine", `
Linux 5.10.0 (guest7) 01/02/26 _x86_64_ (4 CPU)
10:00:01 CPU %user %nice %system %iowait %steal %idle
10:00:02 all 20.00 0.00 5.00 0.00 41.00 34.00`,
		[]string{"41 %"}},
	{"df", "filesystem-full//var", `
Filesystem     1K-blocks     Used Available Use% Mounted on
/dev/sda1       20511312  5000000  14446356  26% /
/dev/sda2       10255636 10255636         0 100% /var`,
		[]string{"/var", "100 %"}},
	{"free", "memory-pressure/machine", `
              total        used        free      shared  buff/cache   available
Mem:       16265092    15700000      110000       30000      455092      300000
Swap:       2097148     2097148           0`,
		[]string{"1.8 %"}},
	{"lockstat, contention", "lock-contention/cache_lock", `
Adaptive mutex spin: 90210 events in 10.011 seconds (9011 events/sec)
Count indv cuml rcnt     nsec Lock                   Caller
60000  67%  67% 0.00    41000 cache_lock             dnlc_lookup+0x30
30210  33% 100% 0.00      900 p_lock                 exit+0x10`,
		[]string{"60,000 times", "41 us", "dnlc_lookup"}},
	{"netperf and ethtool", "link-saturated/the link", `
# netperf -H 192.0.2.9
MIGRATED TCP STREAM TEST from 0.0.0.0 port 0 AF_INET to 192.0.2.9 () port 0 AF_INET
 87380  16384  16384    10.00     941.32`,
		[]string{"0.94 Gbit/s of 1 Gbit/s"}},
	{"ss -ti, closed window", "connection-limited/192.0.2.7:40000", `
State Recv-Q Send-Q Local Address:Port Peer Address:Port
ESTAB 0      912384 192.0.2.1:80 192.0.2.7:40000
	 cubic wscale:7,7 rto:204 rtt:0.9/0.1 mss:1448 cwnd:10 segs_out:9000 rwnd_limited:91000ms(97.2%)`,
		[]string{"97.2 %", "receive window"}},
	{"ss -ltnp, full queue", "tcp-listen-overflow/0.0.0.0:8080", `
State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process
LISTEN 0      128          0.0.0.0:22        0.0.0.0:*    users:(("sshd",pid=811,fd=3))
LISTEN 129    128          0.0.0.0:8080      0.0.0.0:*    users:(("uwsgi",pid=977,fd=4),("uwsgi",pid=978,fd=4))`,
		[]string{"uwsgi at 0.0.0.0:8080", "129 of 128"}},
	{"ss -xl, full queue", "tcp-listen-overflow//run/php-fpm.sock", `
Netid State  Recv-Q Send-Q        Local Address:Port  Peer Address:Port
u_str LISTEN 0      4096  /run/systemd/private 14100            * 0
u_str LISTEN 512    511   /run/php-fpm.sock 33841                * 0`,
		[]string{"512 of 511", "/run/php-fpm.sock"}},
	{"netstat -ant, no answers", "connections-fail/198.51.100.9:5432", `
Active Internet connections (servers and established)
Proto Recv-Q Send-Q Local Address           Foreign Address         State
tcp        0      0 0.0.0.0:22              0.0.0.0:*               LISTEN
tcp        0      1 192.0.2.4:40112         198.51.100.9:5432       SYN_SENT
tcp        0      1 192.0.2.4:40114         198.51.100.9:5432       SYN_SENT
tcp        0      1 192.0.2.4:40116         198.51.100.9:5432       SYN_SENT
tcp        0      1 192.0.2.4:40118         198.51.100.9:5432       SYN_SENT
tcp        0      1 192.0.2.4:40120         198.51.100.9:5432       SYN_SENT
tcp        0      0 192.0.2.4:22            198.51.100.20:51000     ESTABLISHED`,
		[]string{"5 connections wait", "does not answer"}},
	{"netstat of Solaris, unclosed", "connections-unclosed/192.0.2.1.8443", `
TCP: IPv4
   Local Address        Remote Address    Swind Send-Q Rwind Recv-Q    State
-------------------- -------------------- ----- ------ ----- ------ -----------
` + strings.Repeat("192.0.2.1.8443       192.0.2.77.51234     49640      0 49640      0 CLOSE_WAIT\n", 60),
		[]string{"60 connections", "closed by their peers", "192.0.2.77.51234"}},
	{"netstat -antp, unclosed", "connections-unclosed/java", strings.Repeat(
		"tcp6  1  0  10.1.2.3:8080  10.1.2.9:40022  CLOSE_WAIT  4711/java\n", 75),
		[]string{"75 connections", "not by java"}},
	{"ss -tan, used ports", "limit-reached/ports-10.0.0.5:3306", strings.Repeat(
		"TIME-WAIT 0 0 10.0.0.4:41000 10.0.0.5:3306\n", 25000),
		[]string{"25,000 connections", "28,232"}},
	{"ss -tn, unread", "tcp-stalled/10.0.0.4:9092", `
State Recv-Q  Send-Q Local Address:Port Peer Address:Port Process
ESTAB 6291456 0      10.0.0.4:9092      10.0.0.8:51214    users:(("consumer",pid=5,fd=9))
ESTAB 0       36     10.0.0.4:22        10.0.0.2:51214    users:(("sshd",pid=7,fd=4))`,
		[]string{"consumer", "does not read", "6.29 MB"}},
	{"quantize of a probe that the command names", "function-slow/ufs_lookup", `
# dtrace -n 'fbt::ufs_lookup:entry{self->t=timestamp;} fbt::ufs_lookup:return{@["ns"]=quantize(1);}'
  ns
           value  ------------- Distribution ------------- count
          524288 |                                         0
         1048576 |@@@@@@@@@@@@@@@@@@@@                     50
         2097152 |@@@@@@@@@@@@@@@@@@@@                     50
         4194304 |                                         0
# lockstat -i 97 -I sleep 10
Profiling interrupt: 7760 events in 10.0 seconds (776 events/sec)
4000 52% 52% 0.00 1000 cpu[3] mach_cpu_idle+0x6
2100 27% 79% 0.00 1000 cpu[1] zfs_find_hash+0x50`,
		[]string{"1-2 ms", "100 calls"}},
	{"quantize with another function", "function-slow/arc_evict_us", `
  arc_evict_us
           value  ------------- Distribution ------------- count
            1024 |                                         0
            2048 |@@@@@@@@@@@@@@@@@@@@@@                   5500
            4096 |@@@@@@@@@@@@@@@@@@                       4500
            8192 |                                         0`,
		[]string{"2-4 ms", "10,000 calls"}},
}

func TestFaults(t *testing.T) {
	for _, tt := range slices.Concat(faults, systemFaults) {
		for _, v := range variants {
			t.Run(tt.name+"/"+v.name, func(t *testing.T) {
				c, err := Read("ticket.txt", v.change(tt.text))
				if err != nil {
					t.Fatal(err)
				}
				r := Diagnose([]*Capture{c})
				f := findingOf(r, tt.id)
				if f == nil {
					t.Fatalf("no finding %s, only %v; ruled out %v", tt.id, ids(r), r.Fine)
				}
				for _, w := range tt.words {
					if !strings.Contains(textOf(f)+strings.Join(f.Against, " "), w) {
						t.Errorf("%q is missing in:\n%s", w, textOf(f))
					}
				}
			})
		}
	}
}

// TestGeneratedCPUs makes Solaris's mpstat of machines of 4 to 256 CPUs: with one busy CPU that CPU
// is named, and without one none is.
func TestGeneratedCPUs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 4 + random.IntN(253)
		busy, sys := random.IntN(n), 45+random.IntN(50)
		for _, sick := range []bool{true, false} {
			var b strings.Builder
			if random.IntN(2) == 0 {
				b.WriteString("CPU minf mjf xcal intr ithr csw icsw migr smtx srw syscl usr sys " +
					"wt idl\n")
			}
			for cpu := range n {
				u, k := random.IntN(8), random.IntN(8)
				if sick && cpu == busy {
					k = sys
				}
				fmt.Fprintf(&b, "%d %d 0 %d %d 90 300 2 9 30 1 900 %d %d 0 %d\n", cpu,
					random.IntN(900), random.IntN(99), random.IntN(5000), u, k, 100-u-k)
			}
			c, err := Read("mpstat", b.String())
			if err != nil {
				t.Fatal(err)
			}
			r := Diagnose([]*Capture{c})
			if f := findingOf(r, fmt.Sprintf("cpu-unlike-peers/cpu%d", busy)); (f != nil) != sick {
				t.Fatalf("%d CPUs, CPU %d with %d %% sys (%v): %v\n%s", n, busy, sys, sick, ids(r),
					b.String())
			}
			if !sick && len(r.Findings) > 0 {
				t.Fatalf("findings on a healthy machine: %v", ids(r))
			}
		}
	}
}

// TestGeneratedProfiles makes profiles of lockstat with other names and numbers.
func TestGeneratedProfiles(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		cpus, hot := 1+random.IntN(8), 300+random.IntN(300)
		total := 2000
		name := []string{"ufs_inode_purge", "arc_shrink", "nfs4_rnode_flush"}[random.IntN(3)]
		rows := []string{fmt.Sprintf("%d 40%% 40%% 0.00 2000 cpu[0] (usermode)", 800)}
		left := hot
		for i := 0; left > 0; i++ {
			k := min(left, 1+random.IntN(60))
			left -= k
			rows = append(rows, fmt.Sprintf("%d 1%% 41%% 0.00 3000 cpu[%d] %s+0x%x", k, i%cpus,
				name, 4*i))
		}
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		c, err := Read("lockstat", fmt.Sprintf("Profiling interrupt: %d events in 5.0 seconds "+
			"(400 events/sec)\n%s\n", total, strings.Join(rows, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		f := findingOf(Diagnose([]*Capture{c}), "cache-purge/"+name)
		if f == nil || !strings.Contains(f.Claim, fmt.Sprintf("%d of 2,000", hot)) {
			t.Fatalf("%s with %d samples: %v", name, hot, f)
		}
	}
}

package classic

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// cells returns the named columns of a table, one line per row, as unformatted numbers.
func cells(t *testing.T, tab *view.Table, names string) string {
	t.Helper()
	var lines []string
	for _, r := range tab.Rows {
		var line []string
		for name := range strings.FieldsSeq(names) {
			i := tab.Column(name)
			if i < 0 {
				t.Fatalf("there is no column %s", name)
			}
			c := r.Cells[i]
			if c.Kind == view.IsNumber {
				line = append(line, strconv.FormatFloat(c.Num, 'g', 6, 64))
			} else {
				line = append(line, tab.Columns[i].Format(c))
			}
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return strings.Join(lines, "\n")
}

// asks reports whether one of the queries asks the statistic of q by all fields of q.
func asks(t *testing.T, queries []string, q measure.Query) bool {
	t.Helper()
	for _, text := range queries {
		asked, err := measure.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		missing := func(field string) bool { return !slices.Contains(asked.By, field) }
		if asked.Stat == q.Stat && !slices.ContainsFunc(q.By, missing) {
			return true
		}
	}
	return false
}

// Each column shows its own statistic. No two values of an answer are equal, so a test fails if two
// columns are exchanged, such as read and write. Each statistic must be one that the tool asks, or
// the column would stay empty for ever.
func TestColumnsShowTheirStatistics(t *testing.T) {
	delta := func(query string, lines ...string) *measure.Answer {
		return viewtest.Answer(t, query, measure.Delta, false, lines...)
	}
	level := func(query string, lines ...string) *measure.Answer {
		return viewtest.Answer(t, query, measure.Level, false, lines...)
	}
	tests := []struct {
		name    string
		tool    *view.Tool
		options view.Options
		answers []*measure.Answer
		columns string
		want    string
	}{
		{
			name: "disk rates",
			tool: Disk(),
			answers: []*measure.Answer{
				level("disk.info by device,kind", "sda disk 1"),
				delta("disk.operations by device,direction",
					"sda read 10", "sda write 20", "sda discard 40", "sda flush 80"),
				delta("disk.bytes by device,direction",
					"sda read 1000", "sda write 4000", "sda discard 16000"),
				delta("disk.merges by device,direction",
					"sda read 30", "sda write 5", "sda discard 160"),
			},
			columns: "reads_per_s writes_per_s discards_per_s flushes_per_s " +
				"read_bytes_per_s written_bytes_per_s discarded_bytes_per_s " +
				"read_avg_bytes write_avg_bytes discard_avg_bytes " +
				"read_merges_per_s write_merges_per_s discard_merges_per_s " +
				"read_merge_ratio write_merge_ratio discard_merge_ratio",
			want: "10 20 40 80 1000 4000 16000 100 200 400 30 5 160 0.75 0.2 0.8",
		},
		{
			name: "disk times",
			tool: Disk(),
			answers: []*measure.Answer{
				level("disk.info by device,kind", "sda disk 1"),
				delta("disk.operations by device,direction",
					"sda read 10", "sda write 10", "sda discard 10", "sda flush 10"),
				delta("disk.wait by device,direction",
					"sda read 0.03", "sda write 0.07", "sda discard 0.11", "sda flush 0.13"),
				delta("disk.busy by device", "sda 0.6"),
				delta("disk.queue by device", "sda 1.7"),
				delta("disk.errors by device", "sda 3"),
				level("disk.inflight by device", "sda 9"),
			},
			columns: "read_await_ns write_await_ns discard_await_ns flush_await_ns " +
				"util queue errors_per_s inflight",
			want: "3e+06 7e+06 1.1e+07 1.3e+07 0.6 1.7 3 9",
		},
		{
			name: "df",
			tool: DF(),
			answers: []*measure.Answer{
				level("filesystem.size by mount,device,type,kind", "/ /dev/sda ext4 total 100",
					"/ /dev/sda ext4 used 30", "/ /dev/sda ext4 available 50"),
				level("filesystem.inodes by mount,device,type,kind", "/ /dev/sda ext4 total 8",
					"/ /dev/sda ext4 used 2", "/ /dev/sda ext4 available 6"),
				level("filesystem.access by mount,device,type,access", "/ /dev/sda ext4 ro 1"),
			},
			columns: "device type size_bytes used_bytes available_bytes use_ratio " +
				"inodes inodes_used inodes_free inodes_ratio access mount",
			want: "/dev/sda ext4 100 30 50 0.375 8 2 6 0.25 ro /",
		},
		{
			name: "use: busy and waiting disks differ",
			tool: Use(),
			answers: []*measure.Answer{
				level("disk.info by device,kind", "sda disk 1", "sdb disk 1"),
				delta("disk.busy by device", "sda 0.8", "sdb 0.3"),
				delta("disk.queue by device", "sda 2", "sdb 5"),
				delta("disk.errors by device", "sda 1", "sdb 10"),
			},
			columns: "disk_util disk disk_saturation errors_per_s",
			want:    "0.8 sda 5 11",
		},
		{
			name: "use: the queue of the only disk",
			tool: Use(),
			answers: []*measure.Answer{
				level("disk.info by device,kind", "sda disk 1"),
				delta("disk.busy by device", "sda 0.8"),
				delta("disk.queue by device", "sda 2.5"),
			},
			columns: "disk_util disk_saturation",
			want:    "0.8 2.5",
		},
		{
			name: "use: CPU, memory, pressure",
			tool: Use(),
			answers: []*measure.Answer{
				delta("cpu.time by cpu,mode", "0 usr 0.5", "0 iowait 0.1", "0 idle 0.4"),
				level("memory.size by kind", "total 1000", "available 250"),
				delta("memory.scan", "100"),
				delta("memory.swap by direction", "in 7", "out 20"),
				delta("memory.oom", "3"),
				level("sched.runnable", "5"),
				level("sched.load by window", "1m 1.5", "5m 2.5"),
				delta("pressure.time by resource,scope", "cpu some 0.11", "memory some 0.22",
					"io some 0.33", "io full 0.3"),
			},
			columns: "cpu_util memory_util cpu_saturation memory_saturation_bytes_per_s " +
				"errors_per_s load_1m pressure_cpu pressure_memory pressure_io",
			want: "0.5 0.75 4 120 3 1.5 0.11 0.22 0.33",
		},
		{
			name: "nic",
			tool: NIC(),
			answers: []*measure.Answer{
				level("net.device.info by netns,device,admin,duplex", "'' eth0 up full 1"),
				delta("net.device.bytes by netns,device,direction",
					"'' eth0 rx 1000", "'' eth0 tx 6000"),
				delta("net.device.packets by netns,device,direction",
					"'' eth0 rx 10", "'' eth0 tx 20"),
				delta("net.device.wire by netns,device,direction",
					"'' eth0 rx 1100", "'' eth0 tx 7000"),
				level("net.device.capacity by netns,device,direction,from",
					"'' eth0 rx ethtool 80000", "'' eth0 tx qdisc 100000"),
				delta("net.device.errors by netns,device,direction",
					"'' eth0 rx 1", "'' eth0 tx 2"),
				delta("net.device.drops by netns,device,direction",
					"'' eth0 rx 4", "'' eth0 tx 8"),
				delta("net.device.fifo by netns,device", "'' eth0 16"),
				delta("net.qdisc.drops by netns,device"+wholeQueue, "'' eth0 32"),
				delta("net.qdisc.requeues by netns,device"+wholeQueue, "'' eth0 64"),
				level("net.qdisc.queue by netns,device"+wholeQueue, "'' eth0 128"),
				delta("net.device.collisions by netns,device", "'' eth0 256"),
				delta("net.device.multicast by netns,device", "'' eth0 512"),
			},
			columns: "rx_bytes_per_s tx_bytes_per_s rx_packets_per_s tx_packets_per_s " +
				"rx_avg_bytes tx_avg_bytes util saturation_per_s wire_util errors_per_s " +
				"capacity_bits_per_s capacity_from rx_errors_per_s tx_errors_per_s " +
				"rx_drops_per_s tx_drops_per_s fifo_per_s queue_drops_per_s requeues_per_s " +
				"queue_packets collisions_per_s multicast_per_s",
			want: "1000 6000 10 20 100 300 0.48 60 0.56 3 100000 qdisc " +
				"1 2 4 8 16 32 64 128 256 512",
		},
		{
			name: "cpu",
			tool: CPU(),
			answers: []*measure.Answer{
				delta("cpu.time by cpu,mode", "0 usr 0.01", "0 nice 0.02", "0 sys 0.04",
					"0 iowait 0.08", "0 irq 0.03", "0 soft 0.05", "0 steal 0.06", "0 guest 0.07",
					"0 guest_nice 0.09", "0 idle 0.45", "0 unaccounted 0.1"),
				delta("cpu.interrupts by cpu", "0 7"),
				delta("softirq.count by cpu", "0 9"),
				delta("sched.switches", "11"),
			},
			options: view.Options{"extended": {""}, "summary": {""}},
			columns: "usr nice sys iowait irq soft steal guest guest_nice idle unaccounted " +
				"interrupts_per_s softirqs_per_s switches_per_s",
			want: "0.01 0.02 0.04 0.08 0.03 0.05 0.06 0.07 0.09 0.45 0.1 7 9 11",
		},
		{
			name: "mem rates",
			tool: Mem(),
			answers: []*measure.Answer{
				level("sched.runnable", "1"),
				level("sched.blocked", "2"),
				delta("memory.swap by direction", "in 3", "out 4"),
				delta("memory.paging by direction", "in 5", "out 6"),
				delta("memory.scan", "7"),
				delta("memory.reclaim", "8"),
				delta("memory.stalls", "9"),
				delta("memory.faults by type", "minor 10", "major 11"),
				delta("system.interrupts", "12"),
				delta("sched.switches", "13"),
				delta("pressure.time by resource,scope", "memory some 0.14", "memory full 0.1"),
			},
			columns: "runnable blocked swap_in_bytes_per_s swap_out_bytes_per_s read_bytes_per_s " +
				"written_bytes_per_s scan_bytes_per_s reclaim_bytes_per_s stalls_per_s " +
				"minor_faults_per_s major_faults_per_s interrupts_per_s switches_per_s " +
				"pressure_some",
			want: "1 2 3 4 5 6 7 8 9 10 11 12 13 0.14",
		},
		{
			name: "mem sizes",
			tool: Mem(),
			answers: []*measure.Answer{
				level(
					"memory.size by kind", "total 900", "swap_total 100", "swap_free 40", "free 1",
					"buffers 2", "cached 4", "slab_reclaimable 8", "available 16", "anon 32",
					"mapped 33", "shmem 34", "active 35", "inactive 36", "dirty 37", "writeback 38",
					"slab_unreclaimable 39", "kernel_stack 40", "page_tables 41", "vmalloc 42",
					"committed 500",
				),
			},
			columns: "swap_used_bytes free_bytes buffers_bytes cache_bytes available_bytes " +
				"anon_bytes mapped_bytes shared_bytes active_bytes inactive_bytes " +
				"dirty_bytes writeback_bytes " +
				"slab_bytes kernel_stack_bytes page_table_bytes vmalloc_bytes committed_bytes " +
				"committed_ratio",
			want: "60 1 2 12 16 32 33 34 35 36 37 38 39 40 41 42 500 0.5",
		},
		{
			name: "ps",
			tool: PS(),
			answers: []*measure.Answer{
				delta("process.cpu by pid,process,mode", "7 sh usr 0.1", "7 sh sys 0.2"),
				delta("process.runwait by pid,process", "7 sh 0.3"),
				delta("process.delay by pid,process,reason", "7 sh blkio 0.4", "7 sh swapin 0.9"),
				delta("process.switches by pid,process,type",
					"7 sh voluntary 5", "7 sh involuntary 6"),
				delta("process.faults by pid,process,type", "7 sh minor 7", "7 sh major 8"),
				delta("process.io by pid,process,direction", "7 sh read 9", "7 sh write 10"),
				level("process.rss by pid,process", "7 sh 11"),
				level("process.threads by pid,process", "7 sh 12"),
				delta("process.short by pid,process", "7 sh 0.13"),
				level("process.state by pid,process,state", "7 sh T 1"),
			},
			columns: "state cpu usr sys run_wait disk_wait voluntary_switches_per_s " +
				"involuntary_switches_per_s minor_faults_per_s major_faults_per_s read_bytes_per_s written_bytes_per_s " +
				"rss_bytes threads children",
			want: "T 0.3 0.1 0.2 0.3 0.4 5 6 7 8 9 10 11 12 0.13",
		},
		{
			name: "ps, threads",
			tool: PS(),
			answers: []*measure.Answer{
				delta("thread.cpu by pid,process,tid,thread,mode",
					"7 sh 8 a usr 0.1", "7 sh 8 a sys 0.2"),
				delta("thread.runwait by pid,process,tid,thread", "7 sh 8 a 0.3"),
				delta("thread.switches by pid,process,tid,thread,type",
					"7 sh 8 a voluntary 5", "7 sh 8 a involuntary 6"),
				delta("thread.faults by pid,process,tid,thread,type",
					"7 sh 8 a minor 7", "7 sh 8 a major 9"),
			},
			options: view.Options{"threads": {""}},
			columns: "pid tid usr sys run_wait sleep voluntary_switches_per_s " +
				"involuntary_switches_per_s minor_faults_per_s major_faults_per_s",
			want: "7 8 0.1 0.2 0.3 0.4 5 6 7 9",
		},
		{
			name: "caches",
			tool: Caches(),
			answers: []*measure.Answer{
				level("cache.entries by netns,cache", "'' dentry 12"),
				level("cache.buckets by netns,cache", "'' dentry 4"),
				level("cache.bytes by netns,cache", "'' dentry 700"),
				delta("cache.growth by netns,cache", "'' dentry 5"),
				level("cache.limit by netns,cache", "'' dentry 90"),
			},
			columns: "cache entries buckets entries_per_bucket bytes growth_per_s limit",
			want:    "dentry 12 4 3 700 5 90",
		},
		{
			name: "tcp",
			tool: TCP(),
			answers: []*measure.Answer{
				delta("net.protocol.bytes by netns,protocol,counter",
					"'' IpExt InOctets 1000", "'' IpExt OutOctets 2000"),
				delta("net.protocol.events by netns,protocol,counter", "'' Tcp InSegs 3",
					"'' Tcp OutSegs 50", "'' Tcp EstabResets 5", "'' Tcp OutRsts 6",
					"'' Tcp AttemptFails 7", "'' Tcp RetransSegs 10", "'' Tcp PassiveOpens 8",
					"'' Tcp ActiveOpens 9", "'' TcpExt ListenDrops 12",
					"'' TcpExt ListenOverflows 13", "'' TcpExt TCPTimeouts 14",
					"'' TcpExt TCPFastRetrans 15", "'' Tcp InErrs 16",
					"'' TcpExt TCPSynRetrans 17", "'' TcpExt TCPLostRetransmit 18",
					"'' TcpExt TCPOFOQueue 19", "'' TcpExt PruneCalled 20", "'' Ip InReceives 21",
					"'' Ip OutRequests 22", "'' Ip ForwDatagrams 23", "'' Ip ReasmReqds 24",
					"'' Ip FragCreates 25"),
				level("net.protocol.level by netns,protocol,counter", "'' Tcp CurrEstab 26"),
				level("net.sockets by netns,protocol,state", "'' TCP inuse 27", "'' TCP tw 28",
					"'' TCP orphan 29"),
				level("net.sockets.memory by netns,protocol", "'' TCP 30"),
			},
			columns: "rx_bytes_per_s tx_bytes_per_s in_segments_per_s out_segments_per_s " +
				"resets_per_s attempt_fails_per_s retransmit_ratio passive_opens_per_s " +
				"active_opens_per_s listen_drops_per_s listen_overflows_per_s " +
				"retransmits_per_s timeouts_per_s fast_retransmits_per_s in_errors_per_s " +
				"resets_in_use_per_s resets_sent_per_s syn_retransmits_per_s " +
				"lost_retransmits_per_s out_of_order_per_s pruned_per_s ip_received_per_s " +
				"ip_sent_per_s ip_forwarded_per_s fragments_received_per_s " +
				"fragments_sent_per_s established sockets time_wait orphans socket_bytes",
			want: "1000 2000 3 50 11 7 0.2 8 9 12 13 10 14 15 16 5 6 17 18 19 20 21 22 23 24 25 " +
				"26 27 28 29 30",
		},
		{
			name: "udp",
			tool: TCP(),
			answers: []*measure.Answer{
				delta("net.protocol.events by netns,protocol,counter",
					"'' Udp InDatagrams 1", "'' Udp OutDatagrams 2", "'' Udp InErrors 3",
					"'' Udp RcvbufErrors 4", "'' Udp SndbufErrors 5", "'' Udp NoPorts 6",
					"'' Udp InCsumErrors 7"),
			},
			options: view.Options{"udp": {""}},
			columns: "in_datagrams_per_s out_datagrams_per_s in_errors_per_s " +
				"receive_buffer_errors_per_s send_buffer_errors_per_s no_port_per_s " +
				"checksum_errors_per_s",
			want: "1 2 3 4 5 6 7",
		},
		{
			name: "link",
			tool: Link(),
			answers: []*measure.Answer{
				level("net.device.info by netns,device,kind,admin,state,duplex,autoneg,mtu,"+
					"rxqueues,txqueues", "'' eth0 ethernet up down full on 1500 3 4 1"),
				level("net.device.speed by netns,device", "'' eth0 1000"),
				level("net.device.modes by netns,device,list,mode",
					"'' eth0 supported 2000baseT 2000"),
				delta("net.device.packets by netns,device,direction",
					"'' eth0 rx 5", "'' eth0 tx 6"),
				level("net.ring.size by netns,device,ring,bound", "'' eth0 rx current 7",
					"'' eth0 rx max 70", "'' eth0 tx current 8", "'' eth0 tx max 80"),
			},
			columns: "state speed_bits_per_s best_bits_per_s duplex autonegotiation mtu_bytes " +
				"rx_packets_per_s tx_packets_per_s rx_queues tx_queues rx_ring tx_ring",
			want: "up/down 1000 2000 full on 1500 5 6 3 4 7 8",
		},
		{
			name: "flows",
			tool: Flows(),
			answers: []*measure.Answer{
				delta("tcp.flow.bytes by "+flowFields+",direction",
					"'' 10.0.0.1 22 10.0.0.2 999 7 ssh server rx 100",
					"'' 10.0.0.1 22 10.0.0.2 999 7 ssh server tx 300"),
				delta("tcp.flow.retransmits by "+flowFields,
					"'' 10.0.0.1 22 10.0.0.2 999 7 ssh server 5"),
				level("tcp.flow.rtt by "+flowFields,
					"'' 10.0.0.1 22 10.0.0.2 999 7 ssh server 6000"),
				level("tcp.flow.delivery by "+flowFields,
					"'' 10.0.0.1 22 10.0.0.2 999 7 ssh server 7000"),
				delta("net.device.bytes by netns,device,direction",
					"'' eth0 rx 150", "'' eth0 tx 650"),
				level("net.device.info by netns,device,kind,lower", "'' eth0 ethernet '' 1"),
				level("net.device.address by netns,device,address", "'' eth0 10.0.0.1 1"),
			},
			columns: "residual local local_port peer peer_port rx_bytes_per_s tx_bytes_per_s " +
				"rtt_ns retransmits_per_s delivery_bits_per_s share connections",
			want: "no 10.0.0.1 22 10.0.0.2 999 100 300 6000 5 7000 0.5 1\n" +
				"yes - - - - 50 350 - - - 0.5 -",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			options := tt.options
			if options == nil {
				options = view.Options{}
			}
			for _, a := range tt.answers {
				if !asks(t, tt.tool.Ask(options), a.Query) {
					t.Errorf("the tool does not ask %s", a.Query.String())
				}
			}
			viewtest.Expect(
				t, cells(t, tt.tool.Table(options, viewtest.Frame(tt.answers...)), tt.columns),
				tt.want,
			)
		})
	}
}

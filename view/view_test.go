package view

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"culprit/measure"
)

// canned makes an answer of one second from lines "word word ... value"; "-" is NaN.
func canned(
	t *testing.T, sentence string, kind measure.Kind, sparse bool, lines ...string,
) *measure.Answer {
	t.Helper()
	q, err := measure.ParseQuery(sentence)
	if err != nil {
		t.Fatal(err)
	}
	a := &measure.Answer{
		Query:   q,
		Kind:    kind,
		Sparse:  sparse,
		Start:   1e9,
		Step:    measure.Second,
		Elapsed: []measure.Span{measure.Second},
	}
	for _, line := range lines {
		words := strings.Fields(line)
		s := measure.Series{Values: []float64{measure.NaN}}
		if last := words[len(words)-1]; last != "-" {
			if _, err := fmt.Sscan(last, &s.Values[0]); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		for _, w := range words[:len(words)-1] {
			if w == "''" {
				w = ""
			}
			s.Key = append(s.Key, measure.Label(len(a.Labels)))
			a.Labels = append(a.Labels, w)
		}
		if len(s.Key) != len(q.By) {
			t.Fatalf("%q has not the fields of %s", line, sentence)
		}
		a.Series = append(a.Series, s)
	}
	return a
}

func frame(answers ...*measure.Answer) *Frame {
	return &Frame{Over: measure.Interval{Start: 1e9, End: 2e9}, Answers: answers}
}

// text returns the cells of some columns, a line per row.
func text(tab *Table, names ...string) string {
	var out []string
	for _, r := range tab.Rows {
		var cells []string
		for _, n := range names {
			i := tab.Column(n)
			if i < 0 {
				cells = append(cells, n+"?")
				continue
			}
			c := tab.Columns[i]
			if c.Show == Plain && c.Decimals == 0 {
				c.Decimals = 3
			}
			v := c.Format(r.Cells[i])
			if strings.Contains(v, ".") && r.Cells[i].Kind == IsNumber {
				v = strings.TrimSuffix(strings.TrimRight(v, "0"), ".")
			}
			cells = append(cells, v)
		}
		line := strings.Join(cells, " ")
		if r.Remark != "" {
			line += " <- " + r.Remark
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEveryToolOfEveryWidthShowsNothingAsNothing(t *testing.T) {
	for _, tool := range Tools() {
		for _, o := range []Options{
			{}, {"threads": {""}}, {"map": {""}}, {"udp": {""}}, {"all": {""}}, {"by": {"process"}},
			{"slabs": {""}}, {"extended": {""}},
		} {
			f := frame()
			for _, sentence := range tool.Ask(o) {
				f.Answers = append(f.Answers, canned(t, sentence, measure.Delta, false))
			}
			tab := tool.Table(o, f)
			for _, r := range tab.Rows {
				if len(r.Cells) != len(tab.Columns) {
					t.Fatalf(
						"%s %v: %d cells for %d columns", tool.Name, o, len(r.Cells),
						len(tab.Columns),
					)
				}
				for i, c := range r.Cells {
					if c.Kind == IsNumber && c.Num == 0 &&
						strings.HasSuffix(tab.Columns[i].Name, "_per_s") &&
						tool.Name != "flows" {
						t.Errorf(
							"%s: %s is 0 where nothing was measured", tool.Name,
							tab.Columns[i].Name,
						)
					}
				}
			}
			seen := map[string]bool{}
			for _, c := range tab.Columns {
				if c.Name != "" && seen[c.Name] {
					t.Errorf("%s: two columns named %s", tool.Name, c.Name)
				}
				seen[c.Name] = true
				if c.Name != "" && c.Help == "" {
					t.Errorf("%s: column %s has no help", tool.Name, c.Name)
				}
			}
		}
	}
}

func TestCPUModesAreSharesOfTheirSum(t *testing.T) {
	tab := CPU().Table(Options{}, frame(
		canned(
			t, "cpu.time by cpu,mode", measure.Delta, false, "0 usr 0.25", "0 idle 0.7",
			"0 sys 0.05", "1 usr 0", "1 idle 0.5", "1 sys 0.5", "10 usr -", "2 irq -", "2 idle 1",
		),
		canned(t, "cpu.interrupts by cpu", measure.Delta, false, "0 100", "1 50"),
		canned(t, "softirq.count by cpu", measure.Delta, false),
		canned(t, "sched.switches", measure.Delta, false, "1234"),
	))
	expect(t, text(tab, "cpu", "usr", "sys", "irq", "idle", "interrupts_per_s", "switches_per_s"),
		`all 8.33 18.33 - 73.33 150 1234
0 25 5 - 70 100 -
1 0 50 - 50 50 -
2 - - - 100 - -
10 - - - - - -`)
}

func TestNICUtilization(t *testing.T) {
	tab := NIC().Table(Options{}, frame(
		canned(
			t, "net.device.bytes by netns,device,direction", measure.Delta, false,
			"'' eth0 rx 117875000", "'' eth0 tx 1000", "'' hub0 rx 1250000", "'' hub0 tx 1250000",
			"'' veth0 rx 125", "'' veth0 tx 125", "blue eth0 rx 0", "blue eth0 tx 112500000",
			"'' off rx 0", "'' off tx 0",
		),
		canned(
			t, "net.device.packets by netns,device,direction", measure.Delta, false,
			"'' eth0 rx 77860", "'' eth0 tx 10", "'' hub0 rx 1000", "'' hub0 tx 1000",
			"'' veth0 rx 1", "'' veth0 tx 1", "blue eth0 rx 0", "blue eth0 tx 80000", "'' off rx 0",
			"'' off tx 0",
		),
		canned(t, "net.device.errors by netns,device,direction", measure.Delta, false),
		canned(
			t, "net.device.drops by netns,device,direction", measure.Delta, false, "'' eth0 rx 2",
			"'' eth0 tx 1",
		),
		canned(t, "net.device.fifo by netns,device", measure.Delta, false, "'' eth0 2"),
		canned(
			t, "net.device.wire by netns,device,direction", measure.Delta, false,
			"'' eth0 rx 124875000",
		),
		canned(
			t, "net.device.capacity by netns,device,direction,from", measure.Level, false,
			"'' eth0 rx ethtool 1e9", "'' eth0 tx ethtool 1e9", "'' hub0 rx ethtool 1e8",
			"'' hub0 tx ethtool 1e8", "blue eth0 rx ethtool 1e10", "blue eth0 tx qdisc 1e9",
		),
		canned(
			t, "net.device.info by netns,device,admin,duplex", measure.Level, false,
			"'' eth0 up full 1", "'' hub0 up half 1", "'' veth0 up full 1", "blue eth0 up full 1",
			"'' off down '' 1",
		),
		canned(
			t, "net.qdisc.drops by netns,device where parent = \"root\"", measure.Delta, false,
			"'' eth0 4",
		),
	))
	expect(
		t,
		text(
			tab, "netns", "device", "rAvs", "%Util", "wire_util", "Sat", "rx_drops_per_s",
			"wDrop/s", "Fifo/s", "queue_drops_per_s", "capacity_bits_per_s", "from",
		),
		` eth0 1513.9 94.3 99.9 9 2 1 2 4 1000 ethtool
 hub0 1250 20 - - - - - - 100 ethtool
 veth0 125 - - - - - - - - unknown
blue eth0 - 90 - - - - - - 1000 qdisc`,
	)
}

// A bond counts what the devices below it do, and an array what its disks do.
func TestUseCountsTroubleOnce(t *testing.T) {
	answers := func(disks ...string) *Frame {
		return frame(
			canned(
				t, "net.device.info by netns,device,kind,duplex", measure.Level, false,
				"'' bond0 bond full 1", "'' eth0 ethernet full 1", "'' eth1 ethernet full 1",
			),
			canned(
				t, "net.device.drops by netns,device", measure.Delta, false, "'' bond0 5",
				"'' eth0 2", "'' eth1 3",
			),
			canned(
				t, "net.device.fifo by netns,device", measure.Delta, false, "'' bond0 1",
				"'' eth0 1",
			),
			canned(
				t, "net.qdisc.drops by netns,device"+wholeQueue, measure.Delta, false, "'' eth0 10",
			),
			canned(
				t, "net.device.errors by netns,device", measure.Delta, false, "'' bond0 7",
				"'' eth1 7",
			),
			canned(
				t, "disk.info by device,kind", measure.Level, false, "md0 virtual 1", "sda disk 1",
				"sda1 partition 1",
			),
			canned(t, "disk.errors by device", measure.Delta, false, disks...),
		)
	}
	expect(
		t,
		text(
			Use().Table(Options{}, answers("md0 4", "sda 3")), "network_saturation_per_s",
			"errors_per_s",
		),
		"16 10",
	)
	expect(
		t,
		text(Use().Table(Options{}, answers("md0 4")), "network_saturation_per_s", "errors_per_s"),
		"16 11",
	)
}

// The row of a softirq includes the time for each device, and rows below it show them. The time of
// interrupts that cannot be measured is unknown.
func TestIRQTimes(t *testing.T) {
	answers := func(times bool) *Frame {
		f := frame(
			canned(
				t, "irq.count by irq,cpu,device,type", measure.Delta, true, "24 0 nvme0q1 x 10",
				"24 1 nvme0q1 x 5", "LOC 0 timer '' 100", "TLB 1 shootdowns '' 3",
			),
			canned(
				t, "softirq.count by cpu,vector", measure.Delta, true, "0 NET_RX 50", "1 TIMER 7",
			),
		)
		if times {
			f.Answers = append(
				f.Answers,
				canned(
					t, "irq.time by irq,cpu,device,type", measure.Delta, true,
					"24 0 nvme0q1 x 0.25", "31 1 ended x 0.5",
				),
				canned(
					t, "softirq.time by cpu,vector,device", measure.Delta, true,
					"0 NET_RX '' 0.125", "0 NET_RX eth1 0.25", "1 NET_RX eth1 0.5",
				),
			)
		}
		return f
	}
	expect(
		t,
		text(
			IRQ().Table(Options{}, answers(true)), "irq", "kind", "device", "count_per_s", "%tim",
			"cpu0", "cpu1", "%cpu0", "%cpu1",
		),
		`24 hard nvme0q1 15 25 10 5 25 0
31 hard ended 0 50 0 0 0 50
LOC hard timer 100 0 100 0 0 0
TLB hard shootdowns 3 - 0 3 - -
NET_RX soft  50 87.5 50 0 37.5 50
NET_RX part eth1 - 75 - - 25 50
TIMER soft  7 0 0 7 0 0`,
	)
	expect(
		t,
		text(
			IRQ().Table(Options{}, answers(false)), "irq", "device", "count_per_s", "%tim", "cpu0",
			"%cpu0",
		),
		`24 nvme0q1 15 - 10 -
LOC timer 100 - 100 -
TLB shootdowns 3 - 0 -
NET_RX  50 - 50 -
TIMER  7 - 0 -`,
	)
}

// Disciplines and classes above one another all count the packet that the lowest drops.
func TestQueuesCountEachPacketOnce(t *testing.T) {
	for _, tool := range Tools() {
		for _, sentence := range tool.Ask(Options{}) {
			if q, err := measure.ParseQuery(sentence); err != nil {
				t.Error(err)
			} else if strings.HasPrefix(sentence, "net.qdisc.") && !slices.Contains(q.By, "parent") && !strings.Contains(sentence, `where parent = "root"`) {
				t.Errorf("%s asks %s: a packet is in it as often as there are disciplines above one another", tool.Name, sentence)
			}
		}
	}
}

func TestDiskAwaitIsTimeOfFinishedRequests(t *testing.T) {
	tab := Disk().Table(Options{}, frame(
		canned(
			t, "disk.operations by device,direction", measure.Delta, false, "sda read 100",
			"sda write 0", "sda1 read 100", "loop0 read 0",
		),
		canned(
			t, "disk.bytes by device,direction", measure.Delta, false, "sda read 409600",
			"sda write 0",
		),
		canned(t, "disk.merges by device,direction", measure.Delta, false),
		canned(
			t, "disk.wait by device,direction", measure.Delta, false, "sda read 0.5", "sda write 0",
		),
		canned(t, "disk.busy by device", measure.Delta, false, "sda 1.02"),
		canned(t, "disk.queue by device", measure.Delta, false, "sda 0.5"),
		canned(t, "disk.errors by device", measure.Delta, false),
		canned(
			t, "disk.info by device,kind,parent", measure.Level, false, "sda disk '' 1",
			"sda1 partition sda 1", "loop0 virtual '' 1",
		),
	))
	expect(
		t, text(tab, "device", "r/s", "rkB/s", "r_await", "w_await", "aqu-sz", "%util", "rareq-sz"),
		"sda 100 400 5 - 0.5 100 4",
	)
}

// An interface that is down is left out, but not where it was asked for.
func TestNicShowsADownInterfaceThatWasNamed(t *testing.T) {
	f := frame(
		canned(
			t, "net.device.packets by netns,device,direction", measure.Delta, false, "'' eth0 rx 0",
			"'' eth0 tx 0", "'' eth1 rx 0", "'' eth1 tx 0",
		),
		canned(
			t, "net.device.info by netns,device,admin,duplex", measure.Level, false,
			"'' eth0 up full 1", "'' eth1 down full 1",
		),
	)
	expect(t, text(NIC().Table(Options{}, f), "device", "rx_packets_per_s"), "eth0 0")
	expect(
		t, text(NIC().Table(Options{"interface": {"eth1"}}, f), "device", "rx_packets_per_s"),
		"eth1 0",
	)
	expect(t, text(NIC().Table(Options{"interface": {"eth1"}, "idle": {""}}, f), "device"), "")
}

func TestLinkMarks(t *testing.T) {
	f := frame(
		canned(
			t,
			"net.device.info by netns,device,index,kind,driver,mac,admin,state,duplex,autoneg,mtu,master,lower,rxqueues,txqueues,flags",
			measure.Level, false,
			"'' hme0 1 ethernet x 08:00:20:b0:7a:18 up up full on 1500 '' '' 1 1 '' 1",
			"'' qfe0 2 ethernet x 08:00:20:b0:7a:18 up up full on 1500 '' '' 1 1 '' 1",
			"'' bond0 3 bond x aa:00:00:00:00:01 up up full '' 1500 '' '' 1 1 '' 1",
			"'' eth1 4 ethernet x aa:00:00:00:00:01 up up half on 1500 bond0 '' 1 1 '' 1",
		),
		canned(
			t, "net.device.speed by netns,device", measure.Level, false, "'' hme0 1e8",
			"'' qfe0 1e9",
		),
		canned(
			t, "net.device.modes by netns,device,list,mode", measure.Level, false,
			"'' hme0 supported 1000baseT/Full 1e9", "'' hme0 supported 100baseT/Full 1e8",
			"'' qfe0 supported 1000baseT/Full 1e9", "'' qfe0 supported 10000baseT/Full 1e10",
			"'' qfe0 partner 1000baseT/Full 1e9",
		),
		canned(
			t, "net.device.address by netns,device,family,address,prefix,scope", measure.Level,
			false,
		),
		canned(
			t, "net.device.packets by netns,device,direction", measure.Delta, false,
			"'' hme0 rx 8000", "'' hme0 tx 500", "'' qfe0 rx 8600", "'' qfe0 tx 0",
		),
		canned(t, "net.device.uses by netns,device,use", measure.Level, false, "'' qfe0 address 1"),
		canned(t, "net.ring.size by netns,device,ring,bound", measure.Level, false),
	)
	expect(t, text(Link().Table(Options{}, f), "device", "Mbit/s", "best"), `bond0 - -
eth1 - - <- half duplex
hme0 100 1000 <- below its best mode; same MAC as qfe0
qfe0 1000 1000 <- same MAC as hme0; receives and never sends`)
}

func TestMeanIsAmountOverTime(t *testing.T) {
	tick := func(seconds int, lines ...string) *Frame {
		a := canned(t, "process.cpu by pid", measure.Delta, true, lines...)
		a.Elapsed[0] = measure.Span(seconds) * measure.Second
		b := canned(t, "net.device.bytes by device", measure.Delta, false, lines...)
		b.Elapsed[0] = a.Elapsed[0]
		return frame(a, b)
	}
	var m Mean
	m.Add(tick(1, "1 0.5", "2 1"))
	m.Add(tick(3, "1 0.1", "3 -"))
	f := m.Frame()
	var got []string
	for _, a := range f.Answers {
		for i := range a.Series {
			got = append(got, fmt.Sprintf("%s=%.3f", a.Label(i, 0), a.Series[i].Values[0]))
		}
	}
	// 2 is sparse: away for three of four seconds is 0 then; as a device it was gone.
	expect(t, strings.Join(got, " "), "1=0.200 2=0.250 3=NaN 1=0.200 2=1.000 3=NaN")
}

// A device that came in the last of four seconds moved a quarter of that second's rate in the mean,
// as its connection did: the rest is no residual, and neither were its drops those of all four.
func TestMeanOfSumsIsOfAllTheTime(t *testing.T) {
	flows, use := Mean{Sums: Flows().Sums}, Mean{Sums: Use().Sums}
	for n := range 4 {
		device, flow, drop := []string{
			"'' old tx 1e8",
		}, []string{
			"'' 10.0.0.1 1 10.0.0.2 2 7 a client tx 9e7",
		}, []string{
			"'' old 0",
		}
		if n == 3 {
			device, flow, drop = append(device, "'' new tx 1e9"), append(flow, "'' 10.1.0.1 1 10.1.0.2 2 8 b client tx 96e7"), append(drop, "'' new 8")
		}
		flows.Add(
			frame(
				canned(
					t,
					"tcp.flow.bytes by "+flowFields+",direction",
					measure.Delta,
					true,
					flow...),
				canned(
					t,
					"net.device.bytes by netns,device,direction",
					measure.Delta,
					false,
					device...),
				canned(
					t, "net.device.address by netns,device,address", measure.Level, false,
					"'' old 10.0.0.1 1", "'' new 10.1.0.1 1",
				),
			),
		)
		use.Add(frame(canned(t, "net.device.drops by netns,device", measure.Delta, false, drop...)))
	}
	expect(
		t,
		text(
			Flows().Table(Options{}, flows.Frame()), "process", "tx_bytes_per_s", "share",
			"residual",
		),
		`b 1920 68.6 no
a 720 25.7 no
- 160 5.7 yes`,
	)
	expect(t, text(useTable(Options{}, use.Frame()), "network_saturation_per_s"), "2")
}

// What ran between two readings has no row; its CPU time stands beside who waited for it, and a
// note says so where it is much.
func TestShortLivedChildrenHaveAColumn(t *testing.T) {
	ps := func(short string) *Table {
		return PS().Table(Options{"pid": {"1", "2"}}, frame(
			canned(
				t, "process.cpu by pid,process,mode", measure.Delta, true, "1 sh usr 0.01",
				"2 cc usr 0.5",
			),
			canned(
				t, "process.short by pid,process", measure.Delta, true, "1 sh "+short, "3 make 0.9",
			),
		))
	}
	tab := ps("0.7")
	expect(t, text(tab, "pid", "usr", "children"), "2 50 0\n1 1 70")
	expect(
		t, strings.Join(tab.Notes, "\n"),
		"the CPU time of processes too short-lived to have a row is %KIDS of their parent (-w shows it)",
	)
	expect(t, strings.Join(ps("0.01").Notes, "\n"), "")
}

func TestNotesWaitForTheirColumns(t *testing.T) {
	a, b := canned(t, "disk.errors by device", measure.Delta, false), canned(t, "disk.busy by device", measure.Delta, false)
	a.Notes, b.Notes = []string{"no disk counts", "both"}, []string{"both"}
	f := frame(a, b)
	expect(t, strings.Join(f.Notes(Disk().MinWidth, 80), ", "), "both")
	expect(t, strings.Join(f.Notes(Disk().MinWidth, 200), ", "), "no disk counts, both")
}

func TestMeanOfDaysStaysSmall(t *testing.T) {
	var m Mean
	for n := range 20 {
		a := canned(t, "process.cpu by pid", measure.Delta, true)
		for i := range maxMeanRows / 10 {
			a.Series = append(
				a.Series,
				measure.Series{Key: []measure.Label{measure.Label(i)}, Values: []float64{1}},
			)
			a.Labels = append(a.Labels, fmt.Sprint(n, ".", i))
		}
		m.Add(frame(a))
	}
	f := m.Frame()
	a := f.Answers[0]
	if len(a.Series) > maxMeanRows+maxMeanRows/10 || len(f.Notes(nil, 80)) != 1 ||
		a.Label(0, 0) != "0.0" ||
		a.Series[0].Values[0] != 0.05 {
		t.Errorf(
			"%d rows, notes %q, first %s = %g", len(a.Series), f.Notes(nil, 80), a.Label(0, 0),
			a.Series[0].Values[0],
		)
	}
}

func TestNumbersForPeople(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 512: "512", 999: "999", 1000: "1.0K", 1536: "1.5K", 102400: "100K", 1 << 30: "1.0G",
		-2048: "-2.0K", 1e30: "867361737988.4E",
	} {
		if got := FormatBytes(v); got != want && v < 1e20 {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
	if got := (Column{Show: Percent, Decimals: 1}).Format(N(math.Inf(1))); got != "-" {
		t.Errorf("infinity is %s", got)
	}
	if got := Clean("a\x1b[31mb\nc\u202e\xff"); got != "a?[31mb?c??" {
		t.Errorf("%q", got)
	}
	if !NaturalLess("eth2", "eth10") || NaturalLess("eth10", "eth2") || !NaturalLess("cpu1", "cpu01x") {
		t.Error("natural order")
	}
}

// A zero is written without formatting it, and must look the same.
func TestZeroLooksAsOthersDo(t *testing.T) {
	for show := Plain; show <= Millisec; show++ {
		for decimals := range 4 {
			c := Column{Show: show, Decimals: decimals}
			want := strconv.FormatFloat(show.Scaled(0), 'f', decimals, 64)
			if show == HumanBytes {
				want = FormatBytes(0)
			}
			if got := c.Format(N(0)); got != want {
				t.Errorf("%d with %d decimals: %q, want %q", show, decimals, got, want)
			}
		}
	}
}

// The busiest disk is a real one where there is one that counts: a loop device or an array counts
// once more what its disk does.
func TestUseDiskIsARealOne(t *testing.T) {
	for _, c := range []struct {
		info, busy, queue []string
		want              string
	}{
		{[]string{"loop0 virtual 1", "vda disk 1"}, []string{"loop0 0.86", "vda 0.147"}, []string{"loop0 9", "vda 1"}, "14.7 1 vda"},
		{[]string{"md0 virtual 1", "sda disk 1", "sda1 partition 1"}, []string{"md0 0.9", "sda 0.5", "sda1 0.95"}, []string{"md0 4", "sda 2", "sda1 3"}, "50 2 sda"},
		{[]string{"zram0 virtual 1"}, []string{"zram0 0.99"}, []string{"zram0 3"}, "99 3 zram0"},
		{[]string{"dm-0 virtual 1", "nvme0c0n1 path 1"}, []string{"dm-0 0.7"}, []string{"nvme0c0n1 2"}, "70 2 dm-0"},
	} {
		f := frame(
			canned(t, "disk.info by device,kind", measure.Level, false, c.info...),
			canned(t, "disk.busy by device", measure.Delta, false, c.busy...),
			canned(t, "disk.queue by device", measure.Delta, false, c.queue...),
		)
		if got := text(Use().Table(Options{"wide": {""}}, f), "disk_util", "disk_saturation", "disk"); got != c.want {
			t.Errorf("%v: %q, want %q", c.busy, got, c.want)
		}
	}
}

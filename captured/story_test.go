package captured

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"culprit/diagnose"
)

// variants are the ways in which a table is changed on its way into a ticket.
var variants = []struct {
	name   string
	change func(string) string
}{
	{"as printed", func(s string) string { return s }},
	{"aligned", byLine(func(l string) string {
		return "  " + strings.Join(strings.Fields(l), "      ")
	})},
	{"tabs and CR", byLine(func(l string) string {
		return strings.Join(strings.Fields(l), "\t") + "\r"
	})},
	{"quoted mail", byLine(func(l string) string {
		return "> > " + strings.ReplaceAll(l, " ", "\u00a0")
	})},
	{"prose around", func(s string) string {
		return "Hello, this is what I see on the machine today:\n\n" + s + "\n\nAny idea?\n"
	}},
	{"prose of Windows-1252", func(s string) string {
		return "He said \x93it\x92s slow\x94 \x85\n\n" + s + "\n\n\xdcber Nacht\n"
	}},
	{"colours", byLine(func(l string) string {
		words := strings.Fields(l)
		for i := range words {
			if i%3 == 1 {
				words[i] = "\x1b[1;31m" + words[i] + "\x1b[0m\x1b[K"
			}
		}
		return strings.Join(words, "  ")
	})},
	{"times before lines", byLine(func(l string) string {
		return "2026-11-28T10:00:01.250+0100 " + l
	})},
	{"times of a console", byLine(func(l string) string { return "[10:00:01] " + l })},
}

func byLine(change func(string) string) func(string) string {
	return func(s string) string {
		lines := strings.Split(s, "\n")
		for i, l := range lines {
			lines[i] = change(l)
		}
		return strings.Join(lines, "\n")
	}
}

var headers = regexp.MustCompile(`(?m)^(#.*|dtrace: .*|dladm .*|Linux .*|Settings for .*|\^C` +
	`|Profiling .*|value -.*|[-+]+|(Time|CPU|Count|IRQ|LINK|device)\s.*|15:36:10 CPU.*)\n`)

// read reads files of testdata, changed.
func read(t *testing.T, pattern string, change func(string) string) []*Capture {
	t.Helper()
	names, err := filepath.Glob("testdata/" + pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	var captures []*Capture
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Read(filepath.Base(name), change(string(text)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		captures = append(captures, c)
	}
	return captures
}

// textOf returns all that a finding says.
func textOf(f *diagnose.Finding) string {
	lines := []string{f.Claim}
	for _, e := range f.Evidence {
		lines = append(lines, e.Text)
	}
	return strings.Join(append(lines, f.Against...), "\n")
}

func findingOf(r *diagnose.Report, id string) *diagnose.Finding {
	for i := range r.Findings {
		if r.Findings[i].ID == id {
			return &r.Findings[i]
		}
	}
	return nil
}

// stories lists what the tables of a story must show: the words of one finding.
var stories = []struct {
	name, files, id string
	words           []string
}{
	{"dead interface", "0-*", "interface-unused/qfe0",
		[]string{"8,642.5 packets/s", "sends none", "37.8 % of CPU 0", "not UP", "same MAC"}},
	{"dead interface, nicstat alone", "0-nicstat.txt", "interface-unused/qfe0",
		[]string{"8,642.5 packets/s", "sends none", "hme0 beside it"}},
	{"interrupts alone", "0-intrstat.txt", "cpu-softirq/cpu0",
		[]string{"qfe0", "37.8 %", "hme0: 32.8 %"}},
	{"utilization alone", "0-sysperfstat.txt", "network-busy/machine",
		[]string{"173.1 %", "from 19:24:32 on"}},
	{"shared address alone", "0-ifconfig.txt", "mac-shared/hme0,qfe0", []string{"8:0:20:b0:7a:18"}},
	{"long chain, CPU", "1-*", "cpu-unlike-peers/cpu23",
		[]string{"71 % sys", "28 % idle", "94 % idle", "igb_intr_rx", "1,412", "3,584"}},
	{"long chain, table", "1-*", "table-long/dce",
		[]string{"24,973,067 entries", "2.9-3.0 ms", "tcp_input_listener", "tcp_connect_ipv4"}},
	{"CPU alone", "1-mpstat-slow.txt", "cpu-unlike-peers/cpu23", []string{"71 % sys", "28 % idle"}},
	{"table alone", "1-netstat-dn.txt", "table-long/dce", []string{"24,973,067"}},
	{"latency alone", "1-dtrace-average.txt", "function-slow/dce_lookup_and_add_v4",
		[]string{"2.9-3.0 ms"}},
	{"stacks alone", "1-dtrace-stacks.txt", "function-callers/dce_lookup_and_add_v4",
		[]string{"23,334", "70 % of the calls by tcp_input_listener"}},
	{"slow client", "2-*", "link-below-mode/e1000g0", []string{"100 of 1000 Mbit/s"}},
	{"cache purge", "3-*", "cache-purge/dnlc_purge_vp",
		[]string{"18.4 %", "256 of 1,394", "8-32 ms a call", "2-8 ms", "a quarter of before"}},
	{"profile alone", "3-lockstat-before.txt", "cache-purge/dnlc_purge_vp", []string{"18.4 %"}},
	{"distribution alone", "3-quantize-before.txt", "function-slow/latency",
		[]string{"8-32 ms", "shorter than the probes"}},
}

func TestStories(t *testing.T) {
	for _, v := range variants {
		for _, tt := range stories {
			t.Run(v.name+"/"+tt.name, func(t *testing.T) {
				r := Diagnose(read(t, tt.files, v.change))
				f := findingOf(r, tt.id)
				if f == nil {
					t.Fatalf("no finding %s, only %v", tt.id, ids(r))
				}
				for _, w := range tt.words {
					if !strings.Contains(textOf(f), w) {
						t.Errorf("%q is missing in:\n%s", w, textOf(f))
					}
				}
			})
		}
	}
}

func ids(r *diagnose.Report) (list []string) {
	for _, f := range r.Findings {
		list = append(list, string(f.Severity)+" "+f.ID)
	}
	return list
}

// TestFirst checks which finding is the first one.
func TestFirst(t *testing.T) {
	for files, want := range map[string]string{"0-*": "interface-unused/qfe0",
		"2-*": "link-below-mode/e1000g0", "3-*": "cache-purge/dnlc_purge_vp"} {
		if got := Diagnose(read(t, files, variants[0].change)).Findings[0].ID; got != want {
			t.Errorf("%s: %s is first, want %s", files, got, want)
		}
	}
}

// TestHeadersCut removes headers, prompts and rules: rows are recognized by their shape.
func TestHeadersCut(t *testing.T) {
	cut := func(s string) string { return headers.ReplaceAllString(s, "") }
	for _, tt := range stories {
		switch tt.name {
		case "long chain, table", "table alone", "latency alone", "stacks alone":
			continue // only the command names the function and the table
		}
		t.Run(tt.name, func(t *testing.T) {
			f := findingOf(Diagnose(read(t, tt.files, cut)), tt.id)
			if f == nil && tt.name == "distribution alone" {
				return // its key names it, and stays
			}
			if f == nil {
				t.Fatalf("no finding %s", tt.id)
			}
		})
	}
	f := findingOf(Diagnose(read(t, "1-netstat-dn.txt", cut)), "table-long/listing")
	if f == nil || !strings.Contains(f.Claim, "24,973,067") {
		t.Errorf("three numbers of wc without their command: %v", f)
	}
}

// TestQuiet checks tables of machines without a fault.
func TestQuiet(t *testing.T) {
	for _, tt := range []struct{ files, resource, because string }{
		{"1-mpstat-fast.txt", "cpu", "99 % idle"},
		{"1-uptime.txt", "cpu", "load average 0.19"},
		{"3-lockstat-after.txt", "cpu", "32 % of the samples idle"},
		{"4-*", "cpu", "99.7 % idle"},
		{"4-ethtool.txt", "link", "eth0 runs at 1000 Mbit/s"},
		{"4-top.txt", "process", "netperf 9 %"},
	} {
		t.Run(tt.files, func(t *testing.T) {
			r := Diagnose(read(t, tt.files, variants[0].change))
			if len(r.Findings) > 0 {
				t.Errorf("findings %v", ids(r))
			}
			for _, fine := range r.Fine {
				if fine.Resource == tt.resource && strings.Contains(fine.Because, tt.because) {
					return
				}
			}
			t.Errorf("%s is not ruled out by %q: %v", tt.resource, tt.because, r.Fine)
		})
	}
}

// TestMissing checks that a report names the command that shows the rest.
func TestMissing(t *testing.T) {
	r := Diagnose(read(t, "4-*", variants[0].change))
	for _, m := range r.Missing {
		if m.Checks == "traffic of network interfaces" && strings.Contains(m.Why, "sar -n DEV") {
			return
		}
	}
	t.Errorf("no command for the traffic: %v", r.Missing)
}

// TestFullLink adds to the fourth story a table that shows the traffic.
func TestFullLink(t *testing.T) {
	for name, text := range map[string]string{
		"iftop": "interface: eth0\n 1 host-a => 0.99Gb 0.99Gb 0.98Gb 4.9GB\n" +
			"   host-b <= 12.1Mb 12.0Mb 12.0Mb 60MB\nTotal send rate: 0.99Gb 0.99Gb 0.98Gb\n",
		"sar": "15:36:10 IFACE rxpck/s txpck/s rxkB/s txkB/s rxcmp/s txcmp/s rxmcst/s %ifutil\n" +
			"15:36:11 eth0 20000.00 82000.00 1400.00 120850.00 0.00 0.00 0.00 99.00\n" +
			"15:36:11 lo 1.00 1.00 1.00 1.00 0.00 0.00 0.00 0.00\n",
		"nicstat": "Time Int rKB/s wKB/s rPk/s wPk/s rAvs wAvs %Util Sat\n" +
			"15:36:11 eth0 1400.0 120850.0 20000.0 82000.0 71.68 1509.1 99.00 0.00\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Read(name, text)
			if err != nil {
				t.Fatal(err)
			}
			all := append(read(t, "4-*", variants[0].change), c)
			f := findingOf(Diagnose(all), "link-saturated/eth0")
			if f == nil || !strings.Contains(f.Claim, "0.99 Gbit/s of 1 Gbit/s") {
				t.Errorf("no full link: %v", ids(Diagnose(all)))
			}
		})
	}
}

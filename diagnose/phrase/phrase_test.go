package phrase

import (
	"math"
	"strings"
	"testing"
)

// Each function of a number, on both sides of each value at which its form changes.
func TestNumbers(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		name string
		form func(float64) string
		want map[float64]string
	}{
		{"Digits", Digits, map[float64]string{
			0: "0", 1: "1", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234: "1234", -1.5: "-1.5",
			99.94: "99.9", 99.96: "100", 9.994: "9.99", 9.996: "10", 0.9994: "0.999",
			0.9996: "1", 0.0123: "0.0123", 0.01234: "0.0123", 1e-7: "0", -1e-9: "0",
			0.5: "0.5", 0.00012345: "0.000123", inf: "?", -inf: "?", 1e9: "1000000000",
		}},
		{"Count", Count, map[float64]string{
			0: "0", 9.94: "9.9", 9.96: "10", 84914: "84,914", 999: "999", 1000: "1,000",
			1234567: "1,234,567", -84914: "-84,914", -3.25: "-3.3", inf: "?", 1e18: "1,000,000,000,000,000,000",
			1.1e18: "?", -1.1e18: "?", 100: "100", 0.04: "0", 0.06: "0.1",
		}},
		{"BitRate", BitRate, map[float64]string{
			0: "0 bit/s", 999: "999 bit/s", 999.4: "999 bit/s", 999.6: "1 kbit/s",
			11.7e6: "11.7 Mbit/s", 2.5e9: "2.5 Gbit/s", 3e12: "3 Tbit/s", 5e15: "5000 Tbit/s",
			-2e6: "-2 Mbit/s", 999.4e6: "999 Mbit/s", 999.5e6: "1 Gbit/s", 999.9999e6: "1 Gbit/s",
			1e9: "1 Gbit/s", -999.9999e6: "-1 Gbit/s",
		}},
		{"LinkRate", LinkRate, map[float64]string{
			100e6: "100 Mbit/s", 1e9: "1000 Mbit/s", 999.5e6: "1000 Mbit/s",
			999.4e6: "999 Mbit/s", 1999e6: "1999 Mbit/s", 2000e6: "2 Gbit/s", 10e9: "10 Gbit/s",
		}},
		{"BytesRate", BytesRate, map[float64]string{
			52.5e6: "52.5 MB/s", 12: "12 B/s", 1500: "1.5 kB/s", 7e12: "7000 GB/s",
		}},
		{"Bytes", Bytes, map[float64]string{
			12.4: "12 B", 999.6: "1 kB", 1000: "1 kB", 1500: "1.5 kB", 390e3: "390 kB", 4e12: "4 TB",
			999.4: "999 B",
		}},
		{"Memory", Memory, map[float64]string{
			512.4: "512 B", 1024: "1 KiB", 1536: "1.5 KiB", 3.7 * (1 << 30): "3.7 GiB",
			2 << 40: "2 TiB", 1000.4: "1000 B", 5 << 20: "5 MiB",
			1023.4 * 1024: "1023 KiB", 1023.5 * 1024: "1 MiB", 1023.9 * 1024: "1 MiB", 1023.6: "1 KiB",
		}},
		{"Duration", Duration, map[float64]string{
			12: "12 ns", 7.8e6: "7.8 ms", 1500: "1.5 us", 90e9: "90 s", 5e12: "5000 s",
			999.4e3: "999 us", 999.6e3: "1 ms",
		}},
		{"Percent", Percent, map[float64]string{
			0: "0 %", 0.0004: "<0.1 %", 0.0006: "0.1 %", 0.003: "0.3 %", 0.0994: "9.9 %",
			0.0996: "10 %", 0.434: "43 %", 0.9894: "99 %", 0.986: "99 %", 0.9893: "99 %", 0.991: "99.1 %",
			0.997: "99.7 %", 0.9994: "99.9 %", 0.9996: "100 %", 1: "100 %", 2.5: "250 %",
			-0.25: "-25 %", nan: "? %", inf: "? %",
		}},
		{"Seconds", Seconds, map[float64]string{
			10: "10", 4.5: "4.5", 10.1: "10", 10.2: "10.2", 9.9: "10", 9.8: "9.8", 19.5: "19.5",
			20.4: "20", 21.6: "22", 0: "0", 20: "20",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for v, want := range tt.want {
				if got := tt.form(v); got != want {
					t.Errorf("%v: %q, want %q", v, got, want)
				}
			}
		})
	}
}

func TestOutOf(t *testing.T) {
	for _, tt := range []struct {
		v, limit float64
		want     string
	}{
		{943e6, 1e9, "943 of 1000 Mbit/s"},
		{9.4e9, 10e9, "9.4 of 10 Gbit/s"},
		{50e6, 100e6, "50 of 100 Mbit/s"},
		{3e3, 64e3, "3 of 64 kbit/s"},
		{5, 300, "5 of 300 bit/s"},
		{1.5e12, 2e12, "1.5 of 2 Tbit/s"},
	} {
		if got := OutOf(tt.v, tt.limit); got != tt.want {
			t.Errorf("%g of %g: %q, want %q", tt.v, tt.limit, got, tt.want)
		}
	}
}

func TestWords(t *testing.T) {
	long := strings.Repeat("é", 120)
	for _, tt := range []struct{ name, got, want string }{
		{"one", Plural(1, "process", "processes"), "1 process"},
		{"none", Plural(0, "process", "processes"), "0 processes"},
		{"three", Plural(3, "process", "processes"), "3 processes"},
		{"list of none", List(nil), ""},
		{"list of one", List([]string{"a"}), "a"},
		{"list of two", List([]string{"a", "b"}), "a and b"},
		{"list of three", List([]string{"a", "b", "c"}), "a, b and c"},
		{"clean, 120 characters", Clean(long), long},
		{"clean, 121 characters", Clean(long + "x"), strings.Repeat("é", 119) + "…"},
		{"escape sequence", Printable("a\x1b[31mb\u009bc\nd"), "a_[31mb_c_d"},
		{"not UTF-8", Printable("a\xffb"), "a_b"},
		{"direction override", Printable("a\u202eb"), "a_b"},
		{"process and pid", ProcessName("iperf3", 123), "iperf3[123]"},
		{"process alone", ProcessName("iperf3", 0), "iperf3"},
		{"neither", ProcessName("", 0), "an unknown process"},
		{"own namespace", InNamespace("", "ip a"), "ip a"},
		{"named namespace", InNamespace("box", "ip a"), "ip netns exec box ip a"},
		{"namespace of a process", InNamespace("pid:7", "ip a"), "nsenter -t 7 -n ip a"},
		{"hostile namespace", InNamespace("a;b", "ip a"), "ip netns exec 'a;b' ip a"},
		{"device", DeviceName("", "eth0"), "eth0"},
		{"device in a namespace", DeviceName("box", "eth0"), "eth0 in namespace box"},
		{"identity", Identity("", "eth0"), "eth0"},
		{"identity in a namespace", Identity("box", "eth0"), "box:eth0"},
		{"suffix", NamespaceSuffix("box"), " in namespace box"},
		{"no suffix", NamespaceSuffix(""), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("%q, want %q", tt.got, tt.want)
			}
		})
	}
}

func TestShell(t *testing.T) {
	for _, plain := range []string{"az", "AZ", "09", "a_b./:@%+=,-c", "m", "M", "5"} {
		if got := Shell(plain); got != plain {
			t.Errorf("%q is quoted: %s", plain, got)
		}
	}
	for in, want := range map[string]string{
		"":        "''",
		"-rf":     "'-rf'",
		"a b":     "'a b'",
		"it's":    `'it'\''s'`,
		"$(id)":   "'$(id)'",
		"a;b":     "'a;b'",
		"a`b":     "'a`b'", // the byte before 'a'
		"a{b":     "'a{b'", // the byte after 'z'
		"a[b":     "'a[b'", // the byte after 'Z'
		"é":       "'é'",
		"a\nb":    `$'a\x0ab'`,
		"é\xff'":  `$'é\xff\''`,
		"a\x1b\\": `$'a\x1b\\'`,
		// whole: a command with half a path fails
		"/" + strings.Repeat("pod", 80): "/" + strings.Repeat("pod", 80),
		"a*":                            "'a*'",
		"~root":                         "'~root'",
		"a\\b":                          `'a\b'`,
		"x>file":                        "'x>file'",
	} {
		if got := Shell(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

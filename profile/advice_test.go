package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

// TestMagics checks that each format known by its first bytes is refused with its name and advice.
func TestMagics(t *testing.T) {
	for _, m := range magics {
		for _, rest := range []string{"", "\x00\x01\x02\x03", "\nmain;a 3\nmain;b 4\n", strings.Repeat("rest 5\n", 20000)} {
			in := strings.Repeat("\x01", int(m.at)) + m.begin + rest
			_, err := Read(never, strings.NewReader(in), "f", Options{})
			if rest == "" && m.begin[0] != '\x00' && len(m.begin) < 4 ||
				err != nil && strings.Contains(err.Error(), m.what) {
				continue
			}
			t.Errorf("%q and %.10q: %v", m.begin, rest, err)
		}
	}
}

// TestTables checks that tables of numbers are refused, with and without a known heading.
func TestTables(t *testing.T) {
	for name, in := range map[string]string{
		"mpstat":        "15:36:10 CPU %usr %nice %sys %iowait %irq %soft %steal %guest %idle\n15:36:11 all 0.33 0.00 0.00 0.00 0.00 0.00 0.00 0.00 99.67\n",
		"mpstat's rows": "15:36:11 all 0.33 0.00 0.00 0.00 0.00 0.00 0.00 0.00 99.67\n15:36:12 all 0.33 0.00 0.00 0.00 0.00 0.00 0.00 0.00 99.67\n",
		"vmstat":        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n 1  0      0 123 45 67    0    0     1     2    3    4  5  6 89  0  0\n",
		"vmstat's rows": " 1  0      0 123 45 67    0    0     1     2    3    4  5  6 89  0  0\n 1  0      0 123 45 67    0    0     1     2    3    4  5  6 89  0  0\n",
		"ps":            "    PID TTY          TIME CMD\n      1 ?        00:00:01 worker/1 3\n",
		"top":           "top - 12:20:44 up 35 days, 2 users, load average: 0.00, 0.01, 0.05\n  1 root 20 0 10528 808 676 S 0 0.0 0:24.12 init\n",
		"netstat -dn":   "# netstat -dn\n24973067 24973067 424542139\n",
		"perf report":   "# Samples: 10  of event 'cycles:u'\n#\n# Overhead  Command  Shared Object  Symbol\n    70.00%  app      app            [.] work\n            |\n            ---main\n               work 3\n",
		"intrstat":      "device | cpu0 %tim\n-------------+---------------\nhme#0 | 1232 32.8\n",
		"quantize":      "           value  ------------- Distribution ------------- count\n               1 |@@@@@@@@@@@@                     5\n               2 |                                 0\n",
		"iostat":        "Device            r/s     w/s     rkB/s\nsda 1.0 2.0 3.0\n",
		"/proc/stat":    "cpu  1 2 3 4\ncpu0 1 2 3 4\nintr 5 6 7 8\n",
	} {
		_, err := Read(never, strings.NewReader(in), "f", Options{})
		if err == nil ||
			!strings.Contains(err.Error(), "culprit flame reads stacks") &&
				!strings.Contains(err.Error(), "perf script -i") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, in := range []string{"main 3\nwork 4\n", "a b 3\nc d 4\n", "main 3 5\nwork 4 6\n", "Thread 77;work 10\n", "worker 3;a 10\nworker 4;a 20\n"} {
		if _, err := Read(never, strings.NewReader(in), "f", Options{}); err != nil {
			t.Errorf("stacks %q: %v", in, err)
		}
	}
}

// TestCommentsAreIgnored inserts comments before texts of all kinds, shorter and longer than
// detectBytes.
func TestCommentsAreIgnored(t *testing.T) {
	texts := map[string]string{"folded": "a;b 3\n", "perf": perfText, "DTrace": dtraceText,
		"bpftrace": bpftraceText, "gdb": gdbText, "jstack": jstackText}
	for name, in := range texts {
		want := fold(t, in, Options{})
		for _, line := range []string{"# L1 Data 32K [0-1] 5\n", "#\n", "# interval: 100\n", "# bpf_prog_info 7: x addr 0x1 size 128\n", "\n", "# cmdline : sh -c a; sleep 5\n"} {
			for _, times := range []int{1, detectBytes/len(line) + 1, 3 * detectBytes / len(line)} {
				if got := fold(t, strings.Repeat(line, times)+in, Options{}); got != want {
					t.Errorf("%s behind %d times %q: got\n%swant\n%s", name, times, line, got, want)
				}
			}
		}
	}
}

// TestEncodings reads texts in other encodings and with other line ends.
func TestEncodings(t *testing.T) {
	for _, in := range []string{"main;a 3\nmain;ä𝄞 7\n", perfText, dtraceText} {
		want := fold(t, in, Options{})
		wide := func(order binary.ByteOrder, mark bool) string {
			units := utf16.Encode([]rune(in))
			if mark {
				units = append([]uint16{0xfeff}, units...)
			}
			b := make([]byte, 2*len(units))
			for i, u := range units {
				order.PutUint16(b[2*i:], u)
			}
			return string(b)
		}
		var packed bytes.Buffer
		for _, part := range strings.SplitAfter(in, "\n") {
			z := gzip.NewWriter(&packed)
			z.Write([]byte(part)) //nolint:errcheck // into memory
			z.Close()             //nolint:errcheck // into memory
		}
		forms := map[string]string{
			"mark": "\xef\xbb\xbf" + in, "UTF-16LE": wide(binary.LittleEndian, true), "UTF-16BE": wide(binary.BigEndian, true),
			"CR": strings.ReplaceAll(in, "\n", "\r"), "CRLF": strings.ReplaceAll(in, "\n", "\r\n"),
			"members of gzip": packed.String(), "gzip and zeros": packed.String() + strings.Repeat("\x00", 600), "gzip and more": packed.String() + "padding",
		}
		if !strings.Contains(in, "ä") {
			forms["UTF-16LE without a mark"], forms["UTF-16BE without a mark"] = wide(
				binary.LittleEndian, false,
			), wide(binary.BigEndian, false)
		}
		for form, text := range forms {
			if got := fold(t, text, Options{}); got != want {
				t.Errorf("%s: got\n%q\nwant\n%q", form, got, want)
			}
		}
	}
}

// TestFoldedNumbers reads amounts in the forms that programs write.
func TestFoldedNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"a;b 1.5e-05\na;c 1e3\na;d +4\na;e 2.5\n":    "a;b 0.000015\na;c 1000\na;d 4\na;e 2.5\n",
		"a;b 3\na;c -3\n":                            "a;b 3\n",
		"# interval: 100\na;b 3\n# duration: 1500\n": "a;b 3\n",
		"#: 5\n#x;y 3\n#z 4\n":                       "#x;y 3\n#z 4\n",
		"P1;T2;w:5 1000,0,2048\nP1;T2 500,1,-1024\n": "P1;T2 500\nP1;T2;w:5 1000\n",
	} {
		if got := fold(t, in, Options{}); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}

// TestManyComments inserts more comments before a text than detectBytes.
func TestManyComments(t *testing.T) {
	line := "# L1 Data 32K [0-1] 5\n"
	comments := strings.Repeat(line, maxDetectBytes/len(line)+1)
	if got := fold(t, comments+perfCorpus[0].in, Options{}); got != perfCorpus[0].out {
		t.Errorf("got %s", got)
	}
}

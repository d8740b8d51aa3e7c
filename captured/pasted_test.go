package captured

import (
	"os"
	"strings"
	"testing"

	"culprit/diagnose"
)

// pasted reads and diagnoses texts.
func pasted(t *testing.T, texts ...string) *diagnose.Report {
	t.Helper()
	var all []*Capture
	for _, text := range texts {
		c, err := Read("a.txt", text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return Diagnose(all)
}

func testFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const fullDisk = `Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz  aqu-sz  %util
sda              0.00      0.00     0.00   0.00    0.00     0.00  820.00  53600.00     0.00   0.00   78.30    65.37   64.20 100.00
`

const waiting = `avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           2.00    0.00    3.00   60.00    0.00   35.00

`

// TestPasted: tables of tools, with the finding that their numbers allow.
func TestPasted(t *testing.T) {
	const perf = "# Samples: 2K of event 'cpu-clock'\n#\n# Overhead  Command  Shared Object  Symbol\n" +
		"    38.20%  kworker/0:1  [kernel.kallsyms]  [k] ext4_lookup_entry\n" +
		"    21.00%  swapper      [kernel.kallsyms]  [k] pv_native_safe_halt\n" +
		"    10.40%  python3      libpython3.so      [.] _PyEval_EvalFrameDefault\n"
	const children = "    91.20%    38.20%  kworker/0:1  [kernel.kallsyms]  [k] ext4_lookup_entry\n" +
		"    88.00%     0.10%  kworker/0:1  [kernel.kallsyms]  [k] ret_from_fork\n"
	const two = perf + "\n$ perf report --stdio\n" + perf
	const top = "   PerfTop:    3961 irqs/sec  kernel:81.4%  exact:  0.0%\n" +
		"    38.20%  [kernel]         [k] __lookup_hash\n     9.10%  libc.so.6  [.] memchr\n"
	const switches = "12:00:01      UID       PID   cswch/s nvcswch/s  Command\n" +
		"12:00:02        0      4711  21000.00      3.00  relay\n" +
		"12:00:02        0        15     55.34      0.00  rcu_preempt\n"
	const faults = "12:00:01      UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  Command\n" +
		"12:00:02        0       901   7.00    640.00  9000  4000   0.42  postgres\n"
	for _, tt := range []struct {
		name  string
		texts []string
		id    string // "": no finding
		says  string
	}{
		{"perf report", []string{perf}, "kernel-function/ext4_lookup_entry", "38.2 %"},
		{"perf report with callees", []string{children}, "kernel-function/ext4_lookup_entry",
			"38.2 %"},
		{"two of perf report", []string{two}, "kernel-function/ext4_lookup_entry", "38 of 100"},
		{"perf top", []string{top}, "kernel-function/__lookup_hash", "38.2 %"},
		{"perf report, healthy", []string{testFile(t, "linux-perf-report.txt")}, "", ""},
		{"pidstat -w", []string{switches}, "switch-storm/relay", "21,000"},
		{"pidstat -w, healthy", []string{testFile(t, "linux-pidstat-w.txt")}, "", ""},
		{"pidstat -r", []string{faults}, "major-faults/postgres", "640"},
		{"pidstat -r, healthy", []string{testFile(t, "linux-pidstat-r.txt")}, "", ""},
		{"iotop", []string{testFile(t, "linux-iotop.txt")}, "io-waits/tar -cf /backup/a.tar /srv",
			"95.1 %"},
		{"dstat", []string{testFile(t, "linux-dstat.txt")}, "cpu-saturated/machine", "2 % idle"},
		{"nfsiostat", []string{testFile(t, "linux-nfsiostat.txt")}, "nfs-slow//home",
			"A read on /home takes 212 ms: the server answers slowly."},
		{"iostat", []string{waiting + fullDisk}, "disk-saturated/sda", "sda is saturated"},
		{"iostat and iotop", []string{waiting + fullDisk, testFile(t, "linux-iotop.txt")},
			"disk-saturated/sda", "sda is saturated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := pasted(t, tt.texts...)
			if tt.id == "" {
				if len(r.Findings) > 0 {
					t.Fatalf("finding %s: %s", r.Findings[0].ID, r.Findings[0].Claim)
				}
				return
			}
			if len(r.Findings) == 0 || r.Findings[0].ID != tt.id ||
				!strings.Contains(r.Findings[0].Claim, tt.says) {
				t.Errorf("%+v", r.Findings)
			}
		})
	}
}

// TestConsequence: the wait of idle CPUs is below the disk that causes it, and alone it is medium.
func TestConsequence(t *testing.T) {
	r := pasted(t, waiting+fullDisk, testFile(t, "linux-iotop.txt"))
	disk, wait := r.Findings[0], (*diagnose.Finding)(nil)
	for i := range r.Findings {
		if r.Findings[i].Rule == "io-stalled" {
			wait = &r.Findings[i]
		}
	}
	if wait == nil || wait.Severity != diagnose.Low || len(wait.Against) == 0 {
		t.Errorf("%+v", wait)
	}
	if c := disk.Culprit; c.Kind != "process" || c.PID != 4711 || len(disk.Against) == 0 ||
		!strings.Contains(strings.Join(disk.Against, " "), "idle already") {
		t.Errorf("%+v", disk)
	}
	if r := pasted(t, waiting); len(r.Findings) != 1 || r.Findings[0].Severity != diagnose.Medium {
		t.Errorf("%+v", r.Findings)
	}
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/export"
)

// labelSet are the labels of a series, with its name as __name__.
type labelSet map[string]string

// String returns the labels as text, sorted.
func (l labelSet) String() string { return fmt.Sprint(map[string]string(l)) }

// scraped is one scrape: its text, and its samples by labels.
type scraped struct {
	text    []byte
	samples map[string]float64
	series  []labelSet
}

// value returns the value of a series, NaN if there is none.
func (s *scraped) value(name string, more ...string) float64 {
	l := labelSet{"__name__": name}
	for i := 0; i+1 < len(more); i += 2 {
		l[more[i]] = more[i+1]
	}
	v, ok := s.samples[l.String()]
	if !ok {
		return math.NaN()
	}
	return v
}

// scrapeOf scrapes an address.
func scrapeOf(address, token string) (*scraped, error) {
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	s := &scraped{samples: map[string]float64{}}
	if s.text, err = io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %w: %.300s", res.Status, err, s.text)
	}
	sample := regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)
	label := regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	for text := range strings.Lines(string(s.text)) {
		if strings.HasPrefix(text, "#") {
			continue
		}
		m := sample.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if m == nil {
			return nil, fmt.Errorf("not a sample: %q", text)
		}
		l := labelSet{"__name__": m[1]}
		for _, pair := range label.FindAllStringSubmatch(m[2], -1) {
			l[pair[1]] = pair[2]
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, err
		}
		s.samples[l.String()] = v
		s.series = append(s.series, l)
	}
	return s, nil
}

// exporting starts a server in dir. The result scrapes it.
func exporting(t *testing.T, dir string) func() (*scraped, error) {
	t.Helper()
	c := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	line := c.waitForLine(t, "?token=", 60*time.Second)
	address, token, _ := strings.Cut(line, "?token=")
	return func() (*scraped, error) { return scrapeOf(address+"metrics", token) }
}

// TestServersExportTheSameLabels compares two servers of which one has added datasets: their
// metrics have the labels of the table, and nothing else.
func TestServersExportTheSameLabels(t *testing.T) {
	plain, other := t.TempDir(), t.TempDir()
	a, b := exporting(t, plain), exporting(t, other)
	for _, query := range []string{
		"cgroup.cpu by cgroup,mode", "memory.size", "limit.used by owner",
		"net.sockets by netns,protocol,state", "cpu.time by mode", "process.rss by process",
	} {
		if status, _, errs := call(t, "datasets", "--dir", other, "add", query); status != 0 {
			t.Fatalf("add %s: status %d: %s", query, status, errs)
		}
	}
	var one, two *scraped
	eventually(t, "both servers export a finding or the load", time.Minute, func() (err error) {
		if one, err = a(); err != nil {
			return err
		}
		if two, err = b(); err != nil {
			return err
		}
		for _, s := range []*scraped{one, two} {
			if v := s.value("culprit_system_boot_time_seconds"); math.IsNaN(v) {
				return errors.New("there is no boot time yet")
			}
			if len(s.series) < 150 {
				return fmt.Errorf("%d series", len(s.series))
			}
		}
		return nil
	})
	for name, s := range map[string]*scraped{"plain": one, "with added datasets": two} {
		t.Run(name, func(t *testing.T) { checkLabels(t, s) })
	}
	// Levels of the whole machine are there at once: both servers have the same.
	names := func(s *scraped) (all []string) {
		for _, l := range s.series {
			e, _, ok := export.OfName(l["__name__"])
			if ok && e.Keep && strings.HasPrefix(string(e.Stat), "memory.size") {
				all = append(all, l.String())
			}
		}
		slices.Sort(all)
		return all
	}
	if got, want := names(two), names(one); !slices.Equal(got, want) || len(got) < 20 {
		t.Errorf("memory with added datasets\n%s\nwithout\n%s", got, want)
	}
	t.Run("promtool", func(t *testing.T) {
		if _, err := exec.LookPath("promtool"); err != nil {
			t.Skip("needs: tool promtool")
		}
		cmd := exec.Command("promtool", "check", "metrics")
		cmd.Stdin = bytes.NewReader(two.text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool: %v %s", err, out)
		}
	})
	if len(one.text) > 200_000 || len(one.series) > 1500 {
		t.Errorf("%d series, %d bytes", len(one.series), len(one.text))
	}
}

// checkLabels checks that each series is of the table and has no label beside its labels.
func checkLabels(t *testing.T, s *scraped) {
	own := []string{
		"culprit_server_viewers", "culprit_server_scrape_dropped_series",
	}
	for _, l := range s.series {
		name := l["__name__"]
		if slices.Contains(own, name) {
			continue
		}
		e, shape, ok := export.OfName(name)
		if !ok || e.Local != "" || name != e.NameOf(shape) {
			t.Errorf("%s is not an exported metric of the table", l)
			continue
		}
		for field, value := range l {
			if field != "__name__" && !slices.Contains(e.Labels, field) {
				t.Errorf("%s has the label %s, which is not in the table", name, field)
			}
			if len(value) > 300 || value == "usr" || value == "soft" {
				t.Errorf("%s: label %s=%q", name, field, value)
			}
		}
	}
}

// TestSeriesOfManyContainers counts the series of a machine with 100 network namespaces and
// cgroups.
func TestSeriesOfManyContainers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs: root (network namespaces)")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs: tool ip")
	}
	const containers = 100
	const read = 60 // the collectors read at most 64 namespaces
	prefix := fmt.Sprintf("cx%d-", os.Getpid())
	remove := func() {
		for i := range containers {
			// It may not have been made.
			_ = exec.Command("ip", "netns", "del", prefix+strconv.Itoa(i)).Run()
		}
	}
	t.Cleanup(remove)
	for i := range containers {
		netns := prefix + strconv.Itoa(i)
		batch := "link set lo up\nlink add eth0 type veth peer name eth1\n" +
			"link set eth0 up\nlink set eth1 up\n"
		if out, err := exec.Command("ip", "netns", "add", netns).CombinedOutput(); err != nil {
			t.Skipf("needs: root (network namespaces): %v: %s", err, out)
		}
		ip := exec.Command("ip", "-n", netns, "-batch", "-")
		ip.Stdin = strings.NewReader(batch)
		if out, err := ip.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	scrape := exporting(t, t.TempDir())
	var s *scraped
	eventually(t, "the namespaces are in a scrape", 2*time.Minute, func() (err error) {
		if s, err = scrape(); err != nil {
			return err
		}
		found := map[string]bool{}
		for _, l := range s.series {
			if l["__name__"] == "culprit_net_device_info" {
				found[l["netns"]] = true
			}
		}
		if len(found) < read {
			return fmt.Errorf("%d namespaces, %d series", len(found), len(s.series))
		}
		return nil
	})
	t.Logf("%d series, %d bytes", len(s.series), len(s.text))
	if len(s.series) > export.MaxSeries {
		t.Errorf("%d series", len(s.series))
	}
	for _, l := range s.series {
		if l["__name__"] == "culprit_server_scrape_dropped_series" {
			t.Errorf("%s are omitted", l["metric"])
		}
	}
}

// TestExportedValuesAreNodeExporters compares what a server and node_exporter export of the same
// machine over the same seconds.
func TestExportedValuesAreNodeExporters(t *testing.T) {
	tool, err := exec.LookPath("prometheus-node-exporter")
	if err != nil {
		t.Skip("needs: tool prometheus-node-exporter")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	node := exec.Command(tool, "--web.listen-address="+address)
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = node.Process.Kill() // it may have ended
		_ = node.Wait()
	})
	own := exporting(t, t.TempDir())
	var ours, theirs [2]*scraped
	both := func(i int) error {
		if ours[i], err = own(); err != nil {
			return err
		}
		if theirs[i], err = scrapeOf("http://"+address+"/metrics", ""); err != nil {
			return err
		}
		if v := ours[i].value("culprit_sched_switches_total"); !(v > 0) {
			return errors.New("nothing is recorded yet")
		}
		return nil
	}
	eventually(t, "both export", time.Minute, func() error { return both(0) })
	since := ours[0].value("culprit_server_newest_tick_seconds")
	eventually(t, "twenty seconds later", time.Minute, func() error {
		if err := both(1); err != nil {
			return err
		}
		if now := ours[1].value("culprit_server_newest_tick_seconds"); now < since+20 {
			return fmt.Errorf("%g s", now-since)
		}
		return nil
	})
	checkSums(t, &theirs, &ours)
	checkLevels(t, theirs[1], ours[1])
}

// checkSums compares counters. Ours end up to a second before, and are those of 20 seconds.
func checkSums(t *testing.T, theirs, ours *[2]*scraped) {
	for _, tt := range []struct {
		node, name string
		labels     []string // of ours
		nodeLabels []string
	}{
		{"node_context_switches_total", "culprit_sched_switches_total", nil, nil},
		{"node_intr_total", "culprit_system_interrupts_total", nil, nil},
		{"node_cpu_seconds_total", "culprit_cpu_time_seconds_total",
			[]string{"cpu", "0", "mode", "user"}, []string{"cpu", "0", "mode", "user"}},
		{"node_cpu_seconds_total", "culprit_cpu_time_seconds_total",
			[]string{"cpu", "0", "mode", "system"}, []string{"cpu", "0", "mode", "system"}},
	} {
		got := ours[1].value(tt.name, tt.labels...) - ours[0].value(tt.name, tt.labels...)
		want := theirs[1].value(tt.node, tt.nodeLabels...) -
			theirs[0].value(tt.node, tt.nodeLabels...)
		if !(math.Abs(got-want) <= 0.25*want+1) {
			t.Errorf("%s%v grew by %g, %s by %g", tt.name, tt.labels, got, tt.node, want)
		}
	}
}

// checkLevels compares levels that do not move.
func checkLevels(t *testing.T, theirs, ours *scraped) {
	for _, tt := range []struct {
		node, name string
		labels     []string
	}{
		{"node_boot_time_seconds", "culprit_system_boot_time_seconds", nil},
		{"node_memory_MemTotal_bytes", "culprit_memory_size_bytes", []string{"kind", "total"}},
		{"node_memory_SwapTotal_bytes", "culprit_memory_size_bytes",
			[]string{"kind", "swap_total"}},
	} {
		if got, want := ours.value(tt.name, tt.labels...), theirs.value(tt.node); got != want {
			t.Errorf("%s%v is %g, %s is %g", tt.name, tt.labels, got, tt.node, want)
		}
	}
	compared := 0
	for _, l := range theirs.series {
		if l["__name__"] != "node_filesystem_size_bytes" {
			continue
		}
		got := ours.value("culprit_filesystem_size_bytes", "mount", l["mountpoint"], "device",
			l["device"], "type", l["fstype"], "kind", "total")
		if want := theirs.samples[l.String()]; !math.IsNaN(got) {
			compared++
			if got != want {
				t.Errorf("%s: %g, ours %g", l, want, got)
			}
		}
	}
	if compared == 0 {
		t.Error("no file system is in both")
	}
}

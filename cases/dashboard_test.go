package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// quietPanels are queries of the dashboard that have no data on a machine without what they show.
//
// table: parts of expressions, and what they need
var quietPanels = map[string]string{
	"culprit_net_device_capacity_bytes_per_second": "an interface with a known speed",
	"culprit_cgroup_throttled_seconds_total":       "a control group with a quota",
	"culprit_cgroup_memory_bytes":                  "control groups with the memory controller",
	"culprit_cgroup_cpu_seconds_total":             "control groups with the cpu controller",
	"culprit_net_qdisc_drops_total":                "a queue of an interface",
	"culprit_pressure_time_seconds_total":          "a kernel with PSI",
}

// dashboardQueries returns the queries of the Grafana dashboard by the titles of their panels, as
// Grafana sends them for all hosts.
func dashboardQueries(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../packaging/grafana/culprit.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			ID      int
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			name := fmt.Sprintf("%d %s", p.ID, p.Title)
			all[name] = append(all[name], strings.NewReplacer(
				"$__rate_interval", "20s", "$instance", ".*",
			).Replace(target.Expr))
		}
	}
	if len(all) < 30 {
		t.Fatalf("%d panels", len(all))
	}
	return all
}

// samples returns how many series the query API of the server answers with now.
func (r *recorder) samples(query string) (n int, err error) {
	var a struct {
		Status string
		Data   struct{ Result []any }
	}
	if err := r.get("api/v1/query?query="+url.QueryEscape(query), &a); err != nil {
		return 0, err
	}
	if a.Status != "success" {
		return 0, fmt.Errorf("%s: status %s", query, a.Status)
	}
	return len(a.Data.Result), nil
}

// TestDashboard: each panel of the Grafana dashboard has data when it is asked of a running server,
// on a machine with load on CPUs and disks.
func TestDashboard(t *testing.T) {
	if quick() {
		return
	}
	needLab(t)
	l, bin := open(t), needProgram(t)
	dir := t.TempDir()
	r := serve(t, l, bin, dir, nil)
	if out, said, status := look(
		t, l, bin, dir, "datasets", "add", "disk.latency by device,direction",
	); status != 0 {
		t.Fatalf("%s%s", out, said)
	}
	// More programs than CPUs, and writes that reach a disk.
	file := filepath.Join(dir, "written")
	for range 6 {
		load := l.Command("sh", "-c", "while :; do :; done")
		if err := load.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = load.Process.Kill(); _ = load.Wait() })
	}
	write := l.Command("sh", "-c",
		"while :; do dd if=/dev/zero of="+file+" bs=64k count=8 conv=fsync 2>/dev/null; done")
	if err := write.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = write.Process.Kill(); _ = write.Wait() })
	quiet := maps.Clone(quietPanels)
	if _, err := os.Stat("/sys/kernel/tracing/events"); err != nil {
		quiet["culprit_disk_latency_seconds"] = "tracefs, mounted"
	}
	limit := time.Now().Add(90 * time.Second)
	for name, queries := range dashboardQueries(t) {
		for _, q := range queries {
			what := ""
			for part, needs := range quiet {
				if strings.Contains(q, part) {
					what = needs
				}
			}
			if what != "" {
				if _, err := r.samples(q); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			r.eventually(name+": "+q, time.Until(limit), func() error {
				n, err := r.samples(q)
				if err == nil && n == 0 {
					err = errors.New("no data")
				}
				return err
			})
		}
	}
}

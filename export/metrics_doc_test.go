package export

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/METRICS.md anew")

// TestMetricsDocument compares docs/METRICS.md with the table: names and labels of exported metrics
// are stable, so a change of this file is a change for users.
func TestMetricsDocument(t *testing.T) {
	const path = "../docs/METRICS.md"
	want := metricsDocument(Table())
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) == want {
		return
	}
	have, should := strings.Split(string(got), "\n"), strings.Split(want, "\n")
	for i := range max(len(have), len(should)) {
		a, b := "", ""
		if i < len(have) {
			a = have[i]
		}
		if i < len(should) {
			b = should[i]
		}
		if a != b {
			t.Fatalf("docs/METRICS.md:%d: %q, the table has %q: "+
				"go test ./export -run Document -update", i+1, a, b)
		}
	}
}

// metricsDocument returns the document of the entries.
func metricsDocument(all []Entry) string {
	var b strings.Builder
	b.WriteString(metricsIntroduction)
	fmt.Fprintf(&b, `
## Exported

| metric | type | labels | statistic | rows |
|---|---|---|---|---|
`)
	var local, named []Entry
	for _, e := range all {
		if e.NodeExporter != "" || e.OTel != "" {
			named = append(named, e)
		}
		if e.Local != "" {
			local = append(local, e)
			continue
		}
		shape := Shapes(e.Kind, e.Signed)[0]
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s |\n", e.Name(), shape.Type(),
			strings.Join(e.Labels, ", "), e.Stat, rowsOf(e))
	}
	b.WriteString(`
## Other systems

The same quantity in node_exporter, and in the semantic conventions of OpenTelemetry. Labels and
units differ: a direction is a label here and a part of the name there.

| metric | node_exporter | OpenTelemetry |
|---|---|---|
`)
	for _, e := range named {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Name(), e.NodeExporter, e.OTel)
	}
	b.WriteString(`
## Not exported

Only the query API of the server answers for these, as long as they are recorded. The second name of
a delta ends in ` + "`_per_second`" + ` in place of ` + "`_total`" + `.

| metric | labels | why not |
|---|---|---|
`)
	slices.SortStableFunc(local, func(a, b Entry) int { return cmp.Compare(a.Stat, b.Stat) })
	for _, e := range local {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Name(), strings.Join(e.Labels, ", "), e.Local)
	}
	return b.String()
}

// rowsOf returns which rows are exported, and whether they are recorded by default.
func rowsOf(e Entry) string {
	var parts []string
	if len(e.Where) > 0 {
		q := e.Query()
		q.Stat, q.By = "", nil
		parts = append(parts, "`"+strings.TrimSpace(strings.TrimPrefix(q.String(), " where "))+"`")
	}
	if e.Bound != DefaultBound {
		parts = append(parts, fmt.Sprintf("at most %d", e.Bound))
	}
	if e.OnRequest || e.Kind == dist || strings.HasPrefix(string(e.Stat), "nfs.server.") {
		parts = append(parts, "recorded on request")
	}
	return strings.Join(parts, "; ")
}

const metricsIntroduction = `# Metrics

` + "`/metrics`" + `, remote write and the query API have these metrics, with the same names and labels.
Package ` + "`export`" + ` contains the table; this page is written from it.
[PROMETHEUS.md](PROMETHEUS.md) describes how statistics become samples.

* A metric always has the same labels, whatever datasets a host records. An empty label is left out.
* No label contains a process ID, thread ID, port, stack or command line. The address of a peer is a
  label of ` + "`culprit_finding{kind=\"peer\"}`" + ` only, which the role ` + "`metrics`" + ` does not see.
* A counter that never moved is left out. It begins with a sample of 0.
* A metric with more than 1,000 series is omitted, and the widest ones while there are more than
  4,000 in sum. ` + "`culprit_server_scrape_dropped_series{metric}`" + ` counts them.
* Distributions are histograms. Only remote write and the query API have them.
* At most 64 network namespaces are read. Statistics without the label ` + "`netns`" + ` are sums over them.
`

package prom

import (
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// TestMetricsOfBreakdowns checks the names, labels and predicates of a statistic's metrics, and
// which are exported, for different datasets of it.
func TestMetricsOfBreakdowns(t *testing.T) {
	cgroup := measure.Stat{ID: "cgroup.cpu", Kind: measure.Delta, Unit: measure.Nanoseconds,
		Fields: fields("cgroup", "mode")}
	limits := measure.Stat{ID: "limit.used", Kind: measure.Level, Unit: measure.Count,
		Fields: fields("resource", "owner")}
	finding := measure.Stat{ID: "finding.confidence", Kind: measure.Level, Unit: measure.Ratio,
		Fields: fields("rule", "kind", "culprit", "severity")}
	latency := measure.Stat{ID: "syscall.latency", Kind: measure.Dists, Unit: measure.Nanoseconds,
		Fields: fields("syscall", "process", "pid", "error")}
	mine := measure.Stat{ID: "mine.bytes", Kind: measure.Delta, Unit: measure.Bytes,
		Fields: append(fields("file"), measure.Field{Name: "stack", Type: measure.Stack})}
	tests := []struct {
		name    string
		stat    measure.Stat
		queries []string
		want    []string // name, labels, * for exported, and predicates
	}{
		{"as in the table", cgroup, []string{"cgroup.cpu by cgroup"}, []string{
			"culprit_cgroup_cpu_seconds_per_second(cgroup)",
			"culprit_cgroup_cpu_seconds_total(cgroup)*",
		}},
		{"with more fields", cgroup, []string{"cgroup.cpu by mode,cgroup"}, []string{
			"culprit_cgroup_cpu_seconds_by_cgroup_mode_per_second(cgroup,mode)",
			"culprit_cgroup_cpu_seconds_by_cgroup_mode_total(cgroup,mode)",
			"culprit_cgroup_cpu_seconds_per_second(cgroup)",
			"culprit_cgroup_cpu_seconds_total(cgroup)*",
		}},
		{"with other fields", cgroup, []string{"cgroup.cpu by mode", "cgroup.cpu"}, []string{
			"culprit_cgroup_cpu_seconds_by_mode_per_second(mode)",
			"culprit_cgroup_cpu_seconds_by_mode_total(mode)",
			"culprit_cgroup_cpu_seconds_by_none_per_second()",
			"culprit_cgroup_cpu_seconds_by_none_total()",
		}},
		{"a part of the rows is not exported", cgroup,
			[]string{"cgroup.cpu by cgroup where cgroup = a"}, []string{
				"culprit_cgroup_cpu_seconds_by_cgroup_per_second(cgroup) where cgroup = \"a\"",
				"culprit_cgroup_cpu_seconds_by_cgroup_total(cgroup) where cgroup = \"a\"",
			}},
		{"a part of rows that are no sums", finding,
			[]string{"finding.confidence by rule,kind,culprit,severity where kind != peer"},
			[]string{"culprit_finding(rule,kind,culprit,severity)* where kind != \"peer\""}},
		{"the table has a predicate", limits, []string{"limit.used by resource,owner"}, []string{
			"culprit_limit_used(resource)* where owner = \"\"",
			"culprit_limit_used_by_resource_owner(resource,owner)",
		}},
		{"two parts of what is not exported", latency,
			[]string{"syscall.latency by syscall where pid = 7",
				"syscall.latency by syscall where process = a"}, []string{
				"culprit_syscall_latency_seconds(syscall) where pid = 7 where process = \"a\"",
			}},
		{"a part and the whole", latency,
			[]string{"syscall.latency by syscall where pid = 7", "syscall.latency by syscall"},
			[]string{"culprit_syscall_latency_seconds(syscall)"}},
		{"of a user's program, stacks folded", mine, []string{"mine.bytes by file,stack"},
			[]string{"culprit_mine_bytes_per_second(file)", "culprit_mine_bytes_total(file)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var sets []measure.Dataset
			for i, text := range tt.queries {
				q, err := measure.ParseQuery(text)
				if err != nil {
					t.Fatal(err)
				}
				sets = append(sets, measure.Dataset{ID: uint32(i + 1), Query: q, Stat: tt.stat})
			}
			var got []string
			for _, m := range metrics(sets) {
				s := m.name + "(" + strings.Join(m.by, ",") + ")"
				if m.exported {
					s += "*"
				}
				for _, where := range m.where {
					q := measure.Query{Where: where}
					s += q.String()
				}
				got = append(got, s)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("metrics\n%s\nwant\n%s", strings.Join(got, "\n"),
					strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestMetricNamesAreUnique records two statistics that would have the same name: the later one in
// the alphabet gets its unit again.
func TestMetricNamesAreUnique(t *testing.T) {
	all := metrics([]measure.Dataset{
		dataset(stat("disk.size", measure.Level, measure.Bytes)),
		dataset(stat("disk.size.bytes", measure.Level, measure.Bytes)),
	})
	var got []string
	for _, m := range all {
		got = append(got, m.name+" = "+string(m.stat.ID))
	}
	want := []string{
		"culprit_disk_size_bytes = disk.size",
		"culprit_disk_size_bytes_bytes = disk.size.bytes",
	}
	if !slices.Equal(got, want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
}

func fields(names ...string) (all []measure.Field) {
	for _, n := range names {
		all = append(all, measure.Field{Name: n, Type: measure.Word})
	}
	return all
}

func stat(id measure.StatID, kind measure.Kind, unit measure.Unit) measure.Stat {
	return measure.Stat{ID: id, Kind: kind, Unit: unit}
}

func dataset(st measure.Stat) measure.Dataset {
	return measure.Dataset{Query: measure.Query{Stat: st.ID}, Stat: st}
}

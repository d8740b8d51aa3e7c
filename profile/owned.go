package profile

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"culprit/measure"

	"github.com/google/pprof/profile"
)

// ProcessNames is the query of the names and control groups of processes.
const ProcessNames = "process.info by pid,process,cgroup"

// other is the process and the service of what is beyond a limit.
const other = "other"

// Limits of the labels of a profile. Beyond maxOwners, processes are "other".
const (
	maxOwners    = 500
	maxOwnerName = 200 // bytes
)

// AskOwned returns the profile of a recorded time, without idle CPUs. A call of the first level is
// a process, and its module is the control group. The errors are those of AskRecorded. Without an
// answer to ProcessNames the threads have their own names, and a note says so.
func AskOwned(ctx context.Context, r measure.Reader, over measure.Interval) (*Recorded, error) {
	owners, named := askOwners(ctx, r, over)
	known := map[owner]bool{}
	of := func(pid, thread string) (string, string) {
		o, ok := owners[pid]
		if !ok {
			o.process = thread
		}
		o = owner{ownerName(o.process), ownerName(o.cgroup)}
		if !known[o] {
			if len(known) >= maxOwners {
				return other, ""
			}
			known[o] = true
		}
		return o.process, o.cgroup
	}
	got, err := AskRecorded(ctx, r, Part{Over: over, owner: of})
	if err == nil && named != nil {
		got.Tree.note("processes and control groups are unknown: " + named.Error())
	}
	return got, err
}

// An owner is a process and its control group, by their names.
type owner struct{ process, cgroup string }

// askOwners returns the owners of process IDs in an interval. The error is the reader's; the map is
// empty then.
func askOwners(ctx context.Context, r measure.Reader, over measure.Interval) (
	map[string]owner, error) {
	owners := map[string]owner{}
	q, err := measure.ParseQuery(ProcessNames)
	if err != nil {
		return owners, err
	}
	q.Over, q.Step = over, over.Span()
	a, err := r.Ask(ctx, q)
	if err != nil {
		return owners, err
	}
	pid, process, cgroup := a.FieldIndex("pid"), a.FieldIndex("process"), a.FieldIndex("cgroup")
	for i := range a.Series {
		owners[a.Label(i, pid)] = owner{a.Label(i, process), a.Label(i, cgroup)}
	}
	return owners, nil
}

// ownerName returns the name of a process or a control group for a label: printable, and not long.
func ownerName(s string) string {
	s = measure.Clean(s[:min(len(s), 4*maxOwnerName)])
	return strings.ToValidUTF8(s[:min(len(s), maxOwnerName)], "")
}

// WriteOwned writes a profile of AskOwned in pprof's format, as WritePProf does. Its samples have
// the labels process, cgroup, and service: the systemd unit of the control group, else the process.
// The error is the writer's.
func WriteOwned(w io.Writer, t *Tree) error { return asPProf(t, ownerLabels).Write(w) }

// ownerLabels returns the labels of the samples of a process.
func ownerLabels(f *Function) map[string][]string {
	labels := map[string][]string{"process": {f.Name}, "service": {serviceOf(f.Name, f.Module)}}
	if f.Module != "" {
		labels["cgroup"] = []string{f.Module}
	}
	return labels
}

// A ServiceProfile is the profile of one service in pprof's format, packed by gzip.
type ServiceProfile struct {
	Service string
	Data    []byte
}

// Services returns a profile for each service of a profile of AskOwned, that with the most samples
// first. Its samples have the labels process and cgroup. Beyond most services, the rest is the
// service "other", which comes last. The error is that of packing.
func Services(t *Tree, most int) ([]ServiceProfile, error) {
	whole := asPProf(t, ownerLabels)
	samples, amounts := map[string][]*profile.Sample{}, map[string]int64{}
	for _, s := range whole.Sample {
		name := s.Label["service"][0]
		delete(s.Label, "service")
		samples[name] = append(samples[name], s)
		amounts[name] += s.Value[0]
	}
	names := slices.SortedFunc(maps.Keys(samples), func(a, b string) int {
		return cmp.Or(cmp.Compare(amounts[b], amounts[a]), cmp.Compare(a, b))
	})
	if len(names) > most {
		var rest []*profile.Sample
		for _, name := range names[most:] {
			rest = append(rest, samples[name]...)
		}
		names = slices.DeleteFunc(names[:most], func(name string) bool { return name == other })
		samples[other] = append(samples[other], rest...)
		names = append(names, other)
	}
	all := make([]ServiceProfile, len(names))
	for i, name := range names {
		one := &profile.Profile{
			SampleType: whole.SampleType, DefaultSampleType: whole.DefaultSampleType,
			PeriodType: whole.PeriodType, Period: whole.Period, TimeNanos: whole.TimeNanos,
			DurationNanos: whole.DurationNanos, Comments: whole.Comments, Sample: samples[name],
		}
		var b bytes.Buffer
		if err := one.Compact().Write(&b); err != nil {
			return nil, err
		}
		all[i] = ServiceProfile{Service: name, Data: b.Bytes()}
	}
	return all, nil
}

// serviceOf returns the innermost systemd service of a control group,
// /system.slice/nginx.service; else the process without the number of a kernel thread.
func serviceOf(process, cgroup string) string {
	parts := strings.Split(cgroup, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if unit, ok := strings.CutSuffix(parts[i], ".service"); ok && unit != "" {
			return unit
		}
	}
	process, _, _ = strings.Cut(process, "/") // kworker/0:1
	return process
}

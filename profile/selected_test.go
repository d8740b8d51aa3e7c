package profile

import (
	"errors"
	"testing"

	"culprit/measure"
)

// Names select by process or thread, control groups with those below, and both together the
// intersection. The samples are those of ownedReader: 20, 30 of two processes and 5 of a third.
func TestSelectedThreads(t *testing.T) {
	for _, tt := range []struct {
		name           string
		names, cgroups []string
		want           float64
	}{
		{name: "all", want: 55},
		{name: "the name of processes", names: []string{"nginx"}, want: 50},
		{name: "the name of threads", names: []string{"worker"}, want: 55},
		{name: "another name", names: []string{"ngin"}, want: 0},
		{name: "a group", cgroups: []string{"/system.slice/nginx.service"}, want: 20},
		{name: "a group above", cgroups: []string{"/docker"}, want: 30},
		{name: "the root", cgroups: []string{"/"}, want: 50},
		{name: "a name of which it is a prefix", cgroups: []string{"/docker/c0"}, want: 0},
		{name: "two groups", cgroups: []string{"/docker", "/system.slice"}, want: 50},
		{name: "both", names: []string{"nginx"}, cgroups: []string{"/docker"}, want: 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Part{Over: measure.Interval{Start: 0, End: 10e9}, Names: tt.names}
			p.Cgroups = tt.cgroups
			got, err := AskRecorded(t.Context(), ownedReader{}, p)
			if err != nil || got.Samples != tt.want || got.Tree.Sum() != tt.want {
				t.Errorf("%+v, %v, want %v samples", got, err, tt.want)
			}
		})
	}
	p := Part{Over: measure.Interval{Start: 0, End: 10e9}, Cgroups: []string{"/docker"}}
	if _, err := AskRecorded(t.Context(), ownedReader{unnamed: true}, p); err == nil ||
		errors.Is(err, measure.ErrUnclear) {
		t.Errorf("without names of processes: %v", err)
	}
}

package web

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"culprit/measure"
)

// The client lists and changes the datasets of the machine behind the server.
func TestClientManagesDatasets(t *testing.T) {
	m := newMemory(t).filled(60)
	c := connect(t, m)
	ctx := t.Context()
	all, err := c.Datasets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(m.Datasets()) {
		t.Fatalf("%d datasets, want %d", len(all), len(m.Datasets()))
	}
	for i, want := range m.Datasets() {
		if got := all[i]; !reflect.DeepEqual(got.Dataset, want) ||
			!reflect.DeepEqual(got.Held.Over, m.Held(want.ID).Over) ||
			got.Held.Disk != m.Held(want.ID).Disk ||
			got.Held.Rows != m.Held(want.ID).Rows {
			t.Errorf("dataset %d\n got %+v\nwant %+v, %+v", want.ID, got, want, m.Held(want.ID))
		}
	}
	id, err := c.Enable(ctx, "net.drops by device", 5*measure.Second)
	if err != nil || id == 0 {
		t.Fatal(id, err)
	}
	state := func() measure.State {
		t.Helper()
		all, err := c.Datasets(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range all {
			if k.ID == id {
				if k.Query.Step != 5*measure.Second {
					t.Errorf("its step is %v", k.Query.Step)
				}
				return k.State
			}
		}
		return 0
	}
	for _, step := range []struct {
		do   func() error
		want measure.State
	}{
		{func() error { return c.Suspend(ctx, id) }, measure.Suspended},
		{func() error { return c.Resume(ctx, id) }, measure.Recording},
		{func() error { return c.Discard(ctx, id, measure.Interval{Start: start, End: start + 5*second}) }, measure.Recording},
		{func() error { return c.Destroy(ctx, id) }, 0},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := state(); got != step.want {
			t.Errorf("the dataset is %v, want %v", got, step.want)
		}
	}
	changes, err := c.Changes(ctx, measure.Interval{Start: 0, End: 1 << 62})
	want, _ := m.Changes(ctx, measure.Interval{Start: 0, End: 1 << 62})
	if err != nil || len(changes) != len(want) || len(want) == 0 {
		t.Fatalf("%d changes, %v, want %d", len(changes), err, len(want))
	}
	for i := range want {
		if changes[i].Action != want[i].Action || changes[i].Dataset != want[i].Dataset ||
			changes[i].Actor != want[i].Actor ||
			changes[i].Over != want[i].Over {
			t.Errorf("change %+v, want %+v", changes[i], want[i])
		}
	}
	var d *measure.Diagnostic
	if _, err := c.Enable(ctx, "net.dropz", measure.Second); !errors.As(err, &d) {
		t.Errorf("an unknown statistic: %v", err)
	}
	if err := c.Suspend(ctx, 999); err == nil {
		t.Error("there is no dataset 999")
	}
}

func TestScriptsOfAServer(t *testing.T) {
	m := newMemory(t).filled(2)
	s := serve(t, m, func(s *Server) { s.Scripts = scripted{m} })
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/api/scripts", `{"text":"BEGIN wrong x"}`, 400, `"position":6,"length":5,"also":[{"message":"and this","code":"syntax","position":12,"length":1}]`},
		{"/api/scripts", `{"text":""}`, 400, "no text"},
		{"/api/scripts", `{"text":"BEGIN","budget":-1}`, 400, "budget"},
		{"/api/scripts", `{"text":"BEGIN","budget":99}`, 400, "budget"},
		{"/api/scripts", `{"text":"BEGIN","destructive":true}`, 400, "destructive"},
		{"/api/scripts", `{"text":"BEGIN { @ = count(); }","name":"one","record":true}`, 200, `"budget":0.02`},
		{"/api/scripts/1/stop", `{}`, 200, `"state":"stopped"`},
		{"/api/scripts/1/start", `{}`, 200, `"state":"running"`},
		{"/api/scripts/1/kill", `{}`, 404, "start, stop or remove"},
		{"/api/scripts/7/stop", `{}`, 404, "no script 7"},
		{"/api/scripts/x/stop", `{}`, 404, "no script x"},
		{"/api/scripts/1/remove", `{}`, 200, "{}"},
	} {
		res := s.request("POST", c.path, c.body)
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != c.status || !strings.Contains(string(b), c.says) {
			t.Errorf(
				"%s %s: %d %s, want %d and %s", c.path, c.body, res.StatusCode, b, c.status, c.says,
			)
		}
	}
	if res := s.request("POST", "/api/scripts", `{"text":"BEGIN"}`, "X-Culprit", ""); res.StatusCode != 403 {
		t.Errorf("without the header: %d", res.StatusCode)
	}
	s.request("POST", "/api/scripts", `{"text":"BEGIN"}`)
	if k := m.programs[0]; k.Creator != "command line" || k.Role != "trace" {
		t.Errorf("a script of the server's own token is of %q with the role %q", k.Creator, k.Role)
	}
	m.refusing = &measure.Denied{Doing: "load", Needs: "CAP_BPF"}
	if res := s.request("POST", "/api/scripts", `{"text":"BEGIN"}`); res.StatusCode != 403 {
		t.Errorf("without the right: %d", res.StatusCode)
	}
	if res := serve(t, newMemory(t)).request("GET", "/api/scripts", ""); res.StatusCode != 501 {
		t.Errorf("a server without scripts: %d", res.StatusCode)
	}
}

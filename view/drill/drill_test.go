package drill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

func stat(id measure.StatID, fields ...string) measure.Stat {
	s := measure.Stat{ID: id}
	for _, f := range fields {
		s.Fields = append(s.Fields, measure.Field{Name: f, Type: measure.Word, Help: f})
	}
	return s
}

var stats = []measure.Stat{
	stat("disk.io.bytes", "device", "direction", "process", "pid"),
	stat("disk.latency", "device", "direction", "process", "pid"),
	stat("net.device.address", "netns", "device", "family", "address"),
	stat("net.device.bytes", "netns", "device", "direction"),
	stat("net.device.drops", "netns", "device", "direction"),
	stat("net.device.speed", "netns", "device"),
	stat("nfs.server.count", "client", "operation", "version"),
	stat("nfs.server.latency", "client", "operation", "version"),
	stat("process.io", "pid", "process", "direction"),
	stat("syscall.latency", "syscall", "process", "pid"),
	stat("tcp.flow.bytes", "netns", "local", "localport", "peer", "peerport", "process", "pid", "direction"),
	stat("tcp.flow.limited", "netns", "local", "localport", "peer", "peerport", "process", "by"),
	stat("thread.cpu", "pid", "process", "tid", "thread", "mode"),
	stat(measure.StackSamples, "process", "pid", "cpu"),
}

// machine answers lookups: the server has nic0 with two addresses, client 3 has its own device.
func machine(_ context.Context, q measure.Query) (out [][]string, err error) {
	rows := []map[string]string{
		{"netns": "srv", "device": "nic0", "address": "10.0.0.1", "local": "10.0.0.1", "peer": "10.0.0.3"},
		{"netns": "srv", "device": "nic0", "address": "fe80::1"},
		{"netns": "cl3", "device": "e0", "address": "10.0.0.3"},
		{"netns": "srv", "local": "10.0.0.1", "peer": "10.9.9.9"},
	}
	for _, r := range rows {
		if slices.ContainsFunc(q.Where, func(t measure.Term) bool { return !t.Match(r[t.Field]) }) {
			continue
		}
		var key []string
		for _, f := range q.By {
			key = append(key, r[f])
		}
		if !slices.Contains(key, "") {
			out = append(out, key)
		}
	}
	return out, nil
}

func parse(t *testing.T, text string) measure.Query {
	t.Helper()
	q, err := measure.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestQuestions(t *testing.T) {
	for _, tt := range []struct {
		name, query, key, wider, text string
		want                          string // the query, and " not " what it is not narrowed by
	}{
		{
			"interface to peers", "net.device.bytes by netns,device,direction", "srv nic0 tx", "",
			"Who sends and receives through it?",
			`tcp.flow.bytes by peer where local in ("10.0.0.1", "fe80::1") and netns = "srv" and direction = "tx"`,
		},
		{
			"interface to its speed", "net.device.bytes by netns,device,direction", "cl3 e0 rx", "",
			"Is the link slow?",
			`net.device.speed where netns = "cl3" and device = "e0" not net.device.bytes where direction = "rx"`,
		},
		{
			"interface of a graph of one", `net.device.bytes by direction where device = "nic0"`, "rx", "",
			"Is the link slow?",
			`net.device.speed by netns where device = "nic0" not net.device.bytes where direction = "rx"`,
		},
		{
			"all interfaces", `net.device.speed where netns = "cl3" and device = "e0"`, "", "",
			"Compare with the others", `net.device.speed by netns,device`,
		},
		{
			"peer to the link of another namespace", `tcp.flow.bytes by peer where netns = "srv"`,
			"10.0.0.3", "", "Is its link slow?",
			`net.device.speed where netns = "cl3" and device = "e0"`,
		},
		{
			"peer to the link towards it", `tcp.flow.bytes by peer where process = "nfsd"`,
			"10.9.9.9", "", "Is its link slow?",
			`net.device.speed where netns = "srv" and device = "nic0" not tcp.flow.bytes where process = "nfsd"`,
		},
		{
			"the predicate is kept", `tcp.flow.bytes by peer where netns = "srv"`, "10.0.0.3", "",
			"Which processes talk to it?",
			`tcp.flow.bytes by process,pid where peer = "10.0.0.3" and netns = "srv"`,
		},
		{
			"a term that was not carried is carried again", `net.device.speed by netns,device`,
			"srv nic0", `net.device.bytes where direction = "rx"`, "Does it drop packets?",
			`net.device.drops where netns = "srv" and device = "nic0" and direction = "rx"`,
		},
		{
			"directions of disks are not those of processes", "disk.io.bytes by process,direction",
			"dd read", "", "Which threads use the CPU?",
			`thread.cpu by tid,thread where process = "dd" not disk.io.bytes where direction = "read"`,
		},
		{
			"client to the connections", "nfs.server.latency by client,operation", "10.0.0.3 READ", "",
			"What limits its connections?",
			`tcp.flow.limited by netns,by where peer = "10.0.0.3" not nfs.server.latency where operation = "READ"`,
		},
		{
			"operation to clients", "nfs.server.count by operation", "READ", "",
			"How long do its clients wait?", `nfs.server.latency by client where operation = "READ"`,
		},
		{
			"locks", "thread.cpu by process", "java", "", "Does it wait for locks?",
			`syscall.latency by pid where syscall = "futex" and process = "java"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			row := Row{Query: parse(t, tt.query), Key: strings.Fields(tt.key)}
			if tt.wider != "" {
				row.Wider = append(row.Wider, parse(t, tt.wider))
			}
			all, err := Questions(t.Context(), stats, row, machine)
			if err != nil || len(all) > maxQuestions {
				t.Fatalf("%d questions: %v", len(all), err)
			}
			var texts []string
			for _, q := range all {
				got := q.Query.String()
				for _, w := range q.Wider {
					got += " not " + w.String()
				}
				if q.Text != tt.text {
					texts = append(texts, q.Text)
				} else if got == tt.want {
					return
				} else {
					t.Errorf("%s", got)
				}
			}
			t.Errorf("want %s\n%s", tt.want, strings.Join(texts, "\n"))
		})
	}
}

// TestThingsTakeTurns checks that a row about two things has questions about both.
func TestThingsTakeTurns(t *testing.T) {
	row := Row{parse(t, "disk.io.bytes by device,process"), []string{"sda", "dd"}, nil}
	all, err := Questions(t.Context(), stats, row, machine)
	if err != nil || len(all) < 4 {
		t.Fatalf("%v: %v", all, err)
	}
	want := "Which threads use the CPU? How long do requests take?"
	if got := all[0].Text + " " + all[1].Text; got != want {
		t.Error(got)
	}
	for _, q := range all {
		if q.Query.String() == "disk.io.bytes" {
			t.Errorf("%s asks for the row itself", q.Text)
		}
	}
}

func TestUnknownValuesAskNothing(t *testing.T) {
	row := Row{parse(t, "tcp.flow.bytes by peer"), []string{""}, nil}
	if all, err := Questions(t.Context(), stats, row, machine); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
}

func TestLookupFails(t *testing.T) {
	row := Row{parse(t, "tcp.flow.bytes by peer"), []string{"10.0.0.3"}, nil}
	broken := errors.New("broken")
	fails := func(context.Context, measure.Query) ([][]string, error) { return nil, broken }
	_, err := Questions(t.Context(), stats, row, fails)
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestStart(t *testing.T) {
	for id, want := range map[measure.StatID]string{
		"net.device.bytes": "net.device.bytes by netns,device,direction",
		"tcp.flow.bytes":   "tcp.flow.bytes by netns,peer,direction",
		"thread.cpu":       "thread.cpu by process",
		"syscall.latency":  "syscall.latency by syscall",
	} {
		i := slices.IndexFunc(stats, func(s measure.Stat) bool { return s.ID == id })
		if got := Start(&stats[i]).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/classic"
)

// tooled is a machine that has every statistic of the tools. Those of nic have values: eth0
// receives 125 MB/s of its 10 Gbit/s, and is gone in the third second.
func tooled(t testing.TB) *memory {
	m := newMemory(t)
	m.stats, m.sets = nil, nil
	for _, tool := range classic.All() {
		options := []view.Options{nil}
		for _, f := range tool.Flags {
			for _, v := range append(f.Values, "1") {
				options = append(options, view.Options{f.Name: {v}})
			}
		}
		for _, o := range options {
			for _, sentence := range tool.Ask(o) {
				q, err := measure.ParseQuery(sentence)
				if err != nil {
					t.Fatal(err)
				}
				st := m.stat(q.Stat)
				if st == nil {
					m.stats = append(
						m.stats, measure.Stat{ID: q.Stat, Kind: measure.Level, Unit: "1"},
					)
					st = &m.stats[len(m.stats)-1]
				}
				fields := slices.Clone(q.By)
				for _, term := range q.Where {
					fields = append(fields, term.Field)
				}
				for _, f := range fields {
					if _, i := st.Field(f); i < 0 {
						st.Fields = append(st.Fields, measure.Field{Name: f, Type: measure.Word})
					}
				}
			}
		}
	}
	delta := func(id measure.StatID, u measure.Unit) {
		st := m.stat(id)
		st.Kind, st.Unit = measure.Delta, u
	}
	delta("net.device.bytes", "B")
	delta("net.device.packets", "packet")
	row := func(id measure.StatID, value float64, words map[string]string) line {
		l := line{value: value}
		for _, f := range m.stat(id).Fields {
			l.key = append(l.key, words[f.Name])
		}
		return l
	}
	for i := 1; i <= 4; i++ {
		rows := map[measure.StatID][]line{"net.device.bytes": {}}
		for _, direction := range []string{"rx", "tx"} {
			words := map[string]string{
				"device":    "eth0",
				"direction": direction,
				"from":      "ethtool",
				"admin":     "up",
				"duplex":    "full",
			}
			if i == 3 {
				break
			}
			rows["net.device.bytes"] = append(
				rows["net.device.bytes"], row("net.device.bytes", 125e6, words),
			)
			rows["net.device.packets"] = append(
				rows["net.device.packets"], row("net.device.packets", 125e3, words),
			)
			rows["net.device.capacity"] = append(
				rows["net.device.capacity"], row("net.device.capacity", 1e10, words),
			)
			if direction == "rx" {
				rows["net.device.info"] = append(
					rows["net.device.info"], row("net.device.info", 1, words),
				)
			}
		}
		m.add(start+measure.Time(i)*second, rows)
	}
	return m
}

type tableJSON struct {
	StartMS float64 `json:"start_ms"`
	EndMS   float64 `json:"end_ms"`
	Columns []struct{ Name, Head, Unit, Show, Help string }
	Rows    []struct {
		Key   string
		Cells []any
		Total bool
	}
	Notes []string
	Loss  []measure.Loss
}

func (t *tableJSON) cell(row int, column string) any {
	for i, c := range t.Columns {
		if c.Name == column {
			return t.Rows[row].Cells[i]
		}
	}
	return "no such column"
}

func TestTool(t *testing.T) {
	m := tooled(t)
	s := serve(t, m).until(start + 4*second)
	var reply struct{ Tables []tableJSON }
	s.decodeReply(s.get(fmt.Sprintf("/api/tool/nic?from=%d&to=now&step=1s", start/1e6)), &reply)
	if len(reply.Tables) != 4 {
		t.Fatalf("%d tables", len(reply.Tables))
	}
	for i, table := range reply.Tables {
		if table.EndMS != float64(int(start/1e6)+1000*(i+1)) || table.StartMS != table.EndMS-1000 {
			t.Errorf("table %d is from %v to %v", i, table.StartMS, table.EndMS)
		}
		if want := map[bool]int{true: 0, false: 1}[i == 2]; len(table.Rows) != want {
			t.Errorf("second %d: %+v, want %d rows", i+1, table.Rows, want)
			continue
		}
		if i != 2 &&
			(table.cell(0, "rx_bytes_per_s") != 125e6 || table.cell(0, "util") != 0.1 ||
				table.cell(0, "device") != "eth0" || table.cell(0, "errors_per_s") != nil) {
			t.Errorf("second %d: %+v", i+1, table.Rows)
		}
	}
	units := map[string]string{
		"rx_bytes_per_s": "B/s", "util": "ratio", "capacity_bits_per_s": "bit/s", "device": "",
		"saturation_per_s": "1/s", "rx_avg_bytes": "B",
	}
	for _, c := range reply.Tables[0].Columns {
		if want := units[c.Name]; want != "" && c.Unit != want {
			t.Errorf("%s is in %q", c.Name, c.Unit)
		}
	}
	// One table over all of it: the amounts of three seconds over the four that were measured.
	s.decodeReply(s.get(fmt.Sprintf("/api/tool/nic?from=%d&interface=eth*,lo", start/1e6)), &reply)
	if len(reply.Tables) != 1 || reply.Tables[0].cell(0, "rx_bytes_per_s") != 125e6*3/4.0 {
		t.Errorf("the mean: %+v", reply.Tables)
	}
	s.decodeReply(s.get("/api/tool/nic"), &reply)
	if len(reply.Tables) != 1 || reply.Tables[0].EndMS != float64((start+4*second)/1e6) {
		t.Errorf("now: %+v", reply.Tables)
	}
	s.decodeReply(s.get("/api/tool/nic?interface=eth1"), &reply)
	if len(reply.Tables) != 1 || len(reply.Tables[0].Rows) != 0 {
		t.Errorf("another interface: %+v", reply.Tables)
	}
	s.decodeReply(s.get("/api/tool/nic?from=-2d&to=-1d&step=1h"), &reply)
	if len(reply.Tables) != 0 {
		t.Errorf("nothing was measured: %+v", reply.Tables)
	}
	for path, want := range map[string]string{
		"/api/tool/nik": "404 not-found", "/api/tool/nic?interfaze=x": "400 bad-request", "/api/tool/nic?idle=yes": "400 bad-request", "/api/tool/nic?interface=": "400 bad-request",
		"/api/tool/flows?by=colour": "400 bad-request", "/api/tool/nic?from=-1w&step=1s": "413 too-large", "/api/tool/nic/live?from=-1m": "400 bad-request",
	} {
		if got := s.code(s.get(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	var list struct {
		Tools []struct {
			Name  string
			Flags []struct{ Name, Letter, Value string }
		}
	}
	s.decodeReply(s.get("/api/tools"), &list)
	if len(list.Tools) != len(classic.All()) {
		t.Errorf("%+v", list)
	}
	for _, tool := range list.Tools { // each makes a table, also of few answers
		if res := s.get("/api/tool/" + tool.Name + "?from=-4s"); res.StatusCode != 200 {
			b, _ := io.ReadAll(res.Body)
			t.Errorf("%s: %s %s", tool.Name, res.Status, b)
		}
	}
}

func TestLiveTool(t *testing.T) {
	m := tooled(t)
	s := serve(t, m).until(start + 4*second)
	r := bufio.NewReader(s.get("/api/tool/nic/live?idle=1").Body)
	for i := 4; i < 7; i++ {
		name, data := sse(t, r)
		var table tableJSON
		if err := json.Unmarshal([]byte(data), &table); err != nil || name != "table" ||
			table.EndMS != float64((start+measure.Time(i)*second)/1e6) ||
			len(table.Rows) != 1 ||
			table.cell(0, "tx_packets_per_s") != 125e3 {
			t.Fatalf("%s %v %s", name, err, data)
		}
		m.add(start+measure.Time(i+1)*second, m.ticks[0].rows)
	}
}

func TestFindings(t *testing.T) {
	m := newMemory(t).filled(1)
	s := serve(t, m).until(start + second)
	var now struct {
		AtMS   *float64 `json:"at_ms"`
		Report *struct{ Host string }
	}
	s.decodeReply(s.get("/api/diagnosis"), &now)
	if now.AtMS != nil || now.Report != nil {
		t.Errorf("before the first: %+v", now)
	}
	if n := m.attended.Load(); n != 0 {
		t.Errorf("%d readers before the first", n)
	}
	stream := s.get("/api/diagnosis/live")
	r := bufio.NewReader(stream.Body)
	m.report(start+10*second, "{\n  \"host\": \"one\"\n}\n")
	name, data := sse(t, r)
	if n := m.attended.Load(); n != 1 {
		t.Errorf("%d readers, want 1", n)
	}
	if err := json.Unmarshal([]byte(data), &now); err != nil || name != "report" ||
		now.Report.Host != "one" {
		t.Fatalf("%s %v %s", name, err, data)
	}
	m.report(start+20*second, `{"host":"two"}`)
	if _, data := sse(t, r); !strings.Contains(data, `"host":"two"`) {
		t.Error(data)
	}
	s.decodeReply(s.get("/api/diagnosis"), &now)
	if now.Report.Host != "two" {
		t.Errorf("%+v", now.Report)
	}
	m.report(start+30*second, `broken`)
	if _, data := sse(t, r); !strings.HasSuffix(data, `"report":null}`) {
		t.Error(data)
	}
	var all struct {
		Reports []struct {
			AtMS   float64 `json:"at_ms"`
			Report *struct{ Host string }
		}
	}
	s.decodeReply(
		s.get(fmt.Sprintf("/api/findings?from=%d&to=%d", start/1e6, (start+30*second)/1e6)), &all,
	)
	if len(all.Reports) != 3 || all.Reports[0].Report.Host != "one" ||
		all.Reports[2].Report != nil {
		t.Errorf("%+v", all)
	}
	s.decodeReply(
		s.get(
			fmt.Sprintf(
				"/api/findings?from=%d&to=%d", (start+10*second)/1e6, (start+20*second)/1e6,
			),
		),
		&all,
	)
	if len(all.Reports) != 1 || all.Reports[0].AtMS != float64((start+20*second)/1e6) {
		t.Errorf("%+v", all)
	}
}

func TestPage(t *testing.T) {
	s := serve(t, newMemory(t), func(s *Server) {
		s.Page = fstest.MapFS{
			"index.html": {
				Data: []byte("<!doctype html>"),
			}, "index.html.gz": {Data: []byte("zipped")},
			"assets/index-abc.js": {
				Data: []byte("let a"),
			}, "assets/index-abc.js.br": {Data: []byte("br")}, "assets/index-abc.js.gz": {Data: []byte("gz")},
			"icon.svg": {Data: []byte("<svg/>")}, ".gitkeep": {}, "secret.exe": {Data: []byte("x")},
		}
	})
	for _, c := range []struct{ path, encoding, kind, body, coded, cache string }{
		{"/", "", "text/html; charset=utf-8", "<!doctype html>", "", "private, no-cache"},
		{"/index.html", "gzip", "text/html; charset=utf-8", "zipped", "gzip", "private, no-cache"},
		{"/assets/index-abc.js", "gzip, deflate, br", "text/javascript; charset=utf-8", "br", "br", "private, max-age=31536000, immutable"},
		{"/assets/index-abc.js", "gzip;q=0.5, br;q=0", "text/javascript; charset=utf-8", "gz", "gzip", "private, max-age=31536000, immutable"},
		{"/icon.svg", "br", "image/svg+xml", "<svg/>", "", "private, no-cache"},
	} {
		res := s.get(c.path, "Accept-Encoding", cmpOr(c.encoding, "identity"))
		b, _ := io.ReadAll(res.Body)
		h := res.Header
		if res.StatusCode != 200 || string(b) != c.body || h.Get("Content-Type") != c.kind ||
			h.Get("Content-Encoding") != c.coded ||
			h.Get("Cache-Control") != c.cache ||
			h.Get("ETag") == "" ||
			h.Get("Vary") == "" {
			t.Errorf("%s with %q: %s %q %v", c.path, c.encoding, res.Status, b, h)
		}
		if again := s.get(c.path, "If-None-Match", `"x", `+h.Get("ETag")); again.StatusCode != 304 {
			t.Errorf("%s again: %s", c.path, again.Status)
		}
	}
	for _, path := range []string{"/.gitkeep", "/secret.exe", "/assets/", "/index.html.gz", "/assets/..%2findex.html"} {
		if got := s.code(s.get(path)); got != "404 not-found" {
			t.Errorf("%s: %s", path, got)
		}
	}
	unbuilt := serve(t, newMemory(t), func(s *Server) { s.Page = fstest.MapFS{".gitkeep": {}} })
	res := unbuilt.get("/")
	if b, _ := io.ReadAll(res.Body); res.StatusCode != 200 ||
		!strings.Contains(string(b), "make build") {
		t.Errorf("%s %s", res.Status, b)
	}
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// The live view of a server without a tick begins with the first tick.
func TestLiveBeforeTheFirstTick(t *testing.T) {
	m := newMemory(t)
	s := serve(t, m)
	r := bufio.NewReader(s.get(liveURL("memory.free")).Body)
	deadline := time.Now().Add(10 * time.Second)
	for s.live.viewers.Load() == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	m.filled(1)
	if name, data := sse(t, r); name != "tick" || !strings.Contains(data, `"values":[1000000000]`) {
		t.Errorf("%s %s", name, data)
	}
}

package view

import (
	"math"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

func TestShow(t *testing.T) {
	tests := []struct {
		show  Show
		name  string
		value float64
		want  string // with three decimals
	}{
		{Plain, "plain", 3.14159, "3.142"},
		{Percent, "percent", 0.1234567, "12.346"},
		{KiB, "kib", 3000, "2.930"},
		{MiB, "mib", 3_000_000, "2.861"},
		{Mbit, "mbit", 3_141_592, "3.142"},
		{MbitOfB, "mbit_of_b", 3_141_592, "25.133"},
		{Millis, "millis", 3_141_592, "3.142"},
		{Micros, "micros", 3_141_592, "3141.592"},
		{HumanBytes, "humane", 3000, "2.9K"},
		{Millisec, "millisec", 0.0031415, "3.142"},
		{Brief, "brief", 3_141_592, "3.14ms"},
		{Kbit, "kbit", 3_141_592, "3141.592"},
		{Gbit, "gbit", 3_141_592_653, "3.142"},
		{Tbit, "tbit", 3_141_592_653_589, "3.142"},
	}
	for _, tt := range tests {
		if got := tt.show.String(); got != tt.name {
			t.Errorf("format %d is named %s, want %s", tt.show, got, tt.name)
		}
		if got := (Column{Show: tt.show, Decimals: 3}).Format(N(tt.value)); got != tt.want {
			t.Errorf("%g as %s is %s, want %s", tt.value, tt.name, got, tt.want)
		}
	}
	if got := Show(len(tests)).String(); got != "?" {
		t.Errorf("an unknown format is named %s", got)
	}
}

func TestCells(t *testing.T) {
	c := Column{Decimals: 1}
	for _, tt := range []struct {
		name       string
		cell       Cell
		text, json string
	}{
		{"number", N(1.25), "1.2", "1.25"},
		{"infinity", N(math.Inf(-1)), "-", "null"},
		{"NaN", N(math.NaN()), "-", "null"},
		{"text", T("a\x1b\""), "a?\"", `"a\u001b\""`},
		{"empty text", T(""), "", `""`},
		{"no text", TOrNull(""), "-", "null"},
		{"some text", TOrNull("x"), "x", `"x"`},
		{"true", B(true), "yes", "true"},
		{"false", B(false), "no", "false"},
		{"label", I("17"), "17.0", "17"},
		{"no label", I("17x"), "-", "null"},
		{"list", Cell{Kind: IsJSON, Text: "[1]"}, "[1]", "[1]"},
	} {
		if got := c.Format(tt.cell); got != tt.text {
			t.Errorf("%s is shown as %q, want %q", tt.name, got, tt.text)
		}
		if got := string(AppendCell(nil, tt.cell)); got != tt.json {
			t.Errorf("%s is %s in JSON, want %s", tt.name, got, tt.json)
		}
	}
	for v, want := range map[float64]string{
		999_999_999_999_999: "999999999999999", 1e15: "1e+15", -1e15: "-1e+15", 1.5: "1.5",
		0.1234567891234: "0.123456789", -3: "-3", math.Inf(1): "null", math.Inf(-1): "null",
	} {
		if got := string(AppendNumber(nil, v)); got != want {
			t.Errorf("%v is %s in JSON, want %s", v, got, want)
		}
	}
	for text, want := range map[string]string{
		"a b~": `"a b~"`, "\x1f": `"\u001f"`, "\x7f": `"\u007f"`, "<": `"\u003c"`,
		">": `"\u003e"`, "&": `"\u0026"`, `\`: `"\\"`, "\xff": "\"\uFFFD\"",
	} {
		if got := string(AppendString(nil, text)); got != want {
			t.Errorf("%q is %s in JSON, want %s", text, got, want)
		}
	}
}

func TestTableJSON(t *testing.T) {
	tab := &Table{
		View: "nic", Over: measure.Interval{Start: 1e9, End: 2.5e9},
		Columns: []Column{{Name: "a"}, {Head: "hidden"}, {Name: "b"}},
		Rows: []Row{
			{Cells: []Cell{N(1), N(2), T("x")}, Remark: "odd"},
			{Cells: []Cell{N(4), N(5), T("y")}},
		},
	}
	const rows = `{"format":1,"view":"nic","start":"1970-01-01T00:00:01.000000000Z","seconds":1.5,"rows":[` +
		`{"a":1,"b":"x","remark":"odd"},{"a":4,"b":"y"}],`
	if got, want := string(AppendJSON(nil, tab)), rows+`"loss":[],"notes":[]}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	tab.Loss, tab.Notes = []measure.Loss{{Reason: "full", Events: 7}}, []string{"a note"}
	want := rows + `"loss":[{"reason":"full","events":7}],"notes":["a note"]}`
	if got := string(AppendJSON(nil, tab)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestColumnUnit(t *testing.T) {
	for name, want := range map[string]measure.Unit{
		"capacity_bits_per_s": measure.BitsPerSec, "bits_per_s": measure.BitsPerSec,
		"rx_bytes_per_s": measure.Bytes.PerSecond(), "reads_per_s": measure.Count.PerSecond(),
		"rss_bytes": measure.Bytes, "bytes": measure.Bytes, "rtt_ns": measure.Nanoseconds,
		"indv_ratio": measure.Ratio, "kilobytes": "", "pid": "", "columns": "",
	} {
		if got := (Column{Name: name}).Unit(); got != want {
			t.Errorf("%s has the unit %q, want %q", name, got, want)
		}
	}
	for _, show := range []Show{Percent, Millisec} {
		if got := (Column{Name: "util", Show: show}).Unit(); got != measure.Ratio {
			t.Errorf("a column of %s has the unit %q", show, got)
		}
	}
}

func TestTableColumn(t *testing.T) {
	tab := &Table{Columns: []Column{{Name: "x", Head: "b"}, {Name: "b", Head: "y", Show: KiB}, {}}}
	for name, want := range map[string]int{"x": 0, "b": 1, "y": 1, "z": -1} {
		if got := tab.Column(name); got != want {
			t.Errorf("column %s is at %d, want %d", name, got, want)
		}
	}
	row := &Row{Cells: []Cell{N(7), N(2048)}}
	for name, want := range map[string]string{"x": "7", "b": "2048", "z": ""} {
		if got := tab.Text(row, name); got != want {
			t.Errorf("the text of %s is %q, want %q", name, got, want)
		}
	}
	if got := tab.Text(&Row{Cells: []Cell{TOrNull("")}}, "x"); got != "" {
		t.Errorf("the text of an unknown cell is %q", got)
	}
	if got := tab.Text(&Row{Cells: []Cell{N(7)}}, "b"); got != "" {
		t.Errorf("the text of a missing cell is %q", got)
	}
}

func TestFormatNanosAndBytes(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0ns", 999.4: "999ns", 999.5: "1.00us", 1000: "1.00us", 9994: "9.99us", 9995: "10.0us",
		99_949: "99.9us", 99_950: "100us", 999_499: "999us", 999_500: "1.00ms", 5e9: "5.00s",
		5e12: "5000s",
	} {
		if got := FormatNanos(v); got != want {
			t.Errorf("%v ns is %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{
		0: "0", 999: "999", 999.4: "999", 999.5: "1.0K", 99.94 * 1024: "99.9K",
		99.95 * 1024: "100K", 999.4 * 1024: "999K", 999.5 * 1024: "1.0M", 3 << 40: "3.0T",
		-1536: "-1.5K", 5 << 50: "5.0P", 5 << 60: "5.0E", 5000 * (1 << 60): "5000E",
	} {
		if got := FormatBytes(v); got != want {
			t.Errorf("%v bytes is %s, want %s", v, got, want)
		}
	}
	var b []byte
	for decimals := range 3 {
		c := Column{Decimals: decimals}
		b = append(c.Append(b, N(0)), ' ')
		b = append(c.Append(b, N(math.Copysign(0, -1))), ' ')
	}
	if got, want := string(b), "0 -0 0.0 -0.0 0.00 -0.00 "; got != want {
		t.Errorf("zeros are %q, want %q", got, want)
	}
}

func TestNaturalLess(t *testing.T) {
	sorted := []string{"", "1", "a", "a1", "a2", "a10", "a010b", "a10c", "ab", "b"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := NaturalLess(a, b); got != (i < j) {
				t.Errorf("%q before %q is %v", a, b, got)
			}
		}
	}
	if NaturalLess("x007", "x7") || NaturalLess("x7", "x007") {
		t.Error("leading zeros decide")
	}
}

func TestUnknownNames(t *testing.T) {
	known := []string{"eth0", "lo"}
	for _, tt := range []struct {
		wanted []string
		want   string
	}{
		{nil, ""}, {[]string{"eth*", "l?"}, ""}, {[]string{"lo", "eth1", "x"}, "eth1"},
		{[]string{"[", "lo"}, "["},
	} {
		if got := Unknown(tt.wanted, known); got != tt.want {
			t.Errorf("of %q %q is unknown, want %q", tt.wanted, got, tt.want)
		}
	}
}

func TestExposition(t *testing.T) {
	b := AppendMetric(nil, "m_total", "counter", "a \\ b\nc\xff")
	labels := AppendLabel(AppendLabel(nil, "a", "x\"\\\ny"), "b", "é\xff")
	b = AppendSample(b, "m_total", string(labels), 1.5)
	b = AppendSample(b, "m_total", "", math.Inf(1))
	b = AppendSample(b, "m_total", "", math.Inf(-1))
	b = AppendSample(b, "m_total", "", math.NaN())
	b = AppendSample(b, "m_total", "", 12345678901234567)
	b = AppendMetricComment(b, "one\ntwo\rthree\xff")
	want := "# HELP m_total a \\\\ b\\nc\uFFFD\n# TYPE m_total counter\n" +
		"m_total{a=\"x\\\"\\\\\\ny\",b=\"é\uFFFD\"} 1.5\nm_total +Inf\nm_total -Inf\nm_total NaN\n" +
		"m_total 1.2345678901234568e+16\n# one two three\uFFFD\n"
	if string(b) != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}

// frameOf returns a frame of one answer by netns, protocol and counter.
func frameOf(sparse bool, rows ...[4]string) *Frame {
	a := &measure.Answer{
		Query: measure.Query{
			Stat: "net.protocol.events", By: []string{"netns", "protocol", "counter"},
		},
		Sparse: sparse, Elapsed: []measure.Span{measure.Second},
	}
	for n, row := range rows {
		s := measure.Series{Values: []float64{float64(n + 1)}}
		for _, word := range row[:3] {
			s.Key = append(s.Key, measure.Label(len(a.Labels)))
			a.Labels = append(a.Labels, word)
		}
		a.Series = append(a.Series, s)
	}
	return &Frame{Answers: []*measure.Answer{a}}
}

func TestFrameOne(t *testing.T) {
	rows := [][4]string{{"", "Tcp", "InSegs"}, {"blue", "Tcp", "InSegs"}, {"", "Udp", "InSegs"}}
	const id = "net.protocol.events"
	for _, sparse := range []bool{false, true} {
		f := frameOf(sparse, rows...)
		missing := measure.NaN
		if sparse {
			missing = 0
		}
		for _, tt := range []struct {
			where []string
			want  float64
		}{
			{nil, 1}, {[]string{"netns", "blue"}, 2}, {[]string{"protocol", "Udp"}, 3},
			{[]string{"netns", "", "protocol", "Udp", "counter", "InSegs", "other", ""}, 3},
			{[]string{"netns", "red"}, missing}, {[]string{"other", "x"}, missing},
			{[]string{"netns", "blue", "protocol", "Udp"}, missing},
		} {
			got := f.One(id, tt.where...)
			if got != tt.want && !(got != got && tt.want != tt.want) {
				t.Errorf("%q has the value %v, want %v", tt.where, got, tt.want)
			}
		}
		f.Answers[0].Elapsed[0] = 0
		if got := f.One(id, "netns", "red"); got == got {
			t.Errorf("a row that was not measured has the value %v", got)
		}
		if got := f.One("other.stat"); got == got {
			t.Errorf("a statistic that was not asked has the value %v", got)
		}
	}
}

// TestFrameCounter reads counters twice, so that the second look-up uses the index of the first,
// and then from an answer in which they moved.
func TestFrameCounter(t *testing.T) {
	rows := [][4]string{{"", "Tcp", "InSegs"}, {"blue", "Tcp", "InSegs"}, {"", "Udp", "InSegs"}}
	moved := slices.Clone(rows)
	slices.Reverse(moved)
	buffers := &Buffers{}
	for _, b := range []*Buffers{nil, buffers} {
		for n, list := range [][][4]string{rows, rows, moved, rows[:1]} {
			f := frameOf(false, list...)
			f.Buffers = b
			for _, row := range rows {
				want := measure.NaN
				if i := slices.Index(list, row); i >= 0 {
					want = float64(i + 1)
				}
				name := row[1] + "." + row[2]
				got := f.Counter(f.Answers[0], row[0], name)
				if got != want && !(got != got && want != want) {
					t.Errorf("table %d: %s of %q is %v, want %v", n, name, row[0], got, want)
				}
			}
			if got := f.Counter(f.Answers[0], "", "Tcp.OutSegs"); got == got {
				t.Errorf("a missing counter is %v", got)
			}
		}
	}
	if len(buffers.counterAt) != 3 {
		t.Errorf("%d indexes are kept, want 3", len(buffers.counterAt))
	}
	f := &Frame{Answers: []*measure.Answer{{Elapsed: []measure.Span{1}, Query: measure.Query{
		By: []string{"protocol", "counter"},
	}, Labels: []string{"Tcp", "InSegs"}, Series: []measure.Series{
		{Key: []measure.Label{0, 1}, Values: []float64{9}},
	}}}}
	if got := f.Counter(f.Answers[0], "", "Tcp.InSegs"); got != 9 {
		t.Errorf("without namespaces the counter is %v", got)
	}
	if got := f.Counter(f.Answers[0], "blue", "Tcp.InSegs"); got == got {
		t.Errorf("without namespaces the counter of one is %v", got)
	}
	f.Answers[0].Query.By = []string{"protocol", "name"}
	if got := f.Counter(f.Answers[0], "", "Tcp.InSegs"); got == got {
		t.Errorf("without names the counter is %v", got)
	}
}

func TestFrameLossesAndNotes(t *testing.T) {
	f := &Frame{Answers: []*measure.Answer{
		{
			Query: measure.Query{Stat: "a.b"}, Loss: []measure.Loss{{Reason: "x", Events: 1}},
			Notes: []string{"one", "two", "one"},
		},
		{
			Query: measure.Query{Stat: "c.d"}, Loss: []measure.Loss{{Reason: "y", Events: 2}},
			Notes: []string{"two", "three"},
		},
	}}
	if got := f.Losses(); len(got) != 2 || got[0].Events != 1 || got[1].Events != 2 {
		t.Errorf("losses %v", got)
	}
	wide := map[measure.StatID]int{"c.d": 100}
	for width, want := range map[int]string{99: "one two", 100: "one two three"} {
		if got := strings.Join(f.Notes(wide, width), " "); got != want {
			t.Errorf("notes of %d columns are %s, want %s", width, got, want)
		}
	}
}

func TestVisibleQueries(t *testing.T) {
	tool := &Tool{
		Ask:      func(o Options) []string { return []string{"a.b by x", "c.d", "e.f by y,z"} },
		MinWidth: map[measure.StatID]int{"c.d": 100}, NeedsFlag: map[measure.StatID]string{
			"e.f": "extended",
		},
	}
	for _, tt := range []struct {
		o     Options
		width int
		want  string
	}{
		{nil, 99, "a.b by x"}, {nil, 100, "a.b by x, c.d"},
		{Options{"extended": {""}}, 99, "a.b by x, e.f by y,z"},
	} {
		if got := strings.Join(tool.VisibleQueries(tt.o, tt.width), ", "); got != tt.want {
			t.Errorf("%v, %d columns: %s, want %s", tt.o, tt.width, got, tt.want)
		}
	}
	o := Options{"by": {"x", "y"}}
	if o.Text("by") != "x" || o.Text("other") != "" || o.Has("other") || !o.Has("by") {
		t.Errorf("options %v", o)
	}
}

// TestStatTable checks the table of one query: widths, decimals by unit, order and notes.
func TestStatTable(t *testing.T) {
	q, err := measure.ParseQuery("net.device.bytes by device")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(values ...float64) *measure.Answer {
		a := &measure.Answer{Query: q, Elapsed: []measure.Span{measure.Second}}
		for n, v := range values {
			a.Labels = append(a.Labels, "eth"+string(rune('0'+n)))
			a.Series = append(a.Series, measure.Series{
				Key: []measure.Label{measure.Label(n)}, Values: []float64{v},
			})
		}
		return a
	}
	for unit, want := range map[measure.Unit]int{
		measure.Bytes: 0, measure.BitsPerSec: 0, measure.Nanoseconds: 4, measure.Packets: 2,
		measure.Ratio: 4,
	} {
		kind := measure.Level
		if unit == measure.Nanoseconds {
			kind = measure.Delta // the answer is a share of time
		}
		st := &measure.Stat{ID: q.Stat, Kind: kind, Unit: unit, Help: "help"}
		tab := Stat(q, st).Table(nil, &Frame{Answers: []*measure.Answer{answer(3, 7, 5)}})
		wantColumn := Column{
			Name: "value", Head: string(st.AnswerUnit()), Decimals: want, Width: 14, Help: "help",
		}
		if tab.Columns[1] != wantColumn {
			t.Errorf("%s: column %+v, want %+v", unit, tab.Columns[1], wantColumn)
		}
		device := Column{Name: "device", Head: "device", Width: 10, Left: true}
		if tab.Columns[0] != device {
			t.Errorf("column %+v, want %+v", tab.Columns[0], device)
		}
		var rows []string
		for _, r := range tab.Rows {
			rows = append(rows, r.Key)
		}
		if got := strings.Join(rows, " "); got != "eth1 eth2 eth0" || len(tab.Notes) > 0 {
			t.Errorf("rows %s, notes %q", got, tab.Notes)
		}
	}
	st := &measure.Stat{ID: q.Stat, Kind: measure.Delta, Unit: measure.Bytes}
	if tool := Stat(q, st); tool.MaxRows != 40 || tool.Ask(nil)[0] != q.String() {
		t.Errorf("%d rows of %q", tool.MaxRows, tool.Ask(nil))
	}
	for _, tt := range []struct {
		name    string
		elapsed []measure.Span
		notes   []string
		noted   bool
	}{
		{"nothing matched", []measure.Span{1}, nil, true},
		{"nothing matched, with a note", []measure.Span{1}, []string{"a note"}, true},
		{"not measured", []measure.Span{0}, []string{"why"}, false},
		{"not measured, and no reason", []measure.Span{0}, nil, true},
	} {
		for _, kind := range []measure.Kind{measure.Delta, measure.Dists} {
			st := &measure.Stat{ID: q.Stat, Kind: kind, Unit: measure.Bytes}
			a := &measure.Answer{Query: q, Elapsed: tt.elapsed, Notes: tt.notes}
			tab := Stat(q, st).Table(nil, &Frame{Answers: []*measure.Answer{a}})
			noted := len(tab.Notes) == 1 && strings.HasPrefix(tab.Notes[0], "no rows")
			if noted != tt.noted {
				t.Errorf("%s: notes %q", tt.name, tab.Notes)
			}
		}
	}
}

// TestDistTable checks a table of distributions: series of one row are merged, and rows are in the
// order of their number of values.
func TestDistTable(t *testing.T) {
	q, err := measure.ParseQuery("disk.latency by device")
	if err != nil {
		t.Fatal(err)
	}
	a := &measure.Answer{
		Query:   measure.Query{Stat: q.Stat, By: []string{"device", "direction"}},
		Elapsed: []measure.Span{measure.Second}, Labels: []string{"sda", "sdb", "read", "write"},
	}
	for _, row := range []struct {
		device, direction measure.Label
		values            []uint64
	}{
		{1, 2, []uint64{700}}, {0, 2, []uint64{100, 200}}, {0, 3, []uint64{4000}}, {1, 3, nil},
	} {
		var d measure.Dist
		for _, v := range row.values {
			d.Add(v, 1)
		}
		s := measure.Series{Key: []measure.Label{row.device, row.direction}}
		s.SetDists([]measure.Dist{d})
		a.Series = append(a.Series, s)
	}
	st := &measure.Stat{
		ID: q.Stat, Kind: measure.Dists, Unit: measure.Nanoseconds, Help: "help",
	}
	tab := Stat(q, st).Table(nil, &Frame{Answers: []*measure.Answer{a}})
	var columns []string
	for _, c := range tab.Columns {
		columns = append(columns, strings.Join([]string{
			c.Name, c.Head, c.Format(N(1)), strings.Repeat("w", c.Width),
			strings.Repeat("m", c.MinWidth),
		}, "|"))
	}
	w := strings.Repeat("w", 10)
	want := []string{
		"device|device|1|" + w + "|", "values|values|1|" + w[:8] + "|", "mean|mean ns|1|" + w + "|",
		"p50|p50|1|" + w + "|m", "p90|p90|1|" + w + "|" + strings.Repeat("m", 100),
		"p99|p99|1|" + w + "|m", "max|max|1|" + w + "|m",
	}
	if !slices.Equal(columns, want) {
		t.Errorf("columns\n%s\nwant\n%s", strings.Join(columns, "\n"), strings.Join(want, "\n"))
	}
	if len(tab.Rows) != 2 || tab.Rows[0].Key != "sda" || tab.Rows[1].Key != "sdb" {
		t.Fatalf("rows %+v", tab.Rows)
	}
	var all measure.Dist
	for _, v := range []uint64{100, 200, 4000} {
		all.Add(v, 1)
	}
	for n, want := range []float64{
		3, all.Mean(), all.Quantile(0.5), all.Quantile(0.9), all.Quantile(0.99), all.Quantile(1),
	} {
		if got := tab.Rows[0].Cells[n+1].Num; got != want {
			t.Errorf("%s is %v, want %v", tab.Columns[n+1].Name, got, want)
		}
	}
}

package web

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/measure"
	"culprit/view/web/api"
)

// sample is an answer with every optional part.
func sample() *measure.Answer {
	a := &measure.Answer{
		Query: measure.Query{
			Stat:  "net.device.bytes",
			By:    []string{"device", "direction"},
			Where: []measure.Term{{Field: "device", Op: measure.NotEqual, Values: []string{"lo"}}},
		},
		Kind: measure.Delta, Unit: "B/s", Start: start + 1, Step: measure.Second, Elapsed: []measure.Span{1e9, 0, 1000000001},
		Labels: []string{"eth0", "rx", "tx", "é\"\\<"},
		Series: []measure.Series{
			{Key: []measure.Label{0, 1}, Values: []float64{1, measure.NaN, 3}},
			{Key: []measure.Label{0, 2}, Values: []float64{10.25, measure.NaN, 1 << 40}},
			{Key: []measure.Label{3, 1}, Values: []float64{measure.NaN, measure.NaN, measure.NaN}},
			{Key: []measure.Label{3, 2}, Values: []float64{0, measure.NaN, 0.5}},
		},
		Loss: []measure.Loss{{Reason: "a damaged part", Events: 12}}, Notes: []string{"a note"},
	}
	a.Series[1].SetRange([]float64{1, measure.NaN, 2}, []float64{20, measure.NaN, 1 << 60})
	return a
}

func sumStat() *measure.Stat {
	return &measure.Stat{ID: "net.device.bytes", Kind: measure.Delta, Unit: "B"}
}

func TestColumns(t *testing.T) {
	for _, width := range []int{4, 8} {
		s, err := shape(sample(), sumStat(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := api.DecodeColumns(s.appendColumns(nil, width))
		if err != nil {
			t.Fatal(err)
		}
		want := sample()
		want.Series = []measure.Series{
			want.Series[1],
			want.Series[0],
			want.Series[3],
			want.Series[2],
		}
		same(t, got.Answer, want) // the values are such that float32 has them exactly
		if got.Rows != 4 || got.Rest != nil || got.Left != 0 {
			t.Errorf("%+v", got)
		}
		for i := range want.Series {
			for k := range want.Query.By {
				if got.Answer.Label(i, k) != want.Label(i, k) {
					t.Errorf("row %d: %q, want %q", i, got.Answer.Label(i, k), want.Label(i, k))
				}
			}
		}
		if s, err = shape(sample(), sumStat(), 1, nil); err != nil {
			t.Fatal(err)
		}
		if got, err = api.DecodeColumns(s.appendColumns(nil, width)); err != nil {
			t.Fatal(err)
		}
		if len(got.Answer.Series) != 1 || got.Rows != 4 || got.Left != 3 || got.Rest[0] != 1 ||
			got.Rest[1] == got.Rest[1] ||
			got.Rest[2] != 3.5 {
			t.Errorf("top 1: %+v", got)
		}
	}
}

// The columns are laid out as docs/FORMATS.md draws them. The test decodes them as the page does.
func TestColumnsByHand(t *testing.T) {
	s, err := shape(sample(), sumStat(), 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := s.appendColumns([]byte("before"), 4)[len("before"):]
	if string(b[:4]) != "CLPT" || b[4] != 1 || b[5] != 4 || b[6] != 0 || b[7] != 0 {
		t.Fatalf("%q", b[:12])
	}
	n := int(binary.LittleEndian.Uint32(b[8:]))
	var h map[string]any
	if err := json.Unmarshal(b[12:12+n], &h); err != nil {
		t.Fatal(err)
	}
	if h["start_ms"] != float64(start+1)/1e6 || h["rows"] != 4.0 || len(h["series"].([]any)) != 2 ||
		!reflect.DeepEqual(h["elapsed_ms"], []any{1000.0, 0.0, 1000.000001}) {
		t.Errorf("%v", h)
	}
	at := (12 + n + 7) / 8 * 8
	if len(b) != at+4*3*(3+1+1) {
		t.Fatalf("%d bytes, values at %d", len(b), at)
	}
	value := func(i int) float32 {
		return math.Float32frombits(binary.LittleEndian.Uint32(b[at+4*i:]))
	}
	if value(0) != 10.25 || value(3) != 1 || value(6) != 20 || value(9) != 1 || value(12) != 0 ||
		value(14) != 0.5 ||
		value(1) == value(1) {
		t.Errorf("%v %v %v %v", value(0), value(3), value(6), value(9))
	}
}

func TestColumnsOfDistributionsAndStacks(t *testing.T) {
	d := measure.Dist{Base: 2}
	d.Add(1000, 5)
	d.Add(3, 1<<60)
	a := &measure.Answer{
		Query:   measure.Query{Stat: "io.latency", By: []string{"stack"}},
		Kind:    measure.Dists,
		Unit:    "ns",
		Start:   start,
		Step:    1e9,
		Elapsed: []measure.Span{1e9, 1e9},
		Frames: []measure.Frame{
			{Symbol: "main", Parent: -1},
			{Symbol: "read", Module: "libc", Offset: 16},
		},
		Series: []measure.Series{{Key: []measure.Label{1}}},
	}
	a.Series[0].SetDists([]measure.Dist{d, {}})
	st := &measure.Stat{
		ID:     "io.latency",
		Kind:   measure.Dists,
		Fields: []measure.Field{{Name: "stack", Type: measure.Stack}},
	}
	s, err := shape(a, st, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := api.DecodeColumns(s.appendColumns(nil, 8))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Answer.Series, a.Series) ||
		!reflect.DeepEqual(got.Answer.Frames, a.Frames) {
		t.Errorf("\n got %+v\nwant %+v", got.Answer, a)
	}
	if !json.Valid(s.appendJSON(nil)) {
		t.Errorf("%s", s.appendJSON(nil))
	}
}

func TestColumnsOverHTTP(t *testing.T) {
	s := serve(t, newMemory(t).filled(120)).until(start + 120*second)
	for accept, want := range map[string]string{
		api.ColumnsType:              api.ColumnsType + "; width=4",
		api.ColumnsType + ";width=8": api.ColumnsType + "; width=8",
		"application/json":           "application/json",
		"*/*":                        "application/json",
		"text/html, " + api.ColumnsType + "; q=1": api.ColumnsType + "; width=4",
	} {
		res := s.get(
			ask("net.device.bytes by device,direction", "from", "-2m", "step", "1s"), "Accept",
			accept, "Accept-Encoding", "identity",
		)
		if got := res.Header.Get("Content-Type"); got != want {
			t.Errorf("Accept %s: %s", accept, got)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(want, api.ColumnsType) {
			c, err := api.DecodeColumns(b)
			if err != nil || len(c.Answer.Elapsed) != 120 || c.Answer.Series[0].Values[7] != 5000 {
				t.Errorf("%v %+v", err, c)
			}
		}
	}
	zipped := s.get(
		ask("net.device.bytes by device,direction", "from", "-2m", "step", "1s"), "Accept-Encoding",
		"gzip",
	)
	b, _ := io.ReadAll(zipped.Body)
	if zipped.Header.Get("Content-Encoding") != "gzip" || bytes.HasPrefix(b, []byte("{")) {
		t.Errorf("%v", zipped.Header)
	}
	small := s.get("/api/parse?q=memory.free", "Accept-Encoding", "gzip")
	if small.Header.Get("Content-Encoding") != "" {
		t.Error("a few bytes are zipped")
	}
}

// An answer that is too large is refused before it is encoded.
func TestTooLarge(t *testing.T) {
	a := &measure.Answer{
		Kind:    measure.Level,
		Elapsed: make([]measure.Span, maxCells),
		Series:  make([]measure.Series, maxSent/maxCells+1),
	}
	for i := range a.Series {
		a.Series[i].Values = make([]float64, maxCells)
	}
	if _, err := shape(a, nil, 0, nil); faultOf(err).status != 413 {
		t.Errorf("sent: %v", err)
	}
	if _, err := shape(a, nil, 1, nil); err != nil {
		t.Errorf("one row of it: %v", err)
	}
	a.Series = make([]measure.Series, maxValues/maxCells+1)
	if _, err := shape(a, nil, 1, nil); faultOf(err).status != 413 {
		t.Errorf("looked at: %v", err)
	}
}

func FuzzDecodeColumns(f *testing.F) {
	for _, width := range []int{4, 8} {
		for _, top := range []int{0, 1} {
			s, err := shape(sample(), sumStat(), top, nil)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(s.appendColumns(nil, width))
		}
	}
	f.Add([]byte("CLPT\x01\x04\x00\x00\xff\xff\xff\xff{}"))
	heapbound.Fuzz(f, func(t *testing.T, data []byte) {
		c, err := api.DecodeColumns(data)
		if err != nil {
			return
		}
		a := c.Answer
		for i, s := range a.Series {
			if len(s.Key) != len(a.Query.By) {
				t.Fatalf("row %d has %d labels", i, len(s.Key))
			}
			for _, column := range [][]float64{s.Values, s.Min(), s.Max()} {
				if column != nil && len(column) != len(a.Elapsed) {
					t.Fatalf("row %d has %d values in %d cells", i, len(column), len(a.Elapsed))
				}
			}
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, text := range []string{"now", "-10m", "+1h", "-1.5d", "1700000000000", "1700000000000.123456", "2026-01-02T03:04:05Z", "-9223372036854775808", "1e400", "-", "9999-01-01T00:00:00Z", "-99999999999d", "."} {
		f.Add(text)
	}
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		if at, err := parseTime(text, start); err == nil && (at < firstTime || at > lastTime) {
			t.Errorf("time %q is %d", text, at)
		}
		if s, err := parseSpan(text); err == nil && (s < measure.Millisecond || s > maxSpan) {
			t.Errorf("span %q is %d", text, s)
		}
		if p, err := parametersOf("from="+text, start, []string{"from", "to", "step", "columns"}, nil); err == nil {
			if over, step, err := p.grid(); err == nil &&
				(over.Start >= over.End || over.Start < 0 ||
					step < 0 || step > 0 && cellsOf(over, step) > maxCells) {
				t.Errorf("from=%q: %v by %v", text, over, step)
			}
		}
	})
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]measure.Time{
		"now":                    7e15,
		"-10m":                   7e15 - 600e9,
		"-1d":                    7e15 - 86400e9,
		"+1w":                    7e15 + 7*86400e9,
		"-99999h":                0,
		"1500.5":                 1500500000,
		"1970-01-01T00:00:01.5Z": 15e8,
	} {
		if got, err := parseTime(text, 7e15); err != nil || got != want {
			t.Errorf("%q: %v %v, want %v", text, int64(got), err, int64(want))
		}
	}
	for _, text := range []string{"", "yesterday", "-", "--1m", "-1", "1e3", "0x10", "10m", "1700000000000000000", "2300-01-01T00:00:00Z", "1960-01-01T00:00:00Z", "1.2.3", "NaN", "-NaNd", "+infd"} {
		if got, err := parseTime(text, 7e15); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestStepFor(t *testing.T) {
	hour := measure.Interval{Start: start, End: start + 3600*second}
	for n, want := range map[int]measure.Span{
		3600: measure.Second, 3599: 2 * measure.Second, 1500: 5 * measure.Second,
		60: measure.Minute, 2: 30 * measure.Minute,
	} {
		if got := stepFor(hour, n, measure.Second); got != want {
			t.Errorf("%d columns of an hour: %v, want %v", n, got, want)
		}
	}
	all := measure.Interval{Start: 1, End: lastTime - 1}
	for _, n := range []int{2, 3, 100, 1500} {
		s := stepFor(all, n, measure.Second)
		if cells := cellsOf(all, s); cells > n || s%(24*60*measure.Minute) != 0 {
			t.Errorf("%d columns of all time: %v, %d cells", n, s, cells)
		}
	}
}

// BenchmarkEncode encodes a graph of 100 rows over 1,500 columns with minima and maxima, all of
// them or the top ten.
func BenchmarkEncode(b *testing.B) {
	a := &measure.Answer{
		Query:   measure.Query{Stat: "net.device.bytes", By: []string{"device"}},
		Kind:    measure.Delta,
		Unit:    "B/s",
		Start:   start,
		Step:    measure.Minute,
		Elapsed: slices.Repeat([]measure.Span{60e9}, 1500),
	}
	for i := range 100 {
		a.Labels = append(a.Labels, "device number "+strconv.Itoa(i))
		s := measure.Series{Key: []measure.Label{measure.Label(i)}}
		var least, most []float64
		for c := range 1500 {
			v := float64(i*1000) + float64(c%77)*1.2345678
			s.Values, least, most = append(s.Values, v), append(least, v/2), append(most, v*2)
		}
		s.SetRange(least, most)
		a.Series = append(a.Series, s)
	}
	for _, one := range []struct {
		name   string
		top    int
		append func(*shaped, []byte) []byte
	}{
		{"columns/all", 0, func(s *shaped, b []byte) []byte { return s.appendColumns(b, 4) }},
		{"columns/top10", 10, func(s *shaped, b []byte) []byte { return s.appendColumns(b, 4) }},
		{"exact/all", 0, func(s *shaped, b []byte) []byte { return s.appendColumns(b, 8) }},
		{"json/all", 0, func(s *shaped, b []byte) []byte { return s.appendJSON(b) }},
	} {
		b.Run(one.name, func(b *testing.B) {
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				s, err := shape(a, sumStat(), one.top, nil)
				if err != nil {
					b.Fatal(err)
				}
				out = one.append(s, out[:0])
			}
			b.ReportMetric(float64(len(out)), "B/answer")
		})
	}
}

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// queryAttacks are queries and expressions that take memory and time.
func queryAttacks() []attack {
	return []attack{
		{"S3", "view", "PromQL: labels that double 23 times", "refused, below 200 MB more",
			doublingLabels},
		{"S5", "view", "format_query of 2,400 parentheses, twice", "refused within a second",
			parentheses},
		{"Q1", "view", "PromQL: 10^9 steps, subquery of 1 ms, regex, all series",
			"refused or within 15 s", expressions},
		{"Q2", "view", "/api/ask of all time, in steps of a second", "413 or an answer within 5 s",
			allOfTime},
		{"Q3", "view", "40 expensive questions at once, one by the socket", "the socket answers",
			socketPlace},
	}
}

// form sends an expression to Prometheus's API with a token for view, and returns the time that the
// reply took.
func (b *bench) form(path, query string) (reply, time.Duration, error) {
	token, err := b.main.giveToken("view")
	if err != nil {
		return reply{}, 0, err
	}
	body := url.Values{"query": {query}}.Encode()
	began := time.Now()
	a, err := b.main.request("POST", "/api/v1/"+path, token, body, "Content-Type",
		"application/x-www-form-urlencoded")
	return a, time.Since(began), err
}

func doublingLabels(b *bench) (string, error) {
	q := `label_replace(culprit_process_info,"a","x","","")`
	for range 23 {
		q = `label_replace(` + q + `,"a","$1$1","a","(.*)")`
	}
	a, took, err := b.form("query", "count("+q+")")
	if err != nil {
		return "", err
	}
	if a.status == 200 && strings.Contains(string(a.body), `"success"`) {
		return "", fmt.Errorf("it is answered after %v", took)
	}
	if took > 15*time.Second {
		return "", fmt.Errorf("status %d after %v", a.status, took)
	}
	return fmt.Sprintf("%d after %d ms", a.status, took.Milliseconds()), nil
}

func parentheses(b *bench) (string, error) {
	q := strings.Repeat("(", 2400) + "1" + strings.Repeat(")", 2400)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, _, _ = b.form("format_query", q) })
	}
	a, took, err := b.form("format_query", q)
	wg.Wait()
	if err != nil {
		return "", err
	}
	if took > time.Second || a.status == 200 {
		return "", fmt.Errorf("status %d after %v", a.status, took)
	}
	if _, err := b.main.troubles(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d after %d ms", a.status, took.Milliseconds()), nil
}

func expressions(b *bench) (string, error) {
	t := &tally{}
	try := func(path, query string) error {
		a, took, err := b.form(path, query)
		if err != nil {
			return fmt.Errorf("%.60s: %w", query, err)
		}
		status := fmt.Sprint(a.status)
		if took > 15*time.Second {
			status += fmt.Sprintf(" after %v", took)
		}
		t.add(fmt.Sprintf("%.60s", query), status, "200", "400", "413", "414", "422", "503")
		return nil
	}
	if err := try("query_range?start=0&end=1000000000&step=1", "1"); err != nil {
		return "", err
	}
	for _, query := range []string{
		`sum_over_time(rate(culprit_cpu_time_seconds_total[5m:1ms])[1d:1ms])`,
		`{__name__=~"((((a+)+)+)+)+b"}`,
		`{__name__=~"` + strings.Repeat("a|", 30000) + `b"}`,
		`{__name__=~".+"}`,
		`count_values("x",{__name__=~".+"})`,
		strings.Repeat("-", 4000) + "1",
		`sort(topk(1e9,{__name__=~".+"} or {__name__=~".+"}))`,
	} {
		if err := try("query", query); err != nil {
			return "", err
		}
	}
	return t.result()
}

func allOfTime(b *bench) (string, error) {
	t := &tally{}
	for _, query := range []string{
		"from=0&step=0", "from=0&step=1000", "from=0&step=1", "from=-10m&step=1ns",
		"from=9999-01-01T00:00:00Z", "from=-99999d&to=now&columns=999999999", "step=-1",
	} {
		began := time.Now()
		a, err := b.main.request("GET", "/api/ask?q=sched.forks&"+query, b.main.token, "")
		if err != nil {
			return "", err
		}
		status := fmt.Sprint(a.status)
		if took := time.Since(began); took > 5*time.Second {
			status += fmt.Sprintf(" after %v", took)
		}
		t.add(query, status, "200", "400", "413", "503")
	}
	return t.result()
}

func socketPlace(b *bench) (string, error) {
	q := `sum(rate({__name__=~"culprit.+"}[10m:1s]))`
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() { _, _, _ = b.form("query", q) })
	}
	time.Sleep(200 * time.Millisecond) // they are being answered
	began := time.Now()
	_, err := b.must(20*time.Second, "stat", "sched.forks", "--at", "-2s", "--dir", b.main.dir)
	took := time.Since(began)
	wg.Wait()
	if err != nil {
		return "", err
	}
	if took > 5*time.Second {
		return "", fmt.Errorf("the socket answers after %v", took)
	}
	return fmt.Sprintf("the socket answers after %d ms", took.Milliseconds()), nil
}

// uploadAttacks are files that expand.
func uploadAttacks() []attack {
	return []attack{
		{"S4", "record", "a pprof file of 5 kB with 10^12 inlined frames",
			"bounded: below 400 MB, 20 s", pprofBomb},
		{"U1", "record", "1 GB in 1 MB of gzip, gzip in gzip, folded and JSON that expand",
			"bounded: below 400 MB, 20 s", otherBombs},
		{"U2", "record", "8 bombs at once", "bounded: below 400 MB, 20 s", manyBombs},
		{"U3", "a local user", "<img>, quotes and ESC in names of functions",
			"escaped in SVG and HTML", markup},
	}
}

// field appends a protobuf field: a length and bytes.
func field(b []byte, n int, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(n)<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// number appends a protobuf field: a number.
func number(b []byte, n, value int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(n)<<3), uint64(value))
}

// inlined returns a pprof file with one sample. Its stack repeats one location ids times, and the
// location has the given number of inlined lines, so the stack has lines * ids frames.
func inlined(lines, ids int) []byte {
	var b []byte
	b = field(b, 1, number(number(nil, 1, 1), 2, 2))
	for _, s := range []string{"", "samples", "count", "f"} {
		b = field(b, 6, []byte(s))
	}
	b = field(b, 5, number(number(nil, 1, 1), 2, 3))
	line := field(nil, 4, number(nil, 1, 1))
	b = field(b, 4, append(number(nil, 1, 1), bytes.Repeat(line, lines)...))
	sample := field(field(nil, 1, bytes.Repeat([]byte{1}, ids)), 2, []byte{1})
	return packed(field(b, 2, sample))
}

func packed(b []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(b)
	}
	if errors.Join(err, w.Close()) != nil {
		return nil // a buffer takes everything
	}
	return out.Bytes()
}

// zeros returns gzip of n zeros.
func zeros(n int) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	for block := make([]byte, 1<<20); n > 0; n -= len(block) {
		_, _ = w.Write(block) // a buffer takes everything
	}
	_ = w.Close() // as above
	return out.Bytes()
}

// upload sends a file as a profile.
func (b *bench) upload(file []byte) (string, error) {
	token, err := b.main.giveToken("record")
	if err != nil {
		return "", err
	}
	began := time.Now()
	a, err := b.main.request("POST", "/api/profiles?name=x", token, string(file), "X-Culprit", "1",
		"Content-Type", "application/octet-stream")
	if err != nil {
		return "", err
	}
	status := fmt.Sprint(a.status)
	if took := time.Since(began); took > 20*time.Second {
		status += fmt.Sprintf(" after %v", took)
	}
	return status, nil
}

func pprofBomb(b *bench) (string, error) {
	t := &tally{}
	for _, size := range []int{1_000_000, 30_000} {
		status, err := b.upload(inlined(size, size))
		if err != nil {
			return "", err
		}
		t.add(fmt.Sprintf("%d lines", size), status, "200", "400", "413", "503")
	}
	return t.result()
}

func otherBombs(b *bench) (string, error) {
	t := &tally{}
	defer debug.FreeOSMemory() // of the files
	deep := strings.Repeat("a;", 1<<20) + "a 1\n"
	var events strings.Builder
	events.WriteString(`{"traceEvents":[`)
	for range 200_000 {
		events.WriteString(`{"ph":"B","name":"f","ts":1,"pid":1,"tid":1},`)
	}
	events.WriteString(`{"ph":"E","ts":2,"pid":1,"tid":1}]}`)
	for _, c := range []struct {
		what string
		file []byte
	}{
		{"zeros", zeros(1 << 30)},
		{"gzip in gzip", packed(zeros(256 << 20))},
		{"folded, deep", packed([]byte(strings.Repeat(deep, 40)))},
		{"open calls", packed([]byte(events.String()))},
		{"JSON, deep", packed([]byte(strings.Repeat(`{"children":[`, 1<<20)))},
		{"speedscope",
			packed([]byte(`{"$schema":"https://www.speedscope.app/file-format-schema.json",` +
				`"shared":{"frames":[{"name":"f"}]},"profiles":[{"type":"sampled","name":"x","unit":"none",` +
				`"startValue":0,"endValue":1,"samples":[[` + strings.Repeat("0,", 4<<20) +
				`0]],"weights":[1]}]}`))},
	} {
		status, err := b.upload(c.file)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.what, err)
		}
		t.add(c.what, status, "200", "400", "413", "503")
	}
	return t.result()
}

func manyBombs(b *bench) (string, error) {
	file := inlined(300_000, 300_000)
	if _, err := b.main.giveToken("record"); err != nil {
		return "", err
	}
	t, results := &tally{}, make(chan string, 8)
	for range 8 {
		go func() {
			status, err := b.upload(file)
			if err != nil {
				status = err.Error()
			}
			results <- status
		}()
	}
	for range 8 {
		t.add("one of 8", <-results, "200", "400", "413", "429", "503")
	}
	return t.result()
}

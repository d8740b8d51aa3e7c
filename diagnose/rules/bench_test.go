package rules

import (
	"context"
	"fmt"
	"testing"

	"culprit/diagnose"
	"culprit/measure"
)

// BenchmarkRunLarge diagnoses ten seconds of a machine with containers: 1,000 devices, 5,000
// processes, 20,000 connections, of which one in a hundred is active, or all are.
func BenchmarkRunLarge(b *testing.B) {
	b.Run("few move", func(b *testing.B) { benchmarkLarge(b, 100) })
	b.Run("all move", func(b *testing.B) { benchmarkLarge(b, 1) })
}

func benchmarkLarge(b *testing.B, one int) {
	c := readCanned(b, "testdata/quiet.txt", nil)
	for i := range 1000 {
		name := fmt.Sprintf("veth%d", i)
		c.stats["net.device.info"].rows = append(c.stats["net.device.info"].rows, cannedRow{
			words: []string{"", name, fmt.Sprint(100 + i), "veth", "veth",
				fmt.Sprintf("02:00:00:00:%02x:%02x", i/256, i%256), "up", "up", "full", "off",
				"1500", "", "", "1", "1", "up"}, values: []string{"1"}})
		for _, s := range []string{"bytes", "packets", "wire", "drops", "errors", "fifo"} {
			for _, d := range []string{"rx", "tx"} {
				c.stats["net.device."+s].rows = append(c.stats["net.device."+s].rows,
					cannedRow{words: []string{"", name, d}, values: []string{"1000"}})
			}
		}
	}
	for i := range 5000 {
		pid, name := fmt.Sprint(10000+i), fmt.Sprintf("worker-%d", i%50)
		c.stats["process.cpu"].rows = append(c.stats["process.cpu"].rows,
			cannedRow{words: []string{pid, name, "usr"}, values: []string{"0.0001"}})
		c.stats["process.rss"].rows = append(c.stats["process.rss"].rows,
			cannedRow{words: []string{pid, name}, values: []string{"1e6"}})
		c.stats["process.threads"].rows = append(c.stats["process.threads"].rows,
			cannedRow{words: []string{pid, name}, values: []string{"1"}})
	}
	for i := range 20000 {
		key := []string{"", "10.0.0.1", "443", fmt.Sprintf("10.1.%d.%d", i/200, i%200),
			fmt.Sprint(30000 + i%30000), "800", "nginx", "server"}
		for _, d := range []string{"rx", "tx"}[:2*min(1, (i+1)/one-i/one)] {
			c.stats["tcp.flow.bytes"].rows = append(c.stats["tcp.flow.bytes"].rows,
				cannedRow{words: append(append([]string(nil), key...), d),
					values: []string{"2000"}})
		}
		for _, s := range []string{"rtt", "unsent", "delivery", "mss"} {
			c.stats["tcp.flow."+s].rows = append(c.stats["tcp.flow."+s].rows,
				cannedRow{words: key, values: []string{"1448"}})
		}
	}
	answers := kept{c, map[string]*measure.Answer{}}
	rep, err := diagnose.Run(context.Background(), answers, Set(), c.over(), c.step)
	if err != nil {
		b.Fatal(err)
	}
	if len(rep.Missing) > 0 {
		b.Fatalf("a rule had nothing to judge: %v", rep.Missing)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := diagnose.Run(context.Background(), answers, Set(), c.over(),
			c.step); err != nil {
			b.Fatal(err)
		}
	}
}

// kept is a reader that folds each answer once.
type kept struct {
	c       *canned
	answers map[string]*measure.Answer
}

func (k kept) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	a, err := k.answers[q.String()], error(nil)
	if a == nil {
		if a, err = k.c.Ask(ctx, q); err != nil {
			return nil, err
		}
		k.answers[q.String()] = a
	}
	mine := *a // the reader drops the series
	return &mine, nil
}

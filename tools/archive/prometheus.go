package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"culprit/measure"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// prometheus is Prometheus's storage as a library, fed as a scrape feeds it: amounts as counters, series known by reference.
type prometheus struct {
	db    *tsdb.DB
	dir   string
	sets  []measure.Dataset
	rows  []map[string]*promRow // one a dataset, by its labels
	clock int64                 // ms, of the newest tick
	all   uint64                // samples
}

type promRow struct {
	ref    storage.SeriesRef
	labels labels.Labels
	sum    float64
}

func openPrometheus(dir string, sets []measure.Dataset) (engine, error) {
	o := tsdb.DefaultOptions()
	o.RetentionDuration = int64(30 * 24 * time.Hour / time.Millisecond)
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, o, nil)
	if err != nil {
		return nil, err
	}
	p := &prometheus{db: db, dir: dir, sets: sets, rows: make([]map[string]*promRow, len(sets))}
	for i := range p.rows {
		p.rows[i] = map[string]*promRow{}
	}
	return p, nil
}

var unfit = regexp.MustCompile(`[^a-zA-Z0-9_]`) // table: what a metric name may not have

func promName(id measure.StatID) string { return "culprit_" + unfit.ReplaceAllString(string(id), "_") }

func (p *prometheus) put(at measure.Time, t tick) (err error) {
	p.clock = int64(at) / 1e6
	app := p.db.Appender(context.Background())
	var id []byte
	for d, b := range t.scraped {
		if b == nil {
			continue
		}
		for i, v := range b.Values {
			key := b.Key(i)
			id = id[:0]
			for _, l := range key {
				id = append(append(id, b.Labels[l]...), 0)
			}
			row := p.rows[d][string(id)]
			if row == nil {
				pairs := []string{labels.MetricName, promName(b.Stat)}
				for j, l := range key {
					if b.Labels[l] != "" {
						pairs = append(pairs, b.By[j], b.Labels[l])
					}
				}
				row = &promRow{labels: labels.FromStrings(pairs...)}
				p.rows[d][string(id)] = row
			}
			if p.sets[d].Stat.Kind == measure.Delta {
				if v == v {
					row.sum += v
				}
				v = row.sum
			}
			if row.ref, err = app.Append(row.ref, row.labels, p.clock, v); err != nil {
				return err
			}
			p.all++
		}
	}
	return app.Commit()
}

// settle lets the storage compact what it would have by now, and where that is nothing yet, all of it.
func (p *prometheus) settle() error {
	err := p.db.Compact(context.Background())
	if head := p.db.Head(); err == nil && len(p.db.Blocks()) == 0 && head.NumSeries() > 0 {
		err = p.db.CompactHead(tsdb.NewRangeHead(head, head.MinTime(), head.MaxTime()))
	}
	return err
}

// size gives the bytes of the blocks and the samples in them, and those of the whole directory, with the head and its log, and all samples.
func (p *prometheus) size() (blocks, whole space) {
	for _, b := range p.db.Blocks() {
		blocks.Samples += b.Meta().Stats.NumSamples
		blocks.Bytes += sizeOf(b.Dir())
	}
	return blocks, space{sizeOf(p.dir), p.all}
}

func sizeOf(dir string) (bytes int64) {
	_ = filepath.Walk(dir, func(_ string, i os.FileInfo, err error) error {
		if err == nil && i.Mode().IsRegular() {
			bytes += i.Size()
		}
		return nil
	})
	return bytes
}

func (p *prometheus) close() error { return p.db.Close() }

// ask evaluates a rate over five minutes for each of the rows, in steps of five minutes: what a graph of that range asks.
func (p *prometheus) ask(from, to measure.Time, datasets int) (cells int, err error) {
	e := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 40, Timeout: time.Hour, LookbackDelta: 5 * time.Minute})
	for d := range datasets {
		q := promName(p.sets[d].Stat.ID)
		if p.sets[d].Stat.Kind == measure.Delta {
			q = "rate(" + q + "[5m])"
		} else {
			q = "avg_over_time(" + q + "[5m])"
		}
		query, err := e.NewRangeQuery(context.Background(), p.db, nil, q, from.AsTime(), to.AsTime(), 5*time.Minute)
		if err != nil {
			return 0, err
		}
		r := query.Exec(context.Background())
		if r.Err != nil {
			return 0, r.Err
		}
		m, err := r.Matrix()
		if err != nil {
			return 0, err
		}
		for _, s := range m {
			cells += len(s.Floats)
		}
		query.Close()
	}
	if cells == 0 {
		return 0, fmt.Errorf("Prometheus found nothing")
	}
	return cells, nil
}

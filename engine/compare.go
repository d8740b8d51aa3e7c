package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"culprit/export"
	"culprit/fleet"
	"culprit/measure"

	"github.com/prometheus/common/model"
)

const (
	// maxCompared is the number of other hosts whose statistics are read.
	maxCompared = 100
	// maxCompareSpan is the longest time that is compared.
	maxCompareSpan = 360 * measure.Minute
)

// namesOfThings are fields that name things of one host: other hosts have other ones, so rows are
// folded over them.
//
// table: a constant that Go cannot express
var namesOfThings = []string{
	"netns", "device", "cpu", "cgroup", "mount", "type", "irq", "owner", "node", "version",
}

// Compare compares a host with the others by all statistics that servers send, over a span before a
// time. name "" selects the host that differs most from the others. The span is at least two
// minutes. The error is ErrNoHost, ErrTooLarge for a span of more than six hours, of a host that is
// silent or alone, or that of the engine.
func (c *Client) Compare(
	ctx context.Context, stats []measure.Stat, name string, at measure.Time, span measure.Span,
) (*fleet.Comparison, error) {
	if span > maxCompareSpan {
		return nil, fmt.Errorf("%v are more than %v: give a shorter time: %w", span, maxCompareSpan,
			measure.ErrTooLarge)
	}
	o, err := c.Overview(ctx, at, span)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(o.Hosts))
	for i := range o.Hosts {
		names[i] = o.Hosts[i].Name
	}
	host := -1
	if name != "" {
		if name, err = c.choose(name, names); err != nil {
			return nil, err
		}
		host = slices.Index(names, name)
	}
	out, host, others, err := o.Compare(host, maxCompared)
	if err != nil || host < 0 {
		return out, err
	}
	var chosen []string
	for _, i := range append([]int{host}, others...) {
		chosen = append(chosen, names[i])
	}
	items, notes, err := c.items(ctx, stats, chosen, at, o.Over)
	if err != nil {
		return nil, err
	}
	out.Notes = append(slices.Clone(out.Notes), notes...)
	out.Differences = fleet.Differences(items)
	return out, nil
}

// items reads the values of all statistics of hosts: the means of a span before a time.
func (c *Client) items(
	ctx context.Context, stats []measure.Stat, hosts []string, at measure.Time, span measure.Span,
) (all []fleet.Item, notes []string, err error) {
	var read []*compared
	for i := range stats {
		if s := comparedOf(&stats[i]); s != nil {
			read = append(read, s)
		}
	}
	slices.SortFunc(read, func(a, b *compared) int {
		return strings.Compare(string(a.entry.Stat), string(b.entry.Stat))
	})
	found := make([]model.Vector, len(read))
	tasks := make([]func() error, len(read))
	for i, s := range read {
		tasks[i] = func() (err error) {
			found[i], err = c.vector(ctx, s.expression(c.label, hosts, span), at)
			return err
		}
	}
	if err := together(tasks); err != nil {
		return nil, nil, err
	}
	for i, s := range read {
		some := s.items(found[i], c.label, hosts)
		if len(some) > export.DefaultBound {
			notes = append(notes, fmt.Sprintf("%s has %d rows per host: it is not compared",
				s.entry.Stat, len(some)))
			continue
		}
		all = append(all, some...)
	}
	return all, notes, nil
}

// compared is a statistic by which hosts are compared.
type compared struct {
	entry export.Entry
	shape export.Shape
	fold  measure.Fold
	by    []string // labels that are the same on all hosts
	unit  measure.Unit
}

// comparedOf returns nil for a statistic by which hosts are not compared: one that is not sent,
// a distribution, a description, and those of culprit itself.
func comparedOf(st *measure.Stat) *compared {
	e := export.OfStat(st)
	s := &compared{entry: e, shape: export.Shapes(e.Kind, e.Signed)[0], fold: st.Fold}
	id := string(e.Stat)
	switch {
	case e.Local != "" || s.shape == export.Histogram:
		return nil
	case strings.HasSuffix(id, ".info"), strings.HasSuffix(id, ".access"), id == "system.boot",
		strings.HasPrefix(id, "server."), strings.HasPrefix(id, "finding."):
		return nil
	}
	for _, l := range e.Labels {
		if !slices.Contains(namesOfThings, l) {
			s.by = append(s.by, l)
		}
	}
	s.unit = e.Unit
	rate := s.shape != export.Gauge
	switch {
	case e.Unit == measure.Nanoseconds && rate:
		s.unit = measure.Ratio
	case e.Unit == measure.Nanoseconds:
		s.unit = "s"
	case e.Unit == measure.BitsPerSec:
		s.unit = measure.Bytes + "/s"
	case e.Unit == measure.Bytes && rate:
		s.unit = measure.Bytes + "/s"
	case rate:
		s.unit = "1/s"
	case export.UnitOf(e.Unit).Word == "":
		s.unit = measure.Count
	}
	return s
}

// expression returns the PromQL of the statistic: one series per host and values of s.by.
func (s *compared) expression(label string, hosts []string, span measure.Span) string {
	matchers := []string{matcher(label, "=~", anyOf(hosts))}
	if s.ofDevices() {
		matchers = append(matchers, `device!="lo"`)
	}
	over, fold := "avg_over_time", s.fold.String()
	if s.shape == export.Counter {
		over = "rate"
	}
	if s.fold == measure.Mean {
		fold = "avg"
	}
	return fmt.Sprintf("%s by (%s) (%s(%s{%s}[%ds]))", fold,
		strings.Join(append([]string{label}, s.by...), ","), over, s.entry.Name(),
		strings.Join(matchers, ","), span/measure.Second)
}

// ofDevices reports whether the statistic is of network devices: what a host sends to itself is
// left out.
func (s *compared) ofDevices() bool {
	return slices.Contains(s.entry.Labels, "netns") && slices.Contains(s.entry.Labels, "device")
}

// items returns the values by the values of s.by, in the order of hosts. Counters that never moved
// are not sent, so a host without one has 0.
func (s *compared) items(found model.Vector, label string, hosts []string) []fleet.Item {
	index := map[string]int{}
	place := map[string]int{}
	for i, h := range hosts {
		place[h] = i
	}
	var out []fleet.Item
	for _, v := range found {
		at, ok := place[string(v.Metric[model.LabelName(label)])]
		if !ok || !isNumber(float64(v.Value)) {
			continue
		}
		q := s.query(v.Metric)
		text := q.String()
		i, ok := index[text]
		if !ok {
			i = len(out)
			index[text] = i
			it := fleet.Item{Query: q, Unit: s.unit, Values: make([]float64, len(hosts))}
			for k := range it.Values {
				if s.shape != export.Counter {
					it.Values[k] = measure.NaN
				}
			}
			out = append(out, it)
		}
		out[i].Values[at] = float64(v.Value)
	}
	return out
}

// query returns the query that has the values of a series.
func (s *compared) query(labels model.Metric) measure.Query {
	q := measure.Query{Stat: s.entry.Stat}
	for _, t := range s.entry.Where {
		if !slices.Contains(s.by, t.Field) {
			q.Where = append(q.Where, t)
		}
	}
	for _, f := range s.by {
		value := measure.Clean(valueOf(labels, f))
		q.Where = append(q.Where, measure.Term{
			Field: f, Op: measure.Equal, Values: []string{value},
		})
	}
	if s.ofDevices() {
		q.Where = append(q.Where, measure.Term{
			Field: "device", Op: measure.NotEqual, Values: []string{"lo"},
		})
	}
	return q
}

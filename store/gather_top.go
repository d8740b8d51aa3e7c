package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"culprit/measure"
)

// A query with Query.Top that has too many rows is gathered twice. First all rows are gathered in
// one cell for the whole time, which ranks them. Then the largest are gathered in the requested
// cells, and all others as one series if rows add up.

// ranking selects the rows of a gather that are series, with the tables that number the rows.
type ranking struct {
	words      words
	stacks     trie
	table      table
	series     []int32 // per row of table; later rows are in restSeries
	rows       []int   // per series except restSeries
	restSeries int     // the series of all other rows; -1: none
	all        int     // number of rows that exist
}

// seriesOf returns the series of a row, or -1.
func (p *ranking) seriesOf(row int) int {
	if row < len(p.series) {
		return int(p.series[row])
	}
	return p.restSeries // the row is newer than the ranking
}

// gatherLargest gathers the q.Top largest rows, and the rest.
func (s *Store) gatherLargest(
	ctx context.Context, q measure.Query, buffers *gatherBuffers,
) (*gather, error) {
	buffers.release()
	s.mu.RLock()
	grid, over, err := s.newGather(q, s.limits.values, &gatherBuffers{})
	s.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	whole := q
	whole.Over, whole.Step = over, grid.step*measure.Span(max(1, grid.cells))
	ranked, err := s.gatherRows(ctx, whole, s.limits.values, buffers, nil)
	if err != nil {
		return nil, err
	}
	return s.gatherRows(ctx, q, s.limits.values, &gatherBuffers{}, ranked.rank(q.Top))
}

// rank selects the top largest rows. The gather is not used afterwards.
func (g *gather) rank(top int) *ranking {
	type ranked struct {
		row    int
		weight float64
	}
	var all []ranked
	for i, s := range g.series {
		if s.present {
			all = append(all, ranked{i, g.weight(s)})
		}
	}
	slices.SortFunc(all, func(x, y ranked) int {
		// NaN is below all numbers
		return cmp.Or(-cmp.Compare(x.weight, y.weight), cmp.Compare(x.row, y.row))
	})
	p := &ranking{
		words:      g.words,
		stacks:     g.stacks,
		table:      g.rows,
		series:     make([]int32, g.rows.n),
		restSeries: -1,
		all:        len(all),
	}
	kept := all[:min(top, len(all))]
	if st := &g.set.desc.Stat; st.Fold == measure.Sum && st.Kind != measure.Dists {
		p.restSeries = len(kept)
	}
	for i := range p.series {
		p.series[i] = int32(p.restSeries)
	}
	for i, r := range kept {
		p.series[r.row], p.rows = int32(i), append(p.rows, r.row)
	}
	return p
}

// weight returns the rank value of a series: the total amount if rows add up, the number of values
// for distributions, otherwise the mean. NaN when nothing is known.
func (g *gather) weight(s *gathered) float64 {
	if s.dists != nil {
		n := uint64(0)
		for i := range s.dists {
			n += s.dists[i].Count()
		}
		return float64(n)
	}
	sum, n := 0.0, uint64(0)
	for c, v := range s.sum {
		sum, n = sum+v, n+uint64(s.n[c])
	}
	switch st := &g.set.desc.Stat; {
	case n == 0:
		return math.NaN()
	case st.Fold == measure.Sum || st.Sparse:
		return sum
	}
	return sum / float64(n)
}

// useRanking makes the selected rows the series of a gather that has none yet.
func (g *gather) useRanking(p *ranking) error {
	n := len(p.rows) + b2i(p.restSeries >= 0)
	if g.cells > 0 && n > g.valuesLeft/g.cells {
		return errTooLarge
	}
	g.ranking, g.words, g.stacks, g.rows = p, p.words, p.stacks, p.table
	for range n {
		g.series = append(g.series, g.newSeries())
	}
	return nil
}

// answerRest adds a summary of the rows that were not selected.
func (g *gather) answerRest(a *measure.Answer) {
	p := g.ranking
	left := p.all - len(p.rows)
	if left <= 0 {
		return
	}
	a.Rest.Rows = left
	a.Notes = append(
		slices.Clip(a.Notes),
		fmt.Sprintf("%s of %s rows: the largest in the whole time",
			thousands(len(p.rows)), thousands(p.all)),
	)
	if p.restSeries >= 0 {
		s := g.series[p.restSeries]
		g.finish(s)
		a.Rest.Values = s.sum
	}
}

// thousands formats 14000 as 14,000.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

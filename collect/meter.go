package collect

import (
	"sync"

	"culprit/measure"
)

// meter adds up the CPU time of readings by statistic.
type meter struct {
	mu   sync.Mutex
	cost map[measure.StatID]float64 // nanoseconds of CPU time
}

// add divides the CPU time of one reading among its statistics, in proportion to their rows. Each
// statistic counts as one row more, as reading costs time also without rows.
func (m *meter) add(o *Out, spent measure.Span) {
	parts := 0
	for _, t := range o.tables {
		parts += 1 + t.batch.Rows()
	}
	m.mu.Lock()
	for _, t := range o.tables {
		m.cost[t.stat.ID] += float64(spent)*float64(
			1+t.batch.Rows(),
		)/float64(parts) + float64(
			t.spent,
		)
	}
	m.mu.Unlock()
}

func (m *meter) of(id measure.StatID) measure.Span {
	m.mu.Lock()
	defer m.mu.Unlock()
	return measure.Span(m.cost[id])
}

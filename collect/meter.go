package collect

import (
	"sync"

	"culprit/measure"
)

// meter adds up what reading has cost, by statistic.
type meter struct {
	mu   sync.Mutex
	cost map[measure.StatID]float64 // nanoseconds of CPU time
}

// add shares what a reading took among its statistics: by rows, and each as if it had one more, since looking costs too.
func (m *meter) add(o *Out, spent measure.Span) {
	parts := 0
	for _, t := range o.tables {
		parts += 1 + t.batch.Rows()
	}
	m.mu.Lock()
	for _, t := range o.tables {
		m.cost[t.stat.ID] += float64(spent)*float64(1+t.batch.Rows())/float64(parts) + float64(t.spent)
	}
	m.mu.Unlock()
}

func (m *meter) of(id measure.StatID) measure.Span {
	m.mu.Lock()
	defer m.mu.Unlock()
	return measure.Span(m.cost[id])
}

package measure

import "sync/atomic"

// Shape stands for the rows of a table without their values: tables of one statistic and by the same fields that have the same Shape other than 0
// have the same keys in the same order, and their labels are the same words. So who has found out where each row belongs knows it of the next table too.
type Shape uint64

var shapes atomic.Uint64 // table: it only counts, and nobody asks which number comes next

// NewShape gives a Shape that nothing else in the process has.
func NewShape() Shape { return Shape(shapes.Add(1)) }

// Lay says of an answer of one cell that its series have the Shape, and that series i has the value values[i] and that its Values lie there. Who gives a copy
// of the answer other rows lays it anew, with nil and 0.
func (a *Answer) SetColumn(values []float64, shape Shape) { a.values, a.shape = values, shape }

// Laid gives what Lay was told; nil and 0 where that was nothing.
func (a *Answer) Column() ([]float64, Shape) {
	if a.shape == 0 || len(a.values) != len(a.Series) {
		return nil, 0
	}
	return a.values, a.shape
}

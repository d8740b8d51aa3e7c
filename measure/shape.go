package measure

import "sync/atomic"

// Shape identifies the rows of a table without their values. Two tables of one statistic with the
// same fields and the same Shape other than 0 have the same keys in the same order with the same
// labels. A reader that has located the rows of one table can reuse that for the other.
type Shape uint64

var shapes atomic.Uint64 // table: only a counter; callers depend on no particular number

// NewShape returns a Shape that is unique in this process.
func NewShape() Shape { return Shape(shapes.Add(1)) }

// SetColumn sets the result of Column: series i has its value at values[i]. It applies to an answer
// of one cell. After replacing the rows of a copied answer, reset it with nil and 0.
func (a *Answer) SetColumn(values []float64, shape Shape) { a.values, a.shape = values, shape }

// Column returns the arguments of SetColumn; nil and 0 when it was not called.
func (a *Answer) Column() ([]float64, Shape) {
	if a.shape == 0 || len(a.values) != len(a.Series) {
		return nil, 0
	}
	return a.values, a.shape
}

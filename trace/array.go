package trace

import (
	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"
)

// arrayTable returns a global associative array of numbers as the rows of an aggregation. Elements
// that were added or removed meanwhile may be in it or not.
func (s *Session) arrayTable(of *check.Aggregation) (*Aggregate, error) {
	a := &Aggregate{session: s, array: of.Array}
	a.Name, a.Func = of.Name, format.Sum
	_, table := s.array(of.Array.Name)
	if table == nil {
		return a, nil
	}
	value := ir.TupleField{Type: of.Array.Type, Size: int(of.Array.Type.Size())}
	err := s.eachElement(of.Array.Name, func(_, key, stored []byte) error {
		row := format.AggregationRow{Data: []int64{FieldOf(stored, value).Int}}
		key = append([]byte(nil), key...)
		for _, f := range table.Key.Fields {
			row.Key = append(row.Key, s.Key(key, f))
		}
		a.Rows = append(a.Rows, row)
		return nil
	})
	return a, err
}

// remove sets all values to 0; of an array it removes all elements.
func (a *Aggregate) remove() error {
	if a.array != nil {
		return a.session.DeleteElements(a.array.Name)
	}
	a.Clear()
	return nil
}

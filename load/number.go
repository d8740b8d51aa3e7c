package load

import (
	"encoding/json"
	"math"

	"culprit/measure"
)

// Number is a float64 whose NaN and infinities are null in JSON: unknown is never 0.
type Number float64

// unknown returns the Number of an unknown value.
func unknown() Number { return Number(measure.NaN) }

// Known reports whether n is a number.
func (n Number) Known() bool { return n == n }

// MarshalJSON returns null for NaN and infinities. The error is always nil.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON parses a number; null is NaN. The error is that of encoding/json.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = unknown()
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

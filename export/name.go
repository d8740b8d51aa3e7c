package export

import (
	"strconv"
	"strings"

	"culprit/measure"
)

// Shape is how the samples of a metric are made from a statistic.
type Shape uint8

const (
	// Gauge is a Level, unchanged.
	Gauge Shape = iota + 1
	// Rate is a Delta: its amount per second of measured time. It is a gauge to Prometheus.
	Rate
	// Counter is a Delta: the sum of its amounts.
	Counter
	// Histogram is a Dists statistic: the sum of its distributions.
	Histogram
)

// Type returns Prometheus's word for the type of a metric: gauge, counter or histogram.
func (s Shape) Type() string {
	switch s {
	case Counter:
		return "counter"
	case Histogram:
		return "histogram"
	}
	return "gauge"
}

// Suffix returns the end of a metric's name: _total, _per_second or "".
func (s Shape) Suffix() string {
	switch s {
	case Rate:
		return "_per_second"
	case Counter:
		return "_total"
	}
	return ""
}

// Shapes returns the shapes of the metrics of a statistic. The exported one is first.
func Shapes(kind measure.Kind, signed bool) []Shape {
	switch {
	case kind == measure.Dists:
		return []Shape{Histogram}
	case kind == measure.Delta && signed: // it can decrease, which a counter must not
		return []Shape{Rate}
	case kind == measure.Delta:
		return []Shape{Counter, Rate}
	}
	return []Shape{Gauge}
}

// Unit is a base unit of Prometheus.
type Unit struct {
	// Word is part of the names of metrics: bytes, seconds; "" for plain numbers.
	Word string
	// Per is the number of the statistic's own units in one base unit: 1e9 for nanoseconds.
	Per float64
}

// UnitOf returns the base unit of a statistic's unit.
func UnitOf(u measure.Unit) Unit {
	switch u {
	case measure.Count, measure.Events, measure.Packets, measure.Operations, measure.Samples, "":
		return Unit{"", 1}
	case measure.Bytes:
		return Unit{"bytes", 1}
	case measure.Nanoseconds:
		return Unit{"seconds", 1e9}
	case measure.BitsPerSec:
		return Unit{"bytes_per_second", 8}
	case measure.Hertz:
		return Unit{"hertz", 1}
	}
	parts := strings.Split(string(u), "/")
	for i := range parts {
		parts[i] = nameOf(parts[i])
	}
	return Unit{strings.Join(parts, "_per_"), 1}
}

// baseName returns the name of a statistic's metrics without Shape.Suffix:
// culprit_subsystem_object_quantity, with the word of the unit unless it ends in it.
func baseName(id measure.StatID, unit measure.Unit) string {
	name := "culprit_" + nameOf(string(id))
	if word := UnitOf(unit).Word; word != "" && !strings.HasSuffix(name, "_"+word) {
		name += "_" + word
	}
	return name
}

// nameOf returns an identifier in the characters of a metric name: "." becomes "_", "_" becomes
// "__", and another byte becomes "___" and its number in hexadecimal.
func nameOf(id string) string {
	var b strings.Builder
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			b.WriteByte(c)
		case c == '.':
			b.WriteByte('_')
		case c == '_':
			b.WriteString("__")
		default:
			b.WriteString("___" + strconv.FormatUint(uint64(c)|0x100, 16)[1:])
		}
	}
	return b.String()
}

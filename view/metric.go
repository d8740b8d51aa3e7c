package view

import (
	"strconv"
	"strings"

	"culprit/measure"
)

// MetricName returns the Prometheus name of a statistic, and the word for its base unit ("" for
// counts). The name is culprit_subsystem_object_quantity, with the unit as suffix unless it ends in
// it.
func MetricName(st *measure.Stat) (name, word string) {
	word = unitWord(st.Unit)
	name = "culprit_" + metricPart(string(st.ID))
	if word != "" && !strings.HasSuffix(name, "_"+word) {
		name += "_" + word
	}
	return name, word
}

// unitWord returns the Prometheus word for a base unit: bytes, seconds; "" for counts.
func unitWord(u measure.Unit) string {
	switch u {
	case measure.Count, measure.Events, measure.Packets, measure.Operations, "":
		return ""
	case measure.Bytes:
		return "bytes"
	case measure.Nanoseconds:
		return "seconds"
	case measure.BitsPerSec:
		return "bits_per_second"
	case measure.Hertz:
		return "hertz"
	}
	parts := strings.Split(string(u), "/")
	for i := range parts {
		parts[i] = metricPart(parts[i])
	}
	return strings.Join(parts, "_per_")
}

// metricPart returns an identifier in the characters of a metric name: "." becomes "_", "_" becomes
// "__", and another byte becomes "___" and its number in hexadecimal.
func metricPart(id string) string {
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

package view

import (
	"strconv"
	"strings"

	"culprit/measure"
)

// MetricName gives the name that Prometheus knows a statistic by, and the word of its base unit:
// culprit_subsystem_object_quantity and the word, unless the name ends in it. Things that are
// counted have no word: their unit is what the name says.
func MetricName(st *measure.Stat) (name, word string) {
	word = unitWord(st.Unit)
	name = "culprit_" + metricPart(string(st.ID))
	if word != "" && !strings.HasSuffix(name, "_"+word) {
		name += "_" + word
	}
	return name, word
}

// unitWord gives Prometheus's word of the base unit: bytes, seconds; "" for what is counted.
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

// metricPart writes an identifier with the letters of a metric's name: a dot becomes _, a _ two,
// anything else three and its number in hexadecimal.
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

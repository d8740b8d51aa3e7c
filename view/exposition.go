package view

import (
	"math"
	"strconv"
	"strings"
)

// AppendMetric appends the head of a metric in Prometheus's text format 0.0.4: its help and type
// ("gauge", "counter"). Its samples follow, by AppendSample. name must be a valid metric name.
func AppendMetric(b []byte, name, kind, help string) []byte {
	help = strings.NewReplacer("\\", `\\`, "\n", `\n`).Replace(strings.ToValidUTF8(help, "\uFFFD"))
	b = append(b, "# HELP "+name+" "+help+"\n"...)
	return append(b, "# TYPE "+name+" "+kind+"\n"...)
}

// AppendSample appends a sample of a metric. labels are written by AppendLabel, "" for none.
// Numbers have all their digits; others are "NaN", "+Inf" and "-Inf".
func AppendSample(b []byte, name, labels string, v float64) []byte {
	b = append(b, name...)
	if labels != "" {
		b = append(append(append(b, '{'), labels...), '}')
	}
	b = append(b, ' ')
	switch {
	case math.IsInf(v, 1):
		b = append(b, "+Inf"...)
	case math.IsInf(v, -1):
		b = append(b, "-Inf"...)
	default:
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
	}
	return append(b, '\n')
}

// AppendMetricComment appends a comment line.
func AppendMetricComment(b []byte, text string) []byte {
	return append(
		b,
		"# "+strings.NewReplacer("\n", " ", "\r", " ").
			Replace(strings.ToValidUTF8(text, "\uFFFD"))+
			"\n"...)
}

// AppendLabel appends a label to a list of labels: field="text", after a comma if the list is not
// empty. Invalid UTF-8 is replaced. name must be a valid label name.
func AppendLabel(b []byte, name, text string) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	b = append(append(b, name...), `="`...)
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch r {
		case '\\':
			b = append(b, `\\`...)
		case '"':
			b = append(b, `\"`...)
		case '\n':
			b = append(b, `\n`...)
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}

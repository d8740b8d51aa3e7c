package prom

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// parseUnits parses Prometheus's notation of a duration: 1h30m.
func parseUnits(s string) (time.Duration, error) {
	d, err := model.ParseDuration(s)
	return time.Duration(d), err
}

func fail(w http.ResponseWriter, f *failure) {
	b := appendText([]byte(`{"status":"error","errorType":"`+f.kind+`","error":`), f.err.Error())
	send(w, f.status, append(b, '}'))
}

func succeed(w http.ResponseWriter, a answer, query string) {
	b, err := appendData([]byte(`{"status":"success","data":`), a.data)
	if err != nil {
		fail(w, &failure{http.StatusInternalServerError, "internal", err})
		return
	}
	warnings, infos := a.warnings.AsStrings(query, 10, 10)
	b = appendTexts(b, "warnings", warnings)
	b = appendTexts(b, "infos", infos)
	send(w, http.StatusOK, append(b, '}'))
}

func send(w http.ResponseWriter, status int, b []byte) {
	setHeader(w.Header())
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that disconnected needs no answer
}

// setHeader sets the header of each reply.
func setHeader(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
}

// appendTexts appends a member ,"name":[texts], nothing when there are none.
func appendTexts(b []byte, name string, texts []string) []byte {
	for i, s := range texts {
		if i == 0 {
			b = append(b, `,"`+name+`":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendText(b, s)
	}
	if len(texts) > 0 {
		b = append(b, ']')
	}
	return b
}

// appendData appends a value of PromQL in Prometheus's form, anything else as encoding/json writes
// it.
func appendData(b []byte, data any) ([]byte, error) {
	switch v := data.(type) {
	case promql.Vector:
		b = append(b, `{"resultType":"vector","result":[`...)
		for i, s := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendLabels(append(b, `{"metric":`...), s.Metric)
			if s.H != nil {
				b = appendHistogram(append(b, `,"histogram":`...), s.T, s.H)
			} else {
				b = appendPoint(append(b, `,"value":`...), s.T, s.F)
			}
			b = append(b, '}')
		}
		return append(b, "]}"...), nil
	case promql.Matrix:
		b = append(b, `{"resultType":"matrix","result":[`...)
		for i, s := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendSeries(b, s)
		}
		return append(b, "]}"...), nil
	case promql.Scalar:
		return append(appendPoint(append(b, `{"resultType":"scalar","result":`...), v.T, v.V), '}'), nil
	case promql.String:
		b = append(appendTime(append(b, `{"resultType":"string","result":[`...), v.T), ',')
		return append(appendText(b, v.V), "]}"...), nil
	case []labels.Labels:
		b = append(b, '[')
		for i, l := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendLabels(b, l)
		}
		return append(b, ']'), nil
	}
	text, err := json.Marshal(data)
	return append(b, text...), err
}

func appendSeries(b []byte, s promql.Series) []byte {
	b = appendLabels(append(b, `{"metric":`...), s.Metric)
	for i, p := range s.Floats {
		if i == 0 {
			b = append(b, `,"values":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendPoint(b, p.T, p.F)
	}
	if len(s.Floats) > 0 {
		b = append(b, ']')
	}
	for i, p := range s.Histograms {
		if i == 0 {
			b = append(b, `,"histograms":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendHistogram(b, p.T, p.H)
	}
	if len(s.Histograms) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendLabels(b []byte, l labels.Labels) []byte {
	b = append(b, '{')
	first := true
	l.Range(func(l labels.Label) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendText(append(appendText(b, l.Name), ':'), l.Value)
	})
	return append(b, '}')
}

func appendPoint(b []byte, t int64, v float64) []byte {
	b = append(appendTime(append(b, '['), t), ',')
	return append(appendFloat(b, v), ']')
}

// appendTime appends milliseconds as seconds.
func appendTime(b []byte, t int64) []byte {
	if t < 0 {
		b, t = append(b, '-'), -t
	}
	b = strconv.AppendInt(b, t/1000, 10)
	if f := t % 1000; f != 0 {
		b = append(b, '.', byte('0'+f/100), byte('0'+f/10%10), byte('0'+f%10))
	}
	return b
}

// appendFloat appends a number in quotes, since JSON has no NaN.
func appendFloat(b []byte, v float64) []byte {
	form := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		form = 'e'
	}
	return append(strconv.AppendFloat(append(b, '"'), v, form, -1, 64), '"')
}

// appendHistogram appends a histogram. Each bucket that is not empty is [which bounds it includes,
// lower, upper, count].
func appendHistogram(b []byte, t int64, h *histogram.FloatHistogram) []byte {
	b = appendTime(append(b, '['), t)
	b = appendFloat(append(b, `,{"count":`...), h.Count)
	b = appendFloat(append(b, `,"sum":`...), h.Sum)
	first := true
	for it := h.AllBucketIterator(); it.Next(); {
		k := it.At()
		if k.Count == 0 {
			continue
		}
		if first {
			b = append(b, `,"buckets":[`...)
		} else {
			b = append(b, ',')
		}
		first = false
		closed := byte('2') // the bucket includes neither bound
		switch {
		case k.LowerInclusive && k.UpperInclusive:
			closed = '3'
		case k.LowerInclusive:
			closed = '1'
		case k.UpperInclusive:
			closed = '0'
		}
		b = appendFloat(append(b, '[', closed, ','), k.Lower)
		b = appendFloat(append(b, ','), k.Upper)
		b = append(appendFloat(append(b, ','), k.Count), ']')
	}
	if !first {
		b = append(b, ']')
	}
	return append(b, "}]"...)
}

// appendText appends a text in quotes. It has a fast path for texts without escapes.
func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < 0x20 || c >= 0x7f || strings.IndexByte(`"\<>&`, c) >= 0 {
			text, _ := json.Marshal(s) // never fails for a string
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

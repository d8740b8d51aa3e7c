package report

import (
	"fmt"
	"html"
	"math"
	"strings"

	"culprit/load"
	"culprit/view"
)

// Sizes of a chart, in pixels.
const (
	chartWidth, chartPlot, chartTop = 760, 180, 46
	chartLeft, chartRight           = 90, 20
	chartBelow                      = 44 // the axis below a plot, and the space to the next
)

// chartColours are those of the first and the second result: they differ for the colour blind too.
//
// table: a constant that Go cannot express
var chartColours = [2]string{"#0072b2", "#d55e00"}

// curve is a line of a plot. A value that is not known is a gap.
type curve struct {
	of   int // result
	x, y []float64
}

// plot is a part of a chart.
type plot struct {
	title  string
	text   func(v float64) string // of a value
	ticks  []string               // of the x axis, for 0, 1, 2 ...; nil: it is time in seconds
	log    bool
	curves []curve
}

// LoadChart draws two results of one kind as SVG: throughput or transactions of each interval, a
// line per run, and percentiles of latency. The same results give the same text.
func LoadChart(names [2]string, a, b *load.Result) string {
	var plots []plot
	for _, w := range []load.Way{load.Up, load.Down} {
		p := plot{title: "throughput " + string(w), text: func(v float64) string {
			return load.Bits(load.Number(v))
		}}
		if a.Test.Kind == load.Exchange {
			p.title = "transactions per second"
			p.text = func(v float64) string { return fmt.Sprintf("%.4g", v) }
		}
		for n, r := range []*load.Result{a, b} {
			p.addRuns(n, r, w)
		}
		if len(p.curves) > 0 {
			plots = append(plots, p)
		}
	}
	if a.Test.Kind == load.Exchange {
		plots = append(plots, percentilesOf(a, b))
	}
	height := chartTop + len(plots)*(chartPlot+chartBelow)
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" `+
		`height="%d" font-family="sans-serif" font-size="12" role="img">`+"\n", chartWidth, height,
		chartWidth, height)
	fmt.Fprintf(&s, "<title>%s and %s</title>\n", xmlText(names[0]), xmlText(names[1]))
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	for n, name := range names {
		x := 10 + n*chartWidth/2
		fmt.Fprintf(&s, `<rect x="%d" y="10" width="12" height="12" fill="%s"/>`, x,
			chartColours[n])
		fmt.Fprintf(&s, `<text x="%d" y="20" fill="#222222">%s</text>`+"\n", x+18, xmlText(name))
	}
	for i := range plots {
		plots[i].draw(&s, chartTop+i*(chartPlot+chartBelow))
	}
	return s.String() + "</svg>\n"
}

// LoadChartPage returns a page with a chart. It needs no other file.
func LoadChartPage(names [2]string, svg string) string {
	return "<!doctype html>\n<meta charset=\"utf-8\">\n<title>" + xmlText(names[0]) + " and " +
		xmlText(names[1]) + "</title>\n" + svg
}

// xmlText returns a text for XML, without control characters.
func xmlText(s string) string { return html.EscapeString(view.Clean(s)) }

// addRuns adds a line per run of a result, in the direction w.
func (p *plot) addRuns(of int, r *load.Result, w load.Way) {
	for _, run := range r.Runs {
		c := curve{of: of}
		known := false
		for _, i := range run.Intervals {
			if i == nil || i.Here == nil {
				continue
			}
			v := valueOf(r, i, w)
			known = known || v.Known()
			c.x, c.y = append(c.x, i.Here.To.Seconds()), append(c.y, float64(v))
		}
		if known {
			p.curves = append(p.curves, c)
		}
	}
}

// valueOf returns the value of an interval: bits or transactions per second. What a server does not
// report is what this end sent.
func valueOf(r *load.Result, i *load.Interval, w load.Way) load.Number {
	if r.Test.Kind == load.Exchange {
		if w == load.Down {
			return load.Number(math.NaN())
		}
		return i.Here.Exchanges()
	}
	if v := i.Throughput(w); v.Known() {
		return v
	}
	if t := i.Sender(w); t != nil && w == load.Up && i.Here.Seconds() > 0 {
		return load.Number(float64(t.Bytes) * 8 / i.Here.Seconds())
	}
	return load.Number(math.NaN())
}

// percentilesOf returns the plot of latencies.
func percentilesOf(a, b *load.Result) plot {
	p := plot{
		title: "latency", log: true, ticks: []string{"min", "p50", "p90", "p99", "p99.9", "max"},
		text: func(v float64) string { return span(load.Number(v)) },
	}
	for n, r := range []*load.Result{a, b} {
		for _, s := range r.Ways {
			t := s.Times
			if t == nil {
				continue
			}
			c := curve{of: n}
			for i, v := range []load.Number{t.Least, t.P50, t.P90, t.P99, t.P999, t.Most} {
				c.x, c.y = append(c.x, float64(i)), append(c.y, float64(v))
			}
			p.curves = append(p.curves, c)
		}
	}
	return p
}

// bounds returns the ranges of the axes: that of the values begins at 0, or for a log axis at the
// power of ten below the smallest.
func (p *plot) bounds() (right, least, most float64) {
	right, least, most = 0, math.Inf(1), 0
	for _, c := range p.curves {
		for i, y := range c.y {
			if !(y >= 0) || math.IsInf(y, 0) {
				continue
			}
			right, most = max(right, c.x[i]), max(most, y)
			if y > 0 {
				least = min(least, y)
			}
		}
	}
	right = roundUp(right)
	if p.ticks != nil {
		right = float64(len(p.ticks) - 1)
	}
	if most == 0 {
		return right, 0, 1
	}
	if !p.log {
		return right, 0, roundUp(most)
	}
	least = math.Pow(10, math.Floor(math.Log10(least)))
	return right, least, max(10*least, math.Pow(10, math.Ceil(math.Log10(most))))
}

// roundUp returns the end of an axis from 0 with four equal parts of a round length.
func roundUp(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v/4)))
	for _, n := range []float64{1, 2, 2.5, 5} {
		if 4*n*unit >= v*(1-1e-9) {
			return 4 * n * unit
		}
	}
	return 40 * unit
}

// draw draws the plot, its top at y.
func (p *plot) draw(s *strings.Builder, y int) {
	right, least, most := p.bounds()
	const width = chartWidth - chartLeft - chartRight
	atX := func(v float64) float64 { return chartLeft + v/right*width }
	share := func(v float64) float64 { return (v - least) / (most - least) }
	if p.log {
		share = func(v float64) float64 { return math.Log(v/least) / math.Log(most/least) }
	}
	atY := func(v float64) float64 { return float64(y+chartPlot) - share(v)*chartPlot }
	fmt.Fprintf(s, `<text x="%d" y="%d" font-weight="bold" fill="#222222">%s</text>`+"\n",
		chartLeft, y-6, xmlText(p.title))
	for i := range 5 {
		v := least + float64(i)/4*(most-least)
		if p.log {
			v = least * math.Pow(most/least, float64(i)/4)
		}
		fmt.Fprintf(s, `<path d="M%d %.1fH%d" stroke="#dddddd"/><text x="%d" y="%.1f" `+
			`text-anchor="end" fill="#555555">%s</text>`+"\n", chartLeft, atY(v),
			chartWidth-chartRight, chartLeft-6, atY(v)+4, xmlText(p.text(v)))
	}
	marks := p.ticks
	if marks == nil {
		for i := range 5 {
			marks = append(marks, fmt.Sprintf("%.3g s", right*float64(i)/4))
		}
	}
	for i, mark := range marks {
		x := atX(right * float64(i) / float64(len(marks)-1))
		fmt.Fprintf(s, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">%s</text>`+"\n",
			x, y+chartPlot+16, xmlText(mark))
	}
	for _, c := range p.curves {
		if d := c.path(atX, atY, !p.log); d != "" {
			fmt.Fprintf(s, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5" `+
				`stroke-opacity="0.8"/>`+"\n", d, chartColours[c.of])
		}
	}
}

// path returns the line of a curve. zero: a value of 0 has a place.
func (c *curve) path(atX, atY func(float64) float64, zero bool) string {
	var d strings.Builder
	draws := false
	for i, v := range c.y {
		if !(v >= 0) || math.IsInf(v, 0) || v == 0 && !zero {
			draws = false
			continue
		}
		command := "M"
		if draws {
			command = "L"
		}
		fmt.Fprintf(&d, "%s%.1f %.1f", command, atX(c.x[i]), atY(v))
		if draws = true; i == 0 && len(c.y) == 1 {
			d.WriteString("h3") // a point
		}
	}
	return d.String()
}

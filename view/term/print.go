package term

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"culprit/view"
)

// printer shows one table after another.
type printer interface {
	table(t *view.Table) error
	mean(t *view.Table) error // over all that was shown
}

// screen prints for people: classic columns, the header again each screen.
type screen struct {
	out    io.Writer
	width  int // columns of the terminal
	lines  int // lines of the terminal, 0 = header once
	bold   bool
	time   bool // a first column with the time
	widths []int
	since  int // lines since the last header
	shown  []int
}

func (s *screen) table(t *view.Table) error {
	return s.print(t, t.Over.End.AsTime().Local().Format("15:04:05"))
}

func (s *screen) mean(t *view.Table) error {
	s.since = 0
	return s.print(t, "Average")
}

func (s *screen) print(t *view.Table, when string) error {
	var columns []int
	for i, c := range t.Columns {
		if c.Head != "" && c.From <= s.width {
			columns = append(columns, i)
		}
	}
	if !same(columns, s.shown) {
		s.shown, s.widths, s.since = columns, make([]int, len(columns)), 0
		for k, i := range columns {
			c := t.Columns[i]
			s.widths[k] = max(c.Width, utf8.RuneCountInString(c.Head))
		}
	}
	texts := make([][]string, len(t.Rows))
	for r, row := range t.Rows {
		texts[r] = make([]string, len(columns))
		for k, i := range columns {
			text := t.Columns[i].Format(row.Cells[i])
			if k == 0 && row.Label != "" {
				text = view.Clean(row.Label)
			}
			texts[r][k] = text
			// Names may widen their column, numbers may not: one large number must not shift all later lines.
			if n := utf8.RuneCountInString(text); n > s.widths[k] && (t.Columns[i].Left || row.Cells[i].Kind == view.IsText) {
				if last := k == len(columns)-1; !last {
					s.widths[k] = min(n, max(40, s.width/3))
					s.since = 0
				}
			}
		}
	}
	var b strings.Builder
	if s.since == 0 || s.lines > 3 && s.since+len(t.Rows) >= s.lines {
		s.line(&b, t, "Time", func(k int) string { return t.Columns[columns[k]].Head }, "", true)
		s.since = 1
	}
	for r, row := range t.Rows {
		s.line(&b, t, when, func(k int) string { return texts[r][k] }, row.Mark, false)
		s.since++
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

func (s *screen) line(b *strings.Builder, t *view.Table, when string, text func(k int) string, mark string, header bool) {
	var l strings.Builder
	if s.time {
		fmt.Fprintf(&l, "%-8s ", when)
	}
	for k, i := range s.shown {
		w := text(k)
		pad := strings.Repeat(" ", max(0, s.widths[k]-utf8.RuneCountInString(w)))
		switch {
		case k > 0 && t.Columns[i].Left:
			l.WriteString(" " + w + pad)
		case t.Columns[i].Left:
			l.WriteString(w + pad)
		case k > 0:
			l.WriteString(" " + pad + w)
		default:
			l.WriteString(pad + w)
		}
	}
	if mark != "" {
		l.WriteString("  <- " + view.Clean(mark))
	}
	line := strings.TrimRight(l.String(), " ")
	if header && s.bold {
		line = "\x1b[1m" + line + "\x1b[0m"
	}
	b.WriteString(line + "\n")
}

func same(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// lines prints one JSON object an interval, in one line each.
type lines struct{ out io.Writer }

func (p *lines) table(t *view.Table) error {
	_, err := p.out.Write(append(AppendJSON(nil, t), '\n'))
	return err
}

func (p *lines) mean(*view.Table) error { return nil }

// AppendJSON appends the table as one JSON object without line breaks:
//
//	{"view":"nic","start":"...","seconds":1.0003,"rows":[{...}],"loss":[],"notes":[]}
//
// Unknown is null. Rows have the columns that have a name, in their order, and "remark" where the row has one.
func AppendJSON(b []byte, t *view.Table) []byte {
	b = append(b, `{"view":`...)
	b = appendString(b, t.View)
	b = append(b, `,"start":`...)
	b = appendString(b, t.Over.Start.String())
	b = append(b, `,"seconds":`...)
	b = appendNumber(b, t.Over.Seconds())
	b = append(b, `,"rows":[`...)
	for r, row := range t.Rows {
		if r > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		first := true
		name := func(n string) {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(appendString(b, n), ':')
		}
		for i, c := range t.Columns {
			if c.Name == "" {
				continue
			}
			name(c.Name)
			switch v := row.Cells[i]; v.Kind {
			case view.IsText:
				b = appendString(b, v.Text)
			case view.IsNull:
				b = append(b, "null"...)
			case view.IsBool:
				b = strconv.AppendBool(b, v.Num != 0)
			default:
				b = appendNumber(b, v.Num)
			}
		}
		if row.Mark != "" {
			name("remark")
			b = appendString(b, row.Mark)
		}
		b = append(b, '}')
	}
	b = append(b, `],"loss":`...)
	b = appendValue(b, orEmpty(t.Loss))
	b = append(b, `,"notes":`...)
	b = appendValue(b, orEmpty(t.Notes))
	return append(b, '}')
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func appendString(b []byte, s string) []byte { return appendValue(b, strings.ToValidUTF8(s, "\uFFFD")) }

func appendValue(b []byte, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, losses and lists of them always marshal
	}
	return append(b, j...)
}

func appendNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', 9, 64)
}

// comma prints CSV: a head, then a line a row; time is the interval's end, seconds its length.
type comma struct {
	out  io.Writer
	head bool
}

func (p *comma) table(t *view.Table) error {
	w := csv.NewWriter(p.out)
	if !p.head {
		head := []string{"time", "seconds"}
		for _, c := range t.Columns {
			if c.Name != "" {
				head = append(head, c.Name)
			}
		}
		if err := w.Write(head); err != nil {
			return err
		}
		p.head = true
	}
	for _, row := range t.Rows {
		line := []string{t.Over.End.String(), strconv.FormatFloat(t.Over.Seconds(), 'g', 9, 64)}
		for i, c := range t.Columns {
			if c.Name == "" {
				continue
			}
			switch v := row.Cells[i]; {
			case v.Kind == view.IsText:
				line = append(line, v.Text)
			case v.Kind == view.IsNull || v.Num != v.Num:
				line = append(line, "")
			case v.Kind == view.IsBool:
				line = append(line, strconv.FormatBool(v.Num != 0))
			default:
				line = append(line, string(appendNumber(nil, v.Num)))
			}
		}
		if err := w.Write(line); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func (p *comma) mean(*view.Table) error { return nil }

// asides prints notes and losses on stderr: each note once, each kind of loss when it first comes, and its sum at the end.
type asides struct {
	out  io.Writer
	said map[string]bool
	lost map[string]uint64 // events by reason, beyond what was said
	why  []string          // the reasons, in the order of their coming
}

func (a *asides) say(t *view.Table) {
	for _, n := range t.Notes {
		if !a.said[n] {
			a.said[n] = true
			fmt.Fprintln(a.out, "note:", view.Clean(n))
		}
	}
	for _, l := range t.Loss {
		if sum, ok := a.lost[l.Reason]; ok {
			a.lost[l.Reason] = sum + l.Events
			continue
		}
		a.lost[l.Reason] = 0
		a.why = append(a.why, l.Reason)
		fmt.Fprintf(a.out, "lost: %s%s\n", number(l.Events), view.Clean(l.Reason))
	}
}

// end says what was lost after it had been said for the first time.
func (a *asides) end() {
	for _, reason := range a.why {
		if n := a.lost[reason]; n > 0 {
			fmt.Fprintf(a.out, "lost since: %s%s\n", number(n), view.Clean(reason))
		}
	}
}

// number gives a number of events and a colon, nothing when it is not known.
func number(events uint64) string {
	if events == 0 {
		return ""
	}
	return fmt.Sprintf("%d: ", events)
}

// sorted orders the rows by a column, largest number or first text first; total rows stay where they are.
func sorted(t *view.Table, column int, reverse bool) {
	var at []int
	var rows []view.Row
	for i, r := range t.Rows {
		if !r.Total {
			at = append(at, i)
			rows = append(rows, r)
		}
	}
	less := func(a, b view.Cell) bool {
		if a.Kind == view.IsText && b.Kind == view.IsText {
			return view.Natural(a.Text, b.Text)
		}
		return a.Num > b.Num || a.Num == a.Num && b.Num != b.Num
	}
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := rows[i].Cells[column], rows[j].Cells[column]
		if reverse {
			return less(b, a)
		}
		return less(a, b)
	})
	for k, i := range at {
		t.Rows[i] = rows[k]
	}
}

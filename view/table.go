package view

import (
	"math"
	"path"
	"strconv"
	"strings"

	"culprit/measure"
)

// Cell is one value of a table: a number, NaN for unknown, or a text.
type Cell struct {
	Num  float64
	Text string
	Kind CellKind
}

// CellKind is the type of the value of a Cell.
type CellKind uint8

// The kinds of cells.
const (
	IsNumber CellKind = iota
	IsText
	IsBool // Num is 0 or 1
	IsJSON // a list in Text, as JSON; not shown on terminals
	IsNull // an unknown text: "-" on terminals, null in JSON
)

// N returns a number cell; NaN and infinities mean unknown.
func N(v float64) Cell {
	if math.IsInf(v, 0) {
		v = measure.NaN
	}
	return Cell{Num: v}
}

// T returns a text cell.
func T(s string) Cell { return Cell{Text: s, Kind: IsText} }

// TOrNull returns a text cell; unknown if the text is empty.
func TOrNull(s string) Cell {
	if s == "" {
		return Cell{Kind: IsNull}
	}
	return T(s)
}

// B returns a cell with a truth value.
func B(v bool) Cell {
	c := Cell{Kind: IsBool}
	if v {
		c.Num = 1
	}
	return c
}

// I returns a number cell for a label with a decimal number; unknown if the label has none.
func I(label string) Cell {
	v, err := strconv.ParseFloat(label, 64)
	if err != nil {
		return Cell{Kind: IsNull}
	}
	return N(v)
}

// Show is how a terminal formats the numbers of a column. JSON and CSV always have the number
// itself.
type Show uint8

// The formats. A terminal column is narrow, so its head has the unit.
const (
	Plain      Show = iota // unchanged
	Percent                // ratio x 100
	KiB                    // bytes / 1024, as nicstat, vmstat and iostat show them
	MiB                    // bytes / 1048576
	Mbit                   // bit/s / 10^6
	MbitOfB                // bytes/s as 10^6 bit/s
	Millis                 // nanoseconds as milliseconds
	Micros                 // nanoseconds as microseconds
	HumanBytes             // bytes with a binary prefix: 1.5G
	Millisec               // a ratio of time as ms per second
	Brief                  // nanoseconds with three digits and their unit: 1.25ms
	Kbit                   // bit/s / 10^3
	Gbit                   // bit/s / 10^9
	Tbit                   // bit/s / 10^12
)

// String returns the name of the format: plain, percent, kib ...
func (s Show) String() string {
	words := [...]string{
		"plain",
		"percent",
		"kib",
		"mib",
		"mbit",
		"mbit_of_b",
		"millis",
		"micros",
		"humane",
		"millisec",
		"brief",
		"kbit",
		"gbit",
		"tbit",
	}
	if int(s) < len(words) {
		return words[s]
	}
	return "?"
}

// Scaled returns the number in the unit of the format.
func (s Show) Scaled(v float64) float64 {
	switch s {
	case Percent:
		return v * 100
	case KiB:
		return v / 1024
	case MiB:
		return v / (1 << 20)
	case Mbit:
		return v / 1e6
	case MbitOfB:
		return v * 8 / 1e6
	case Kbit:
		return v / 1e3
	case Gbit:
		return v / 1e9
	case Tbit:
		return v / 1e12
	case Millis:
		return v / 1e6
	case Micros:
		return v / 1e3
	case Millisec:
		return v * 1e3
	}
	return v
}

// Column describes one column of a table.
type Column struct {
	Name     string // in JSON and CSV: snake_case with its unit; "": not in them
	Head     string // on a terminal; "": not shown
	Show     Show
	Decimals int
	Width    int  // minimum width on a terminal
	Left     bool // align left, for texts
	Cut      bool // a terminal cuts long texts
	MinWidth int  // minimum width of a terminal that shows the column; 0: always shown
	Help     string
}

// Unit returns the unit of the numbers, from the suffix of the name; "" for texts, IDs and plain
// numbers.
func (c Column) Unit() measure.Unit {
	if c.Show == Percent || c.Show == Millisec {
		return measure.Ratio
	}
	for _, u := range []struct {
		suffix string
		unit   measure.Unit
	}{
		{"bits_per_s", measure.BitsPerSec}, {"bytes_per_s", measure.Bytes.PerSecond()},
		{"per_s", measure.Count.PerSecond()},
		{"bytes", measure.Bytes}, {"ns", measure.Nanoseconds}, {"ratio", measure.Ratio},
	} {
		if c.Name == u.suffix || strings.HasSuffix(c.Name, "_"+u.suffix) {
			return u.unit
		}
	}
	return ""
}

// Row is one line of a table. Key identifies it in each interval.
type Row struct {
	Key     string
	Cells   []Cell
	Total   bool   // a sum or residual row: not sorted among the others
	Label   string // replaces the first cell on a terminal: "netns/device"; "": the cell itself
	Details string // lines below the row on a terminal, each ends with a line break
	Remark  string // behind the row on a terminal: "shares its MAC with eth1"
}

// Table is the result of a tool for one interval.
type Table struct {
	View string
	// Line above the table on a terminal, after the time; the rows then have no time.
	Title   string
	Totals  bool // the numbers of Title are sums over the whole time, not means
	Over    measure.Interval
	Columns []Column
	Rows    []Row
	Loss    []measure.Loss
	Notes   []string
}

// MatchAny reports whether one of the patterns (with * ? [..]) matches the name.
func MatchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, name); ok && err == nil {
			return true
		}
	}
	return false
}

// Column returns the index of the column with this name in JSON or head on a terminal; -1 if there
// is none.
func (t *Table) Column(name string) int {
	for i, c := range t.Columns {
		if c.Name == name {
			return i
		}
	}
	for i, c := range t.Columns {
		if c.Head == name {
			return i
		}
	}
	return -1
}

// Format returns the cell as a terminal shows it, "-" if unknown.
func (c Column) Format(v Cell) string { return string(c.Append(nil, v)) }

// Append appends the result of Format.
func (c *Column) Append(b []byte, v Cell) []byte {
	switch v.Kind {
	case IsText, IsJSON:
		return append(b, Clean(v.Text)...)
	case IsNull:
		return append(b, '-')
	case IsBool:
		if v.Num != 0 {
			return append(b, "yes"...)
		}
		return append(b, "no"...)
	}
	if v.Num != v.Num {
		return append(b, '-')
	}
	switch c.Show {
	case HumanBytes:
		return append(b, FormatBytes(v.Num)...)
	case Brief:
		return append(b, FormatNanos(v.Num)...)
	}
	if v.Num == 0 && !math.Signbit(v.Num) && c.Decimals >= 0 &&
		c.Decimals <= 2 { // the fast path for most cells
		return append(b, "0.00"[:[...]int{1, 3, 4}[c.Decimals]]...)
	}
	return strconv.AppendFloat(b, c.Show.Scaled(v.Num), 'f', c.Decimals, 64)
}

// Clean makes a text safe for a terminal: control characters and invalid UTF-8 become "?".
func Clean(s string) string { return measure.Clean(s) }

// FormatNanos formats nanoseconds with three digits and a unit: 834ns, 1.25us, 12.5ms, 3.41s.
func FormatNanos(nanos float64) string {
	units := []string{"ns", "us", "ms", "s"}
	nanos, i := measure.Prefix(nanos, 1000, 999.5, len(units)-1)
	d := 0
	switch {
	case i > 0 && nanos < 9.995:
		d = 2
	case i > 0 && nanos < 99.95:
		d = 1
	}
	return strconv.FormatFloat(nanos, 'f', d, 64) + units[i]
}

// FormatBytes formats bytes with a binary prefix in at most five characters: 512, 1.5K, 23.4M,
// 117G.
func FormatBytes(v float64) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	const prefixes = " KMGTPE"
	v, i := measure.Prefix(v, 1024, 999.5, len(prefixes)-1)
	if i == 0 {
		return sign + strconv.FormatFloat(v, 'f', 0, 64)
	}
	d := 1
	if v >= 99.95 {
		d = 0
	}
	return sign + strconv.FormatFloat(v, 'f', d, 64) + prefixes[i:i+1]
}

package profile

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// ColumnsType is the media type of a profile in columns. docs/FORMATS.md describes the format.
const ColumnsType = "application/vnd.culprit.profile"

const (
	columnsMagic   = "CLPF"
	columnsVersion = 1
	columnsHead    = 12     // bytes before the JSON header
	withBefore     = 1 << 0 // flag: a comparison, with a column of the totals before
	isOverview     = 1 << 1 // flag: an overview; function 0 also means a run of narrow calls
	withTimes      = 1 << 2 // flag: the moments of the timeline follow
	withLines      = 1 << 3 // flag: source lines follow
	functionBytes  = 13     // of a function's columns: module, file, line, kind
	nodeBytes      = 16     // of a node's: function, up, self; and 8 more in a comparison
	momentBytes    = 36     // of a moment's: thread, node, kept, at, for, amount
	lineRowBytes   = 24     // of a source line's: function, line, self, total
)

// columnsHeader is the JSON header of columns.
type columnsHeader struct {
	Unit      string   `json:"unit"`
	Share     bool     `json:"share"` // amounts are shares of the whole
	Samples   float64  `json:"samples"`
	Seconds   float64  `json:"seconds"`
	Depth     int      `json:"depth"`
	Nodes     int      `json:"nodes"`
	Functions int      `json:"functions"`
	Of        int      `json:"of,omitempty"`   // of an overview: nodes of the whole profile
	Norm      string   `json:"norm,omitempty"` // of a comparison: how amounts are normalised
	Notes     []string `json:"notes"`
	Names     []string `json:"names"`   // of functions
	Modules   []string `json:"modules"` // functions contain the index; [0] is ""
	Files     []string `json:"files"`   // as above

	Times *columnsTimes `json:"times,omitempty"`
	Lines int           `json:"lines,omitempty"` // number of source lines
	// Timed says of an overview that the whole profile has times.
	Timed bool `json:"timed,omitempty"`
}

// AppendColumns appends a profile in columns: nodes in depth-first order, callees sorted by name.
// Names are printable: without control characters, and shortened where very long. The error says
// that an amount is not a number.
func AppendColumns(b []byte, t *Tree) ([]byte, error) { return appendColumns(b, t, nil, 0) }

// AppendDiffColumns appends a comparison in columns: amounts are normalised, Self is after. The
// error is that of AppendColumns.
func AppendDiffColumns(b []byte, d *Diff) ([]byte, error) { return appendColumns(b, d.Tree, d, 0) }

// appendColumns appends a tree; a comparison when d is not nil; when of is not 0, an overview of a
// tree with that many nodes. An overview is already in order.
func appendColumns(b []byte, t *Tree, d *Diff, of int) ([]byte, error) {
	order, place := t.walk(of > 0)
	used := make([]uint32,
		len(t.Functions)) // index of each function in the output + 1; 0: not used
	var functions []uint32
	for _, n := range order {
		if f := t.Function[n]; used[f] == 0 {
			functions = append(functions, f)
			used[f] = uint32(len(functions))
		}
	}
	h := columnsHeader{Unit: t.Unit, Samples: t.Samples, Seconds: t.Seconds, Depth: t.Depth,
		Nodes: t.Len(), Functions: len(functions), Notes: t.Notes,
		Names: make([]string, len(functions))}
	flags := uint16(0)
	if d == nil {
		flags |= h.timesAndLines(t, of > 0)
	}
	if d != nil {
		flags |= withBefore
		h.Share, h.Norm = d.Norm.Per == "sample", d.NormText
	}
	if of > 0 {
		flags |= isOverview
		h.Of = of
	}
	modules, files := newWords(), newWords()
	var columns [2][]uint32
	for i, f := range functions {
		g := &t.Functions[f]
		h.Names[i] = clean(shortened(g.Name, maxName))
		columns[0], columns[1] = append(columns[0], modules.of(g.Module)), append(columns[1],
			files.of(g.File))
	}
	h.Modules, h.Files = modules.list, files.list
	if h.Notes == nil {
		h.Notes = []string{}
	}
	head, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("write a profile in columns: %w", err) // an amount is not a number
	}
	start := len(b)
	each := nodeBytes
	if d != nil {
		each += 8
	}
	b = slices.Grow(b, columnsHead+len(head)+24+len(functions)*functionBytes+len(order)*each+
		h.Times.len()*momentBytes+h.Lines*lineRowBytes)
	b = append(b, columnsMagic...)
	b = append(b, columnsVersion, 0)
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	b = append(b, head...)
	align := func() {
		for (len(b)-start)%8 != 0 {
			b = append(b, 0)
		}
	}
	align()
	for _, c := range columns {
		for _, v := range c {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
	}
	for _, f := range functions {
		b = binary.LittleEndian.AppendUint32(b, uint32(t.Functions[f].Line))
	}
	for _, f := range functions {
		b = append(b, byte(t.Functions[f].Kind))
	}
	align()
	for _, n := range order {
		b = binary.LittleEndian.AppendUint32(b, used[t.Function[n]]-1)
	}
	for i, n := range order {
		up := uint32(0)
		if n != 0 {
			up = uint32(i) - uint32(place[t.Parent[n]])
		}
		b = binary.LittleEndian.AppendUint32(b, up)
	}
	column := func(values []float64) {
		for _, n := range order {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(values[n]))
		}
	}
	column(t.Self)
	if d != nil {
		column(d.BeforeSelf)
	}
	if flags&withTimes != 0 {
		b = appendMoments(b, t.Times.Moments, place)
		align()
	}
	if flags&withLines != 0 {
		b = appendLineRows(b, t.Lines, used)
	}
	return b, nil
}

// walk returns the nodes in depth-first order, callees sorted by name, and the position of each
// node in that order.
func (t *Tree) walk(ordered bool) (order, place []int32) {
	place = make([]int32, t.Len())
	if ordered {
		order = make([]int32, 0, t.Len())
		for n := range place {
			order, place[n] = append(order, int32(n)), int32(n)
		}
		return order, place
	}
	order = t.walkOrder()
	for i, n := range order {
		place[n] = int32(i)
	}
	return order, place
}

// words assigns numbers to texts in order of appearance; "" is 0.
type words struct {
	list []string
	at   map[string]uint32
}

func newWords() *words { return &words{[]string{""}, map[string]uint32{"": 0}} }

func (w *words) of(text string) uint32 {
	n, ok := w.at[text]
	if !ok {
		n = uint32(len(w.list))
		w.at[text] = n
		w.list = append(w.list, clean(shortened(text, maxName)))
	}
	return n
}

// ParseColumns reads a profile in columns. It copies what it keeps of data. The error says where
// data are malformed, or that they contain a comparison or an overview.
func ParseColumns(data []byte) (*Tree, error) {
	broken := func(format string, args ...any) error {
		return fmt.Errorf("read a profile in columns: "+format, args...)
	}
	if len(data) < columnsHead || string(data[:4]) != columnsMagic {
		return nil, broken("it is none")
	}
	if flags := binary.LittleEndian.Uint16(data[6:]); data[4] != columnsVersion || data[5] != 0 ||
		flags&^(withTimes|withLines) != 0 {
		return nil, broken(
			"version %d, flags %#x: a comparison, a sketch, or made by a newer culprit", data[4],
			flags,
		)
	}
	length := uint64(binary.LittleEndian.Uint32(data[8:]))
	if length > uint64(len(data)-columnsHead) {
		return nil, broken("the header is cut off")
	}
	var h columnsHeader
	if err := json.Unmarshal(data[columnsHead:columnsHead+length], &h); err != nil {
		return nil, broken("header: %w", err)
	}
	rest := data[min(uint64(len(data)), (columnsHead+length+7)&^7):]
	if h.Nodes < 1 || h.Functions < 1 || len(h.Names) != h.Functions ||
		h.Nodes > len(rest)/nodeBytes ||
		h.Functions > len(rest)/functionBytes {
		return nil, broken("%d nodes of %d functions with %d names in %d bytes", h.Nodes,
			h.Functions, len(h.Names), len(rest))
	}
	want := (h.Functions*functionBytes+7)&^7 + h.Nodes*nodeBytes
	if len(rest) < want {
		return nil, broken("%d bytes of columns, want %d", len(rest), want)
	}
	rest, more := rest[:want], rest[want:]
	u32 := func() uint32 {
		v := binary.LittleEndian.Uint32(rest)
		rest = rest[4:]
		return v
	}
	t := &Tree{Functions: make([]Function, h.Functions), Unit: h.Unit, Samples: max(0, h.Samples),
		Seconds: max(0, h.Seconds), Notes: h.Notes}
	for i := range t.Functions {
		t.Functions[i].Name = h.Names[i]
	}
	for i, list := range [2][]string{h.Modules, h.Files} {
		for f := range t.Functions {
			n := u32()
			if uint64(n) >= uint64(len(list)) {
				return nil, broken("function %d names module or file %d of %d", f, n, len(list))
			}
			if i == 0 {
				t.Functions[f].Module = list[n]
			} else {
				t.Functions[f].File = list[n]
			}
		}
	}
	for f := range t.Functions {
		t.Functions[f].Line = int(int32(u32()))
	}
	for f := range t.Functions {
		if rest[f] > byte(Process) {
			return nil, broken("function %d is of kind %d", f, rest[f])
		}
		t.Functions[f].Kind = Kind(rest[f])
	}
	rest = rest[len(rest)-h.Nodes*nodeBytes:]
	t.Function, t.Parent, t.Self = make([]uint32, h.Nodes), make([]int32,
		h.Nodes), make([]float64, h.Nodes)
	for n := range t.Function {
		if t.Function[n] = u32(); uint64(t.Function[n]) >= uint64(h.Functions) ||
			(t.Function[n] == 0) != (n == 0) {
			return nil, broken("node %d names function %d of %d", n, t.Function[n], h.Functions)
		}
	}
	for n := range t.Parent {
		up := u32()
		if uint64(up) > uint64(n) || (up == 0) != (n == 0) {
			return nil, broken("the caller of node %d stands %d before it", n, up)
		}
		t.Parent[n] = int32(n) - int32(up)
	}
	t.Parent[0] = -1
	for n := range t.Self {
		v := math.Float64frombits(binary.LittleEndian.Uint64(rest[n*8:]))
		if !(v >= 0) || math.IsInf(v, 1) {
			return nil, broken("node %d has the amount %v", n, v)
		}
		t.Self[n] = v
	}
	t.sum()
	if err := h.parseMore(t, more); err != nil {
		return nil, broken("%w", err)
	}
	return t, nil
}

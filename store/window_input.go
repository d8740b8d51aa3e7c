package store

import (
	"slices"

	"culprit/measure"
)

// add adds the rows of a batch to the current tick. limit bounds the rows of the dataset in the
// tick, most those in the window.
func (w *window) add(p *part, b *measure.Batch, limit, most int) {
	if p.nextInput == len(p.inputs) {
		p.inputs = append(p.inputs, &input{})
	}
	in := p.inputs[p.nextInput]
	p.nextInput++
	t := &p.ticks[len(p.ticks)-1]
	for _, l := range b.Loss {
		p.addLoss(l)
	}
	for _, n := range b.Notes {
		p.note(n)
	}
	if b.Over.Span() <= 0 {
		p.failed = true
		return
	}
	p.looked = true
	t.elapsed = max(t.elapsed, b.Over.Span())
	in.plan(p.set, b)
	in.words = w.wordsOf(b.Labels)
	dists := p.set.desc.Stat.Kind == measure.Dists
	if !dists && in.sameKeys(b) && p.seen+len(in.rows) <= limit {
		for i, v := range b.Values {
			if v != v {
				v = unknown()
			}
			p.put(int(in.rows[i]), false, v)
		}
		in.noteMissingField(p)
		return
	}
	for i := range b.Rows() {
		from := b.Key(i)
		if len(in.terms) > 0 && !in.wants(from, b.Labels) {
			continue
		}
		row, fresh := in.row(w, p, b, i, from, limit, most)
		if row < 0 {
			continue
		}
		var v float64
		if dists {
			v = p.keepDist(row, fresh, &b.Dists[i])
		} else if v = b.Values[i]; v != v {
			v = unknown()
		}
		p.put(row, fresh, v)
	}
	in.trim()
	in.noteMissingField(p)
}

// input converts the batches of one source to rows of a part. It remembers the row of each key of
// the previous batch, because most keys come again in the same order.
type input struct {
	by      []string
	columns []int // per field of the dataset: its column in the batch; -1: the batch lacks it
	terms   []measure.Term
	at      []int
	missing string
	planned bool

	keys      []measure.Label // of the previous batch, row after row
	rows      []int32
	next      int             // the row of the previous batch that most likely comes next
	fresh     []measure.Label // of this batch
	freshRows []int32
	words     *labelWords     // of the batch's dictionary
	texts     []string        // of the previous batch's dictionary
	frames    []measure.Frame // of the previous batch
	nodes     []uint32        // of each of them: 1 + node
	chain     []int32
	key       []uint32
}

// extends reports whether long begins with the elements of short. Equal addresses suffice.
func extends[T comparable](short, long []T) bool {
	n := len(short)
	return n == 0 || len(long) >= n && (&long[0] == &short[0] || slices.Equal(long[:n], short))
}

func (in *input) plan(d *set, b *measure.Batch) {
	in.next, in.fresh, in.freshRows = 0, in.fresh[:0], in.freshRows[:0]
	// A dictionary is append-only; rarely a source starts a new one, and then the remembered rows
	// are wrong. Readers may keep a dictionary, so its content at one address never changes.
	if !extends(in.texts, b.Labels) {
		in.keys, in.rows = in.keys[:0], in.rows[:0]
	}
	in.texts = b.Labels
	// The same holds for frames.
	if !extends(in.frames, b.Frames) {
		in.keys, in.rows, in.nodes = in.keys[:0], in.rows[:0], in.nodes[:0]
	}
	in.frames = b.Frames
	if in.planned && slices.Equal(in.by, b.By) {
		return
	}
	in.planned, in.by, in.missing = true, slices.Clone(b.By), ""
	in.columns, in.terms, in.at = nil, nil, nil
	in.keys, in.rows = in.keys[:0], in.rows[:0]
	for _, f := range d.desc.Query.By {
		c := slices.Index(b.By, f)
		if c < 0 {
			in.missing = f
		}
		in.columns = append(in.columns, c)
	}
	for _, t := range d.desc.Query.Where {
		if c := slices.Index(b.By, t.Field); c >= 0 {
			in.terms, in.at = append(in.terms, t), append(in.at, c)
		} // otherwise the rows were filtered and folded before they came here
	}
	in.key = make([]uint32, len(in.columns))
}

// sameKeys reports whether a batch has the keys of the previous one, and all of them are rows.
func (in *input) sameKeys(b *measure.Batch) bool {
	return len(in.terms) == 0 && len(in.rows) == len(b.Values) && slices.Equal(in.keys, b.Keys)
}

func (in *input) noteMissingField(p *part) {
	if in.missing != "" {
		p.note(string(p.set.desc.Query.Stat) + " was measured without the field " + in.missing)
	}
}

func (in *input) wants(key []measure.Label, labels []string) bool {
	for i, t := range in.terms {
		if !t.Match(labels[key[in.at[i]]]) {
			return false
		}
	}
	return true
}

// row finds the row of a key of the batch; -1, and counted as lost, when it exceeds a limit.
func (in *input) row(
	w *window, p *part, b *measure.Batch, i int, from []measure.Label, limit, most int,
) (int, bool) {
	width := len(from)
	if n := in.next; n < len(in.rows) && slices.Equal(in.keys[n*width:(n+1)*width], from) {
		in.next++
		row := int(in.rows[n])
		if p.seen >= limit && p.state[row].seen != int32(len(p.ticks)-1) {
			p.rowsOverLimit++
			return -1, false
		}
		in.remember(from, row)
		return row, false
	}
	row, known := -1, true
	grow := p.seen < limit && p.rows.n < most // otherwise the words of a refused row would stay
	for j, c := range in.columns {
		ok := true
		switch {
		case c < 0:
			in.key[j] = w.words.of("")
		case p.set.stack[j]:
			in.key[j], ok = in.stack(w, p, b.Frames, from[c], grow)
		default:
			in.key[j], ok = in.word(w, b.Labels, from[c], grow)
		}
		known = known && ok
	}
	if known {
		row = p.rows.find(in.key)
	}
	if p.seen >= limit && (row < 0 || p.state[row].seen != int32(len(p.ticks)-1)) {
		p.rowsOverLimit++
		return -1, false
	}
	fresh := false
	if row < 0 && p.rows.n >= most {
		p.rowsOverMemory++
		return -1, false
	}
	if row < 0 {
		row, fresh = p.rows.row(in.key)
		p.extra += 4*len(in.key) + 8 + 96
	}
	in.remember(from, row)
	// The row after this one most likely follows again.
	for n := in.next; n < min(in.next+64, len(in.rows)); n++ {
		if int(in.rows[n]) == row {
			in.next = n + 1
			break
		}
	}
	return row, fresh
}

func (in *input) remember(from []measure.Label, row int) {
	in.fresh, in.freshRows = append(in.fresh, from...), append(in.freshRows, int32(row))
}

// trim makes the rows of this batch those that the next one is compared with.
func (in *input) trim() {
	in.keys, in.fresh = in.fresh, in.keys
	in.rows, in.freshRows = in.freshRows, in.rows
}

// labelWords maps the labels of a dictionary to words. The batches of a source share a dictionary,
// and so do all inputs: with 10,000 processes it has 100,000 labels, and a hundred datasets use it.
type labelWords struct {
	texts []string // of the labels
	words []uint32 // label -> 1 + word; 0: not looked up yet
	used  uint64   // frame of the window in which a batch last had it
}

// maxLabelWords limits the known dictionaries: there is one per source, and some sources start a
// new one each tick.
const maxLabelWords = 8

// wordsOf returns the words of a dictionary. A dictionary that grew since, or is older than the
// known one, is the same.
func (w *window) wordsOf(labels []string) *labelWords {
	if len(labels) == 0 {
		return &labelWords{}
	}
	oldest := 0
	for i, d := range w.labels {
		n := min(len(labels), len(d.texts))
		if &labels[0] == &d.texts[0] || slices.Equal(labels[:n], d.texts[:n]) {
			if d.used = w.last; len(labels) > n {
				d.texts = labels
			}
			return d
		}
		if d.used < w.labels[oldest].used {
			oldest = i
		}
	}
	d := &labelWords{texts: labels, used: w.last}
	if len(w.labels) < maxLabelWords {
		w.labels = append(w.labels, d)
	} else {
		w.labels[oldest] = d
	}
	return d
}

// word returns the word of a label; false when there is none and grow is false.
func (in *input) word(w *window, labels []string, l measure.Label, grow bool) (uint32, bool) {
	d := in.words
	if n := int(l) + 1 - len(d.words); n > 0 {
		d.words = append(d.words, make([]uint32, n)...)
	}
	if n := d.words[l]; n != 0 && w.words.texts[n-1] == labels[l] {
		return n - 1, true
	}
	n, ok := w.words.at[labels[l]]
	if !ok {
		if !grow {
			return 0, false
		}
		n = w.words.of(labels[l])
	}
	d.words[l] = n + 1
	return n, true
}

// stack returns the node of a chain of frames; false when there is none and grow is false.
func (in *input) stack(
	w *window, p *part, frames []measure.Frame, l measure.Label, grow bool,
) (uint32, bool) {
	if n := len(frames) - len(in.nodes); n > 0 {
		in.nodes = append(in.nodes, make([]uint32, n)...)
	}
	in.chain = in.chain[:0]
	parent := int32(-1)
	for at := int32(l); at >= 0 && int(at) < len(frames); at = frames[at].Parent {
		if len(in.chain) == maxStackDepth {
			break
		}
		if n := in.nodes[at]; n > 0 {
			parent = int32(n - 1)
			break
		}
		in.chain = append(in.chain, at)
	}
	for _, at := range slices.Backward(in.chain) {
		f := &frames[at]
		if !grow {
			symbol, known := w.words.at[f.Symbol]
			module, also := w.words.at[f.Module]
			n, there := p.stacks.find(node{parent, symbol, module, f.Offset})
			if !known || !also || !there {
				return 0, false
			}
			parent = int32(n)
			continue
		}
		n := p.stacks.of(node{parent, w.words.of(f.Symbol), w.words.of(f.Module), f.Offset})
		parent = int32(n)
		// otherwise the chain was cut and does not start at a root
		if len(in.chain) < maxStackDepth {
			in.nodes[at] = n + 1
		}
	}
	if parent < 0 { // an empty chain
		parent = int32(p.stacks.of(node{-1, w.words.of(""), w.words.of(""), 0}))
	}
	return uint32(parent), true
}

// maxStackDepth is the most frames of a stack that are stored, the innermost ones.
const maxStackDepth = 1024

package store

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
)

// keyTable contains the keys of a segment: for each field its sorted words, and for each row an
// index into each of these lists. Rows are sorted by their indices, so that similar rows are
// adjacent. A field of stacks has nodes in place of words, in the preorder of the sorted forest,
// which is the order of the stacks.
type keyTable struct {
	fields []fieldWords
	frames []string // symbols and modules of the nodes
	rows   int
	places []uint32 // row after row
}

type fieldWords struct {
	words []string
	nodes []node // words of these are indices into frames
}

// before orders words: numbers by value, then other words by their bytes.
func before(a, b string) int {
	na, nb := isNumber(a), isNumber(b)
	switch {
	case na && nb:
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	case na:
		return -1
	case nb:
		return 1
	}
	return strings.Compare(a, b)
}

// isNumber reports whether a word is a decimal number as Go prints it, of at most 18 digits.
func isNumber(s string) bool {
	if len(s) == 0 || len(s) > 18 || s[0] == '0' && len(s) > 1 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// source is a row of one of several blocks.
type source struct {
	block int32
	row   int32
}

// keySorter makes the key table of one block. All parts of a window share its words, so they are
// sorted once. The next call reuses its slices.
type keySorter struct {
	texts   []string // the sorted texts
	rank    []uint32 // of each of them: its position in the order
	places  []uint32 // of each of them: 1 + its index among the words of the current field
	used    []uint32 // words of the current field
	flat    []uint32
	rows    []int32
	sources []source
	from    [][]source
	table   keyTable
}

// forget drops references to blocks, and memory that few datasets need.
func (r *keySorter) forget() {
	const many = 1 << 16
	r.texts = nil
	for j := range r.table.fields {
		clear(r.table.fields[j].words)
	}
	if cap(r.flat) > many || cap(r.rank) > many {
		*r = keySorter{}
	}
}

// order sorts texts unless they are the ones that were sorted last.
func (r *keySorter) order(texts []string) {
	if len(texts) == len(r.texts) && (len(texts) == 0 || &texts[0] == &r.texts[0]) {
		return
	}
	r.texts = texts
	r.used = slices.Grow(r.used[:0], len(texts))[:len(texts)]
	for i := range r.used {
		r.used[i] = uint32(i)
	}
	slices.SortFunc(r.used, func(a, b uint32) int { return before(texts[a], texts[b]) })
	r.rank = slices.Grow(r.rank[:0], len(texts))[:len(texts)]
	for i, w := range r.used {
		r.rank[w] = uint32(i)
		// the fields of a segment have separate dictionaries, so a text may occur twice
		if i > 0 && texts[w] == texts[r.used[i-1]] {
			r.rank[w] = r.rank[r.used[i-1]]
		}
	}
	r.places = slices.Grow(r.places[:0], len(texts))[:len(texts)]
	clear(r.places)
}

// sortKeys is mergeKeys for one block without stacks.
func (r *keySorter) sortKeys(width int, b *block) (k *keyTable, from [][]source) {
	r.order(b.texts)
	k = &r.table
	k.fields = slices.Grow(k.fields[:0], width)[:width]
	r.flat = slices.Grow(r.flat[:0], b.rows*width)[:b.rows*width]
	for j := range width {
		r.used = r.used[:0]
		for i := range b.rows {
			if w := b.keys[i*width+j]; r.places[w] == 0 {
				r.places[w] = 1
				r.used = append(r.used, w)
			}
		}
		slices.SortFunc(r.used, func(a, b uint32) int { return cmp.Compare(r.rank[a], r.rank[b]) })
		words := k.fields[j].words[:0]
		for i, w := range r.used {
			if i == 0 || r.rank[w] != r.rank[r.used[i-1]] {
				words = append(words, b.texts[w])
			}
			r.places[w] = uint32(len(words))
		}
		k.fields[j] = fieldWords{words: words}
		for i := range b.rows {
			r.flat[i*width+j] = r.places[b.keys[i*width+j]] - 1
		}
		for _, w := range r.used {
			r.places[w] = 0
		}
	}
	key := func(row int32) []uint32 { return r.flat[int(row)*width : int(row+1)*width] }
	r.rows = slices.Grow(r.rows[:0], b.rows)[:b.rows]
	for i := range r.rows {
		r.rows[i] = int32(i)
	}
	slices.SortFunc(
		r.rows,
		func(a, b int32) int { return cmp.Or(slices.Compare(key(a), key(b)), cmp.Compare(a, b)) },
	)
	r.sources, r.from, k.places = slices.Grow(r.sources[:0], b.rows), r.from[:0], k.places[:0]
	for i, row := range r.rows {
		r.sources = append(r.sources, source{0, row})
		if i > 0 && slices.Equal(key(row), key(r.rows[i-1])) {
			last := r.from[len(r.from)-1]
			r.from[len(r.from)-1] = last[:len(last)+1]
			continue
		}
		r.from = append(r.from, r.sources[i:i+1])
		k.places = append(k.places, key(row)...)
	}
	k.rows = len(r.from)
	return k, r.from
}

// mergeKeys makes the key table of the rows of blocks. It also returns, for each row of the table,
// the rows of the blocks with that key.
func mergeKeys(stack []bool, blocks []*block) (k *keyTable, from [][]source) {
	width := len(stack)
	k = &keyTable{fields: make([]fieldWords, width)}
	places := make([][]placeMap, len(blocks)) // per block, per field, per word or node
	for i := range places {
		places[i] = make([]placeMap, width)
	}
	frames := wordsOf(blocks, func(b *block, each func(uint32)) {
		for _, n := range b.stacks {
			each(n.symbol)
			each(n.module)
		}
	})
	k.frames = frames.words
	for j := range width {
		if stack[j] {
			k.fields[j].nodes = mergeStacks(blocks, frames, func(b, n int, place uint32) {
				if places[b][j].at == nil {
					places[b][j].at = make([]uint32, len(blocks[b].stacks))
				}
				places[b][j].at[n] = place
			})
			continue
		}
		m := wordsOf(blocks, func(b *block, each func(uint32)) {
			for i := range b.rows {
				each(b.keys[i*width+j])
			}
		})
		k.fields[j].words = m.words
		for b := range blocks {
			places[b][j] = m.place[b]
		}
	}
	type entry struct {
		at   int // start of its indices in flat
		from source
	}
	rows := 0
	for _, bl := range blocks {
		rows += bl.rows
	}
	all, flat := make([]entry, 0, rows), make([]uint32, 0, rows*width)
	for b, bl := range blocks {
		for i := range bl.rows {
			all = append(all, entry{len(flat), source{int32(b), int32(i)}})
			for j, w := range bl.keys[i*width : (i+1)*width] {
				flat = append(flat, places[b][j].of(w))
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		if c := slices.Compare(flat[a.at:a.at+width], flat[b.at:b.at+width]); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(a.from.block, b.from.block), cmp.Compare(a.from.row, b.from.row))
	})
	sources := make([]source, len(all))
	from = make([][]source, 0, len(all))
	for i, e := range all {
		sources[i] = e.from
		key := flat[e.at : e.at+width]
		if i > 0 && slices.Equal(key, flat[all[i-1].at:all[i-1].at+width]) {
			last := from[len(from)-1]
			from[len(from)-1] = last[:len(last)+1]
			continue
		}
		from = append(from, sources[i:i+1])
		k.places = append(k.places, key...)
	}
	k.rows = len(from)
	return k, from
}

// wordMap contains the words that some blocks use, sorted, and the index of each word of each
// block.
type wordMap struct {
	words []string
	place []placeMap
}

// A placeMap maps a range of words or nodes: at[i] is the index of word first+i. The words of one
// field of a block are such a range.
type placeMap struct {
	first uint32
	at    []uint32
}

func (p *placeMap) of(w uint32) uint32 { return p.at[w-p.first] }

func wordsOf(blocks []*block, used func(b *block, each func(uint32))) wordMap {
	m := wordMap{place: make([]placeMap, len(blocks))}
	at := map[string]uint32{}
	for i, b := range blocks {
		low, high := uint32(math.MaxUint32), uint32(0)
		used(b, func(w uint32) { low, high = min(low, w), max(high, w) })
		if low > high {
			continue // it uses none
		}
		place := make([]uint32, high-low+1)
		m.place[i] = placeMap{low, place}
		used(b, func(w uint32) {
			p := &place[w-low]
			if *p != 0 {
				return
			}
			n, ok := at[b.texts[w]]
			if !ok {
				n = uint32(len(m.words))
				at[b.texts[w]] = n
				m.words = append(m.words, b.texts[w])
			}
			*p = n + 1
		})
	}
	order := make([]uint32, len(m.words))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return before(m.words[a], m.words[b]) })
	rank, sorted := make([]uint32, len(order)), make([]string, len(order))
	for i, o := range order {
		rank[o], sorted[i] = uint32(i), m.words[o]
	}
	m.words = sorted
	for _, p := range m.place {
		for w, n := range p.at {
			if n > 0 {
				p.at[w] = rank[n-1]
			}
		}
	}
	return m
}

// mergeStacks merges the nodes of blocks into one forest and numbers it in preorder, siblings
// sorted.
func mergeStacks(blocks []*block, frames wordMap, place func(block, n int, place uint32)) []node {
	var t trie
	ids := make([][]uint32, len(blocks))
	for b, bl := range blocks {
		ids[b] = make([]uint32, len(bl.stacks))
		for i, n := range bl.stacks {
			if n.parent >= 0 {
				n.parent = int32(ids[b][n.parent])
			}
			n.symbol, n.module = frames.place[b].of(n.symbol), frames.place[b].of(n.module)
			ids[b][i] = t.of(n)
		}
	}
	children := make([][]uint32, len(t.nodes)+1)
	for i, n := range t.nodes {
		children[n.parent+1] = append(children[n.parent+1], uint32(i))
	}
	rank := make([]uint32, len(t.nodes))
	var out []node
	type visit struct {
		node   uint32
		parent int32
	}
	var todo []visit
	push := func(list []uint32, parent int32) {
		slices.SortFunc(list, func(a, b uint32) int {
			x, y := t.nodes[a], t.nodes[b]
			return -cmp.Or(
				cmp.Compare(x.symbol, y.symbol), cmp.Compare(x.module, y.module),
				cmp.Compare(x.offset, y.offset),
			)
		})
		for _, c := range list {
			todo = append(todo, visit{c, parent})
		}
	}
	push(children[0], -1)
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n := t.nodes[v.node]
		n.parent = v.parent
		rank[v.node] = uint32(len(out))
		out = append(out, n)
		push(children[v.node+1], int32(rank[v.node]))
	}
	for b := range ids {
		for i, id := range ids[b] {
			place(b, i, rank[id])
		}
	}
	return out
}

// append appends the stored form:
//
//	uvarint rows, uvarint fields, words of the frames, then per field:
//	u8 1: nodes: uvarint count, { uvarint distance to the parent, 0 at a root;
//	uvarint symbol, module, offset }
//	u8 0: words
//	{ varint index - index of the previous row }
func (k *keyTable) append(b []byte) []byte {
	b = appendUvarint(b, uint64(k.rows))
	b = appendUvarint(b, uint64(len(k.fields)))
	b = appendWords(b, k.frames)
	for j, f := range k.fields {
		if f.nodes != nil {
			b = append(b, 1)
			b = appendUvarint(b, uint64(len(f.nodes)))
			for i, n := range f.nodes {
				up := uint64(0)
				if n.parent >= 0 {
					up = uint64(i - int(n.parent))
				}
				b = appendUvarint(b, up)
				b = appendUvarint(b, uint64(n.symbol))
				b = appendUvarint(b, uint64(n.module))
				b = appendUvarint(b, n.offset)
			}
		} else {
			b = append(b, 0)
			b = appendWords(b, f.words)
		}
		last := int64(0)
		for i := range k.rows {
			p := int64(k.places[i*len(k.fields)+j])
			b = binary.AppendVarint(b, p-last)
			last = p
		}
	}
	return b
}

// appendWords appends sorted words: numbers as differences, other words without the prefix that
// they share with the previous one.
//
//	uvarint numbers, { uvarint number - previous },
//	uvarint others, { uvarint shared bytes, text of the rest }
func appendWords(b []byte, words []string) []byte {
	numbers := 0
	for numbers < len(words) && isNumber(words[numbers]) {
		numbers++
	}
	b = appendUvarint(b, uint64(numbers))
	last := uint64(0)
	for _, w := range words[:numbers] {
		n, _ := strconv.ParseUint(w, 10, 64) // isNumber has checked it
		b = appendUvarint(b, n-last)
		last = n
	}
	b = appendUvarint(b, uint64(len(words)-numbers))
	old := ""
	for _, w := range words[numbers:] {
		n := 0
		for n < len(w) && n < len(old) && w[n] == old[n] {
			n++
		}
		b = appendUvarint(b, uint64(n))
		b = appendText(b, w[n:])
		old = w
	}
	return b
}

func readWords(r *reader) []string {
	n := r.count()
	out := make([]string, 0, min(n, 1<<16))
	last := uint64(0)
	for range n {
		last += r.uvarint()
		out = append(out, strconv.FormatUint(last, 10))
	}
	old := ""
	total := 0
	for range r.count() {
		shared := r.uvarint()
		rest := r.bytes(r.uvarint())
		if shared > uint64(len(old)) {
			r.fail()
		}
		// Shared prefixes let few bytes expand to many.
		if total += int(min(shared, 1<<20)) + len(rest); r.err != nil || total > maxGroup {
			r.fail()
			break
		}
		old = old[:shared] + string(rest)
		out = append(out, old)
	}
	return out
}

// readKeys reads a stored key table into the keys of a block.
func readKeys(r *reader, stack []bool, b *block) {
	rows, width := r.count(), int(r.uvarint())
	if width == 0 {
		rows = b2i(rows > 0) // a statistic without fields has one row
	}
	frames := readWords(r)
	if r.err != nil || width != len(stack) {
		r.fail()
		return
	}
	b.rows = rows
	b.texts = frames
	b.keys = make([]uint32, rows*width)
	for j := range width {
		isStack := r.byte() == 1
		if isStack != stack[j] {
			r.fail()
			return
		}
		base, count := len(b.texts), 0
		if isStack {
			base = len(b.stacks)
			count = r.count()
			b.stacks = slices.Grow(b.stacks, min(count, len(r.b)/nodeLeast))
			rest := r.b
			for i := range count {
				var up, symbol, module uint64
				n := node{parent: -1}
				up, rest = next(rest)
				symbol, rest = next(rest)
				module, rest = next(rest)
				n.offset, rest = next(rest)
				n.symbol, n.module = uint32(symbol), uint32(module)
				if rest == nil || up > uint64(i) || int(n.symbol) >= len(frames) ||
					int(n.module) >= len(frames) {
					r.fail()
					return
				}
				if up > 0 {
					n.parent = int32(base + i - int(up))
				}
				b.stacks = append(b.stacks, n)
			}
			r.b = rest
		} else {
			b.texts = append(b.texts, readWords(r)...)
			count = len(b.texts) - base
		}
		last, rest, v := int64(0), r.b, uint64(0)
		for i := range rows {
			v, rest = next(rest)
			last += unzigzag(v)
			if rest == nil || last < 0 || last >= int64(count) {
				r.fail()
				return
			}
			b.keys[i*width+j] = uint32(base) + uint32(last)
		}
		r.b = rest
	}
}

// nodeLeast is the smallest size of a stored node in bytes.
const nodeLeast = 4

package view

import "culprit/measure"

// words gives each word a number, so that rows are told apart by numbers and not by joined texts.
// The zero value is ready.
type words struct {
	index map[string]measure.Label
	texts []string
	same  []sameWord // by label of the dictionaries seen
	first *string    // of the dictionary seen last: where it lies
	turn  uint32     // counts how often that became another
}

// sameWord is the number of the word that a label stood for when it was last looked up.
type sameWord struct {
	n    measure.Label // 1 + the number; 0 it never was
	turn uint32        // when its text was last looked at; 0 it never was
}

// of gives the number of a label of the dictionary. Answers of one source share a dictionary that
// only grows (but for rare times when another takes its place), so in the same memory a label stays
// the same word. In other memory the number found before is nearly always right, and a comparison
// of two equal strings shows it.
func (w *words) of(labels []string, l measure.Label) measure.Label {
	w.seen(labels)
	if int(l) < len(w.same) && w.same[l].turn == w.turn {
		return w.same[l].n - 1
	}
	return w.look(labels, l)
}

// seen says whether the dictionary lies where the one before lay, so that its labels are the same
// words.
func (w *words) seen(labels []string) bool {
	if len(labels) == 0 || &labels[0] == w.first {
		return len(labels) > 0
	}
	w.first = &labels[0]
	if w.turn++; w.turn == 0 { // after four thousand million: no entry may be taken for one of now
		clear(w.same)
		w.turn = 1
	}
	return false
}

// look is of for a label that was not looked at in this memory yet.
func (w *words) look(labels []string, l measure.Label) measure.Label {
	if int(l) >= len(w.same) {
		w.same = append(w.same, make([]sameWord, int(l)+1-len(w.same))...)
	}
	s := &w.same[l]
	if s.n == 0 || w.texts[s.n-1] != labels[l] {
		s.n = w.word(labels[l]) + 1
	}
	s.turn = w.turn
	return s.n - 1
}

func (w *words) word(text string) measure.Label {
	n, ok := w.index[text]
	if !ok {
		if w.index == nil {
			w.index = map[string]measure.Label{}
		}
		n = measure.Label(len(w.texts))
		w.index[text] = n
		w.texts = append(w.texts, text)
	}
	return n
}

// text gives the text that b spells; what has been asked before is not made again, unless there are
// many words.
func (w *words) text(b []byte) string {
	if n, ok := w.index[string(b)]; ok {
		return w.texts[n]
	}
	if len(w.texts) >= mostWords {
		return string(b)
	}
	return w.texts[w.word(string(b))]
}

// keys numbers distinct tuples of words from 0. slots is a power of two long and at least half
// empty; a slot holds 1 + a number, or 0.
type keys struct {
	width int
	n     int
	flat  []measure.Label
	slots []int32
	last  int // found last: rows mostly come in the order in which they came before
}

func (k *keys) key(
	i int,
) []measure.Label {
	return k.flat[i*k.width : (i+1)*k.width : (i+1)*k.width]
}

func (k *keys) same(i int, key []measure.Label) bool {
	for j, l := range k.flat[i*k.width : (i+1)*k.width] {
		if l != key[j] {
			return false
		}
	}
	return true
}

func hash(key []measure.Label) uint64 {
	h := uint64(14695981039346656037) // FNV-1a, by words
	for _, l := range key {
		h = (h ^ uint64(l)) * 1099511628211
	}
	h ^= h >> 32 // it mixes upwards only
	return h * 0x9e3779b97f4a7c15 >> 24
}

// find gives the number of a key, or -1.
func (k *keys) find(key []measure.Label) int {
	if k.n == 0 {
		return -1
	}
	next := k.last + 1
	if next >= k.n {
		next = 0
	}
	if k.same(next, key) {
		k.last = next
		return next
	}
	for at := hash(key); ; at++ {
		switch s := k.slots[at&uint64(len(k.slots)-1)]; {
		case s == 0:
			return -1
		case k.same(int(s-1), key):
			k.last = int(s - 1)
			return k.last
		}
	}
}

// number gives the number of a key, a new one to a new key.
func (k *keys) number(key []measure.Label) int {
	if i := k.find(key); i >= 0 {
		return i
	}
	if 2*(k.n+1) > len(k.slots) {
		k.slots = make([]int32, max(16, 2*len(k.slots)))
		for i := range k.n {
			k.put(i)
		}
	}
	k.flat = append(k.flat, key...)
	k.n++
	k.last = k.n - 1
	k.put(k.last)
	return k.last
}

// cut forgets the keys from n on.
func (k *keys) cut(n int) {
	k.n, k.last, k.flat = n, 0, k.flat[:n*k.width]
	clear(k.slots)
	for i := range n {
		k.put(i)
	}
}

func (k *keys) put(i int) {
	at := hash(k.key(i))
	for ; k.slots[at&uint64(len(k.slots)-1)] != 0; at++ {
	}
	k.slots[at&uint64(len(k.slots)-1)] = int32(i + 1)
}

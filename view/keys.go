package view

import "culprit/measure"

// words numbers texts, so that rows are compared by numbers. The zero value is ready to use.
type words struct {
	index      map[string]measure.Label
	texts      []string
	byLabel    []labelNumber // per label of the dictionaries
	first      *string       // where the newest dictionary is in memory
	generation uint32        // number of times that the dictionary moved
}

// labelNumber is the number of the text that a label had when it was last looked up.
type labelNumber struct {
	n    measure.Label // 1 + the number; 0: never looked up
	turn uint32        // generation of the last look-up; 0: never
}

// numberOf returns the number of a label of a dictionary. Answers of one source share a dictionary
// that only grows, and is rarely replaced. So at the same address a label keeps its text. At
// another address the number found before is nearly always right, and a comparison of two equal
// strings confirms it.
func (w *words) numberOf(labels []string, l measure.Label) measure.Label {
	w.sameMemory(labels)
	if int(l) < len(w.byLabel) && w.byLabel[l].turn == w.generation {
		return w.byLabel[l].n - 1
	}
	return w.lookUp(labels, l)
}

// sameMemory reports whether the dictionary is at the address of the one before, so that labels
// keep their texts.
func (w *words) sameMemory(labels []string) bool {
	if len(labels) == 0 || &labels[0] == w.first {
		return len(labels) > 0
	}
	w.first = &labels[0]
	if w.generation++; w.generation == 0 { // it overflowed: no old entry may match
		clear(w.byLabel)
		w.generation = 1
	}
	return false
}

// lookUp is numberOf for a label that was not looked up at this address yet.
func (w *words) lookUp(labels []string, l measure.Label) measure.Label {
	if int(l) >= len(w.byLabel) {
		w.byLabel = append(w.byLabel, make([]labelNumber, int(l)+1-len(w.byLabel))...)
	}
	s := &w.byLabel[l]
	if s.n == 0 || w.texts[s.n-1] != labels[l] {
		s.n = w.add(labels[l]) + 1
	}
	s.turn = w.generation
	return s.n - 1
}

// add returns the number of a text, a new one for a new text.
func (w *words) add(text string) measure.Label {
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

// intern returns b as a string. It allocates only for new texts, unless there are maxWords of them.
func (w *words) intern(b []byte) string {
	if n, ok := w.index[string(b)]; ok {
		return w.texts[n]
	}
	if len(w.texts) >= maxWords {
		return string(b)
	}
	return w.texts[w.add(string(b))]
}

// keys numbers distinct tuples of words from 0. slots has a power of two as length and is at least
// half empty. A slot holds 1 + a number, or 0.
type keys struct {
	width int
	n     int
	flat  []measure.Label
	slots []int32
	last  int // number that find returned last: the next key mostly follows it
}

// key returns the key of a number.
func (k *keys) key(i int) []measure.Label {
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
	h := uint64(14695981039346656037) // FNV-1a, per label
	for _, l := range key {
		h = (h ^ uint64(l)) * 1099511628211
	}
	h ^= h >> 32 // FNV-1a mixes only towards higher bits
	return h * 0x9e3779b97f4a7c15 >> 24
}

// find returns the number of a key; -1 if it has none.
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

// number returns the number of a key, a new one for a new key.
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

// cut deletes the keys from n on.
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

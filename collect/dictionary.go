package collect

import (
	"culprit/measure"
)

// Dictionary gives each word a number. It is shared by all batches of a run and made anew when most of it has fallen out of use.
type Dictionary struct {
	index map[string]measure.Label
	words []string
	epoch int
	limit int
	fresh bool // made anew at the last tick: learn the limit from it
}

const fewWords = 1 << 16 // below this a dictionary is never made anew: 2 to 4 MB

// NewDictionary returns an empty dictionary.
func NewDictionary() *Dictionary {
	return &Dictionary{index: map[string]measure.Label{}, limit: fewWords}
}

// StartTick drops all words when they have grown past the limit; the limit then follows what one tick really uses.
func (d *Dictionary) StartTick() {
	if d.fresh {
		d.fresh, d.limit = false, max(fewWords, 4*len(d.words))
	}
	if len(d.words) <= d.limit {
		return
	}
	d.Reset()
}

// Reset drops all words, so that labels made before are void.
func (d *Dictionary) Reset() {
	d.index, d.words = make(map[string]measure.Label, 1<<12), make([]string, 0, 1<<12)
	d.fresh = true
	d.epoch++
}

// Word returns the word of a label.
func (d *Dictionary) Word(l measure.Label) string { return d.words[l] }

// Label returns the label of a word, a new one for a new word.
func (d *Dictionary) Label(w string) measure.Label {
	if l, ok := d.index[w]; ok {
		return l
	}
	return d.add(w)
}

// LabelBytes is Label for bytes that the caller changes later.
func (d *Dictionary) LabelBytes(w []byte) measure.Label {
	if l, ok := d.index[string(w)]; ok {
		return l
	}
	return d.add(string(w))
}

func (d *Dictionary) add(w string) measure.Label {
	l := measure.Label(len(d.words))
	d.index[w] = l
	d.words = append(d.words, w)
	return l
}

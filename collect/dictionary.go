package collect

import (
	"culprit/measure"
)

// dictionary gives each word a number. It is shared by all batches of a run and made anew when most of it has fallen out of use.
type dictionary struct {
	index map[string]measure.Label
	words []string
	epoch int
	limit int
	fresh bool // made anew at the last tick: learn the limit from it
}

const fewWords = 1 << 16 // below this a dictionary is never made anew: 2 to 4 MB

func newDictionary() *dictionary {
	return &dictionary{index: map[string]measure.Label{}, limit: fewWords}
}

// startTick drops all words when they have grown past the limit; the limit then follows what one tick really uses.
func (d *dictionary) startTick() {
	if d.fresh {
		d.fresh, d.limit = false, max(fewWords, 4*len(d.words))
	}
	if len(d.words) <= d.limit {
		return
	}
	d.reset()
}

// reset drops all words, so that labels made before are void.
func (d *dictionary) reset() {
	d.index, d.words = make(map[string]measure.Label, 1<<12), make([]string, 0, 1<<12)
	d.fresh = true
	d.epoch++
}

// word returns the word of a label.
func (d *dictionary) word(l measure.Label) string { return d.words[l] }

func (d *dictionary) label(w string) measure.Label {
	if l, ok := d.index[w]; ok {
		return l
	}
	return d.add(w)
}

func (d *dictionary) labelBytes(w []byte) measure.Label {
	if l, ok := d.index[string(w)]; ok {
		return l
	}
	return d.add(string(w))
}

func (d *dictionary) add(w string) measure.Label {
	l := measure.Label(len(d.words))
	d.index[w] = l
	d.words = append(d.words, w)
	return l
}

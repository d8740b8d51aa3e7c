package dataset

import (
	"slices"

	"culprit/measure"
)

// forest contains the stacks of a window: labels of fields that are stacks are indices into all.
type forest struct {
	all  []measure.Frame
	at   map[measure.Frame]measure.Label
	from []measure.Frame // the answers' frames that same applies to
	same []measure.Label // frame of the answers -> frame of the window
}

// ours returns the window's frame for one of an answer's.
func (f *forest) ours(frames []measure.Frame, at measure.Label) measure.Label {
	n := len(f.from)
	extends := n == 0 || len(frames) >= n &&
		(&frames[0] == &f.from[0] || slices.Equal(frames[:n], f.from))
	if !extends { // another dictionary
		f.same = f.same[:0]
	}
	f.from = frames
	if int(at) >= len(frames) {
		at, frames = 0, []measure.Frame{{Parent: -1}} // the empty stack
	}
	for int(at) >= len(f.same) {
		f.same = append(f.same, noLabel)
	}
	if f.same[at] != noLabel {
		return f.same[at]
	}
	// Callers first: they have smaller indices, or none.
	one := frames[at]
	if one.Parent >= 0 && int(one.Parent) < int(at) {
		one.Parent = int32(f.ours(frames, measure.Label(one.Parent)))
	} else {
		one.Parent = -1
	}
	own, ok := f.at[one]
	if !ok {
		if f.at == nil {
			f.at = map[measure.Frame]measure.Label{}
		}
		own = measure.Label(len(f.all))
		f.at[one] = own
		f.all = append(f.all, one)
	}
	f.same[at] = own
	return own
}

// ours returns a key of an answer in the window's labels, valid until the next call.
func (w *Window) ours(a *measure.Answer, key []measure.Label) []measure.Label {
	same := w.labelMap(a.Labels)
	w.key = w.key[:0]
	for i, l := range key {
		if i < len(a.Stacks) && a.Stacks[i] {
			w.key = append(w.key, w.stack.ours(a.Frames, l))
			continue
		}
		if same[l] == noLabel {
			same[l] = w.word(a.Labels[l])
		}
		w.key = append(w.key, same[l])
	}
	return w.key
}

// labelMap maps the labels of a dictionary.
type labelMap struct {
	from []string        // the dictionary as last seen; it is append-only, or replaced
	same []measure.Label // per label of from the window's, or noLabel until it is needed
}

// maxLabelMaps is one per source that is recorded at a time, and some.
const maxLabelMaps = 4

// labelMap returns the map of a dictionary, with an element per label. w.mu is held.
func (w *Window) labelMap(labels []string) []measure.Label {
	if len(labels) == 0 {
		return nil
	}
	if f := &w.labelMaps[0]; len(f.from) == len(labels) && &f.from[0] == &labels[0] {
		return f.same
	}
	grown := func(same func(from []string) bool) int {
		return slices.IndexFunc(w.labelMaps[:], func(f labelMap) bool {
			return len(f.from) > 0 && len(f.from) <= len(labels) && same(f.from)
		})
	}
	at := grown(func(from []string) bool { return &from[0] == &labels[0] })
	if at < 0 { // a dictionary that has moved in memory is compared once
		at = grown(func(from []string) bool { return slices.Equal(from, labels[:len(from)]) })
	}
	var f labelMap
	if at >= 0 {
		f = w.labelMaps[at]
	} else {
		at = maxLabelMaps - 1
	}
	f.same = slices.Grow(f.same, len(labels)-len(f.from))
	for len(f.same) < len(labels) {
		f.same = append(f.same, noLabel)
	}
	f.from = labels
	copy(w.labelMaps[1:], w.labelMaps[:at])
	w.labelMaps[0] = f
	return f.same
}

const noLabel = ^measure.Label(0)

func (w *Window) word(s string) measure.Label {
	l, ok := w.words[s]
	if !ok {
		l = measure.Label(len(w.texts))
		w.words[s] = l
		w.texts = append(w.texts, s)
	}
	return l
}

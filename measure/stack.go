package measure

import (
	"slices"
	"strings"
)

// The statistics of which a recorded profile consists.
const (
	StackSamples StatID = "cpu.stack.samples" // by process, pid, cpu, kernel and user
	StackRate    StatID = "cpu.stack.rate"    // by cpu: samples expected per second
)

// FoldedStack returns the stack that ends in frame at: its function names from the outermost to the
// innermost, separated by semicolons, the format of flame graph tools. A semicolon in a name
// becomes a colon. The result is "" for a frame that does not exist and for the empty stack.
func FoldedStack(frames []Frame, at Label) string {
	return foldedStack(frames, at, nil)
}

// foldedStack is FoldedStack with names returned by name; nil: function names.
func foldedStack(frames []Frame, at Label, name func(*Frame) string) string {
	var names []string
	n := int64(len(frames))
	// A corrupt chain may be a circle: it has at most as many names as there are frames.
	for i := int64(at); i >= 0 && i < n && len(names) <= len(frames); i = int64(frames[i].Parent) {
		text := frames[i].Symbol
		if name != nil && text != "" {
			text = name(&frames[i])
		}
		if text != "" {
			names = append(names, strings.ReplaceAll(text, ";", ":"))
		}
	}
	slices.Reverse(names)
	return strings.Join(names, ";")
}

// StacksAsText returns the answer with each stack replaced by its folded text, for readers that
// show rows and draw no stacks. name returns the text of a frame; nil: function names. An answer
// without stacks is returned unchanged. Otherwise the series are copies that share their values.
func (a *Answer) StacksAsText(name func(*Frame) string) *Answer {
	if !slices.Contains(a.Stacks, true) {
		return a
	}
	out := *a
	out.Stacks, out.Frames = nil, nil
	out.SetColumn(nil, 0)
	out.Labels = slices.Clone(a.Labels)
	texts := map[Label]Label{}
	out.Series = slices.Clone(a.Series)
	for i := range out.Series {
		s := &out.Series[i]
		s.Key = slices.Clone(s.Key)
		for k, l := range s.Key {
			if !a.Stacks[k] {
				continue
			}
			w, ok := texts[l]
			if !ok {
				w = Label(len(out.Labels))
				texts[l] = w
				out.Labels = append(out.Labels, foldedStack(a.Frames, l, name))
			}
			s.Key[k] = w
		}
	}
	return &out
}

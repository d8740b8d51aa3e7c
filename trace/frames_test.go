package trace

import "testing"

// A source drops its frames at mostFrames, unless rows that refer to them are still to be read.
func TestFramesAreBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames int
		rows   map[string]tapped
		fresh  bool
	}{
		{"below the bound", mostFrames - 1, nil, false},
		{"at the bound", mostFrames, nil, true},
		{"at the bound, a row is to be read", mostFrames, map[string]tapped{"": {}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := newFrames()
			before.links = make([]link, c.frames)
			s := &Session{
				stacks: stackReader{frames: before},
				aggs:   aggregates{all: []*Aggregate{{taps: []*tap{{rows: c.rows}}}}},
			}
			s.trimFrames()
			if fresh := s.stacks.frames != before; fresh != c.fresh {
				t.Errorf("others were begun: %v, want %v", fresh, c.fresh)
			}
		})
	}
}

package profile

import (
	"fmt"
	"io"
	"math"
	"path"
	"strings"
)

// A v8Profile is a .cpuprofile of Node.js or Chromium: a tree of calls, and the current node at
// each sample.
//
// Source: Profiler.Profile of the Chrome DevTools Protocol. Times are microseconds.
type v8Profile struct {
	Nodes   []v8Node  `json:"nodes"`
	Head    *v8Old    `json:"head"` // instead of nodes, of old versions
	Samples []int64   `json:"samples"`
	Deltas  []float64 `json:"timeDeltas"`
	Start   float64   `json:"startTime"`
	End     float64   `json:"endTime"`
}

type v8Node struct {
	ID       int64   `json:"id"`
	Call     v8Call  `json:"callFrame"`
	Hits     float64 `json:"hitCount"`
	Children []int64 `json:"children"`
	Parent   int64   `json:"parent"` // instead of children, in pieces of DevTools
}

type v8Call struct {
	Name string `json:"functionName"`
	URL  string `json:"url"`
	Line int    `json:"lineNumber"` // from 0, in nodes
}

type v8Old struct {
	v8Call
	ID       int64   `json:"id"`
	Hits     float64 `json:"hitCount"`
	Children []v8Old `json:"children"`
}

// flat returns the tree of an old version as a list.
func (o *v8Old) flat() []v8Node {
	var nodes []v8Node
	todo := []*v8Old{o}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n := v8Node{ID: at.ID, Call: at.v8Call, Hits: at.Hits}
		n.Call.Line--
		for i := range at.Children {
			n.Children = append(n.Children, at.Children[i].ID)
			todo = append(todo, &at.Children[i])
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func readV8(r io.Reader, o Options) (*Tree, error) {
	var p v8Profile
	if err := decodeJSON(r, o.meter, ".cpuprofile", &p); err != nil {
		return nil, err
	}
	if p.Head != nil && len(p.Nodes) == 0 {
		p.Nodes = p.Head.flat()
	}
	return p.tree(o)
}

// tree returns the calls. An amount is the time from a sample to the next, or the number of samples
// when there are no times.
func (p *v8Profile) tree(o Options) (*Tree, error) {
	o.meter.add(len(p.Nodes) * (jsonEntry + 64)) // the maps and lists of this function
	place := make(map[int64]int, len(p.Nodes))
	for i := range p.Nodes {
		if _, twice := place[p.Nodes[i].ID]; twice {
			return nil, &ParseError{
				What: fmt.Sprintf(".cpuprofile: two nodes have the number %d", p.Nodes[i].ID),
			}
		}
		place[p.Nodes[i].ID] = i
	}
	amounts := make([]float64, len(p.Nodes))
	timed := len(p.Samples) > 0 && len(p.Deltas) == len(p.Samples)
	samples, lost, lostAmount := 0.0, 0, 0.0
	timer := o.timer(false)
	if timed {
		at := p.Start
		for i, id := range p.Samples {
			at += p.Deltas[i]
			until := p.End
			if i+1 < len(p.Deltas) {
				until = at + p.Deltas[i+1]
			}
			samples++
			d := (until - at) * 1000
			if !(d > 0) || math.IsInf(d, 1) { // below 0 for samples out of order
				continue
			}
			if n, ok := place[id]; ok {
				amounts[n] += d
				timer.add(Moment{Node: int32(n), Kept: -1, At: at * 1000, For: d, Amount: d})
			} else {
				lost, lostAmount = lost+1, lostAmount+d
				timer.add(Moment{
					Node: int32(len(p.Nodes)), Kept: -1, At: at * 1000, For: d, Amount: d,
				})
			}
		}
	} else {
		for i := range p.Nodes {
			if h := p.Nodes[i].Hits; h > 0 && !math.IsInf(h, 1) {
				amounts[i], samples = h, samples+h
			}
		}
	}
	parent := make([]int, len(p.Nodes)) // index + 1; 0: none
	for i := range p.Nodes {
		for _, c := range p.Nodes[i].Children {
			n, ok := place[c]
			if !ok { // missing in the file
				continue
			}
			if parent[n] != 0 || n == i {
				return nil, &ParseError{
					What: fmt.Sprintf(".cpuprofile: node %d calls node %d, which has a caller",
						p.Nodes[i].ID, c),
				}
			}
			parent[n] = i + 1
		}
	}
	b := o.builder()
	calls := make([]Call, len(p.Nodes))
	done := make([]bool, len(p.Nodes))
	reached := 0
	for root := range p.Nodes {
		if parent[root] != 0 {
			continue
		}
		if c := &p.Nodes[root].Call; c.Name != "(root)" { // (root) is the root already
			calls[root] = b.Child(Call{}, c.function(b))
		}
		todo := []int{root}
		for len(todo) > 0 {
			n := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			done[n] = true
			reached++
			b.Add(calls[n].Node, amounts[n])
			for _, c := range p.Nodes[n].Children {
				i, ok := place[c]
				if !ok {
					continue
				}
				calls[i] = b.Child(calls[n], p.Nodes[i].Call.function(b))
				todo = append(todo, i)
			}
		}
	}
	if reached < len(p.Nodes) {
		return nil, &ParseError{What: ".cpuprofile: nodes call one another in a circle"}
	}
	unknown := int32(0)
	if lost > 0 {
		unknown = b.Stack([]uint32{b.Named([]byte("[unknown]"))}, lostAmount)
		b.tree.note(
			plural(lost, "sample is",
				"samples are") + " of calls that the file lacks: their functions are [unknown]",
		)
	}
	t := b.Tree()
	if timer != nil && timed {
		timer.thread("", []byte("main thread"))
		nodes := make([]int32, len(calls)+1)
		nodes[len(calls)] = unknown
		for i, c := range calls {
			nodes[i] = c.Node
		}
		t.Times = timer.timeline(nodes)
	}
	if t.Sum() == 0 {
		return nil, &ParseError{What: ".cpuprofile: no samples in it"}
	}
	if t.Samples = samples; timed {
		t.Unit = "ns"
	}
	return t, nil
}

// function returns the function of a call.
func (c *v8Call) function(b *Builder) uint32 {
	name, kind := c.Name, JIT
	switch {
	case name == "":
		name = "(anonymous)"
	case c.URL == "":
		kind = Code // part of V8 itself
	}
	module := ""
	if c.URL != "" {
		module = path.Base(strings.TrimRight(c.URL, "/"))
	}
	f := b.Function([]byte(strings.ReplaceAll(name, ";", ":")), []byte(module), kind)
	if g := &b.tree.Functions[f]; g.File == "" && c.URL != "" {
		g.File, g.Line = c.URL, max(0, min(c.Line, math.MaxInt32-1)+1)
	}
	return f
}

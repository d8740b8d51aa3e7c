package flame

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"strconv"
)

// foldedLines reads one stack a line: outermost;...;innermost count. A line is laid beside the one before it, and what they have in
// common is not looked up again.
type foldedLines struct {
	b     *Builder
	last  []byte
	ends  []int  // of each frame in last, before its semicolon
	nodes []Call // of each frame in last
	wrong skipped
}

func newFolded([]byte) *foldedLines { return &foldedLines{b: NewBuilder()} }

func (f *foldedLines) line(b []byte, n int) error {
	stack, count, ok := cutCount(b)
	if !ok {
		if len(bytes.TrimSpace(b)) > 0 && b[0] != '#' {
			f.wrong.skip(n, "no count at its end")
		}
		return nil
	}
	// Frames that end within the common prefix, or with it at a semicolon, are those of the line before.
	common := commonPrefix(stack, f.last)
	keep := len(f.ends)
	for keep > 0 {
		end := f.ends[keep-1]
		if end < common && end < len(stack) || end == common && (end == len(stack) || stack[end] == ';') {
			break
		}
		keep--
	}
	f.ends, f.nodes = f.ends[:keep], f.nodes[:keep]
	node, at := Call{}, 0
	if keep > 0 {
		node, at = f.nodes[keep-1], f.ends[keep-1]+1
	}
	f.last = append(f.last[:min(common, len(f.last))], stack[min(common, len(f.last)):]...)
	for at <= len(stack) && (at > 0 || len(stack) > 0) {
		if len(f.nodes) == MostDepth {
			f.b.cut++
			break
		}
		end := bytes.IndexByte(stack[at:], ';')
		if end < 0 {
			end = len(stack)
		} else {
			end += at
		}
		node = f.b.Child(node, f.b.Named(stack[at:end]))
		f.ends, f.nodes = append(f.ends, end), append(f.nodes, node)
		at = end + 1
	}
	f.b.Add(node.Node, count)
	return nil
}

func (f *foldedLines) end(int) (*Tree, error) { return f.wrong.tell(f.b.Tree()) }

// commonPrefix gives how many bytes two texts begin alike with.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+32 <= n; i += 32 {
		if string(a[i:i+32]) != string(b[i:i+32]) {
			break
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// WriteFolded writes a line a stack, in the order of names: outermost;...;innermost amount. In names semicolons are colons and line
// breaks blanks, and an empty one is -, since the format knows no other way.
func WriteFolded(w io.Writer, t *Tree) error {
	t = t.ByName()
	out := bufio.NewWriterSize(w, 64<<10)
	names := make([][]byte, len(t.Functions))
	for i, f := range t.Functions {
		names[i] = foldedName(f.Name)
	}
	var failed error
	t.lines(names, func(node int32, line []byte) {
		if t.Self[node] > 0 && failed == nil {
			_, failed = out.Write(append(AppendAmount(append(line, ' '), t.Self[node]), '\n'))
		}
	})
	if failed != nil {
		return failed
	}
	return out.Flush()
}

// lines gives each node with its stack as text, in the order of names. The line may be appended to, and is the callee's until it
// returns.
func (t *Tree) lines(names [][]byte, each func(node int32, line []byte)) {
	from, list := t.children()
	var line []byte
	type step struct {
		node int32
		len  int // of the line before it
	}
	todo := []step{{0, 0}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		line = line[:s.len]
		if s.node == 0 {
			each(0, []byte(noStack))
		} else {
			if t.Parent[s.node] > 0 {
				line = append(line, ';')
			}
			line = append(line, names[t.Function[s.node]]...)
			each(s.node, line)
		}
		for _, c := range slices.Backward(list[from[s.node]:from[s.node+1]]) {
			todo = append(todo, step{c, len(line)})
		}
	}
}

// noStack stands for the stack of amounts that have none.
const noStack = "[no stack]"

// AppendAmount appends an amount as a plain number: whole ones without a point.
func AppendAmount(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'f', -1, 64) }

func foldedName(name string) []byte {
	if name == "" {
		return []byte{'-'}
	}
	b := []byte(name)
	for i, c := range b {
		switch c {
		case ';':
			b[i] = ':'
		case '\n', '\r':
			b[i] = ' '
		}
	}
	return b
}

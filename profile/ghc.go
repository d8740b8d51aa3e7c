package profile

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"unicode"
)

// ghcLines reads the cost centres of a Haskell program in a .prof file of GHC's run-time system.
//
//	COST CENTRE  MODULE  SRC            no.  entries  %time %alloc   %time %alloc  ticks     bytes
//
//	MAIN         MAIN    <built-in>     129        0    0.0    0.0   100.0  100.0      0         0
//	 main        Main    Main.hs:(1,1)  259        0   30.4    9.4    99.5   99.0      7   5617272
type ghcLines struct {
	outline
	value          string
	module, amount int // positions in a line, in characters
	begun, ended   bool
	wrong          skipped
}

func newGHC(o Options) *ghcLines {
	return &ghcLines{outline: outline{b: o.builder()}, value: o.Value}
}

// ghcHead are the words of the heading.
var ghcHead = [][]byte{[]byte("COST"), []byte("CENTRE"), []byte("MODULE"), []byte("SRC"),
	[]byte("no."), []byte("entries"), []byte("%time"), []byte("%alloc"), []byte("%time"),
	[]byte("%alloc")} // table: never changed

func isGHCHead(b []byte) bool {
	if !bytes.HasPrefix(bytes.TrimSpace(b), ghcHead[0]) { // nearly all lines
		return false
	}
	words := bytes.Fields(b)
	return len(words) >= len(ghcHead) &&
		slices.EqualFunc(words[:len(ghcHead)], ghcHead, bytes.Equal)
}

func (g *ghcLines) line(b []byte, n int) error {
	switch {
	case g.ended:
		return nil
	case !g.begun:
		if g.begun = isGHCHead(b); g.begun {
			return g.columns(b, n)
		}
		return nil
	case len(bytes.TrimSpace(b)) == 0:
		g.ended = len(g.path) > 0
		return nil
	}
	depth := len(b) - len(bytes.TrimLeft(b, " "))
	amount, err := strconv.ParseFloat(string(wordAt(b, g.amount)), 64)
	if err != nil || !(amount >= 0) {
		g.wrong.skip(n, "no cost in its column")
		return nil
	}
	if g.value == "" || g.value == "time" {
		amount = math.Round(10 * amount) // tenths of a percent
	}
	name := append(append(slices.Clone(wordAt(b, g.module)), '.'), wordAt(b, 0)...)
	if !g.enter(depth, g.b.Function(replaced(name, ';', ':'), nil, Code), 0) {
		g.wrong.skip(n, "its callers are missing")
		return nil
	}
	g.b.Add(g.path[depth].call.Node, amount)
	return nil
}

// columns finds the columns in the heading. The error is a *ParseError.
func (g *ghcLines) columns(b []byte, n int) error {
	g.module = bytes.Index(b, []byte("MODULE"))
	switch g.value {
	case "", "time":
		g.amount = bytes.Index(b, []byte("%time"))
	case "ticks", "bytes": // aligned to the right, and may be wider than the heading
		i := bytes.Index(b, []byte(g.value))
		if i < 0 {
			return &ParseError{Line: n,
				What: "no column " + g.value + ": it is there after +RTS -P"}
		}
		g.amount = len(bytes.TrimRight(b[:i], " "))
	default:
		return &ParseError{Line: n, What: "no amount " + g.value + ": there are time, ticks, bytes"}
	}
	return nil
}

// wordAt returns the word at or after a position of a line, in characters.
func wordAt(b []byte, at int) []byte {
	for i := range string(b) {
		if at == 0 {
			b = bytes.TrimLeftFunc(b[i:], unicode.IsSpace)
			if end := bytes.IndexFunc(b, unicode.IsSpace); end >= 0 {
				b = b[:end]
			}
			return b
		}
		at--
	}
	return nil
}

func (g *ghcLines) end(lines int) (*Tree, error) {
	t := g.b.Tree()
	switch g.value {
	case "", "time":
		t.Unit = "per mille"
	default:
		t.Unit = g.value
	}
	if !g.begun || len(t.Parent) == 1 && g.wrong.lines == 0 {
		return nil, &ParseError{Line: max(1, lines), What: "no cost centres in it"}
	}
	return g.wrong.report(t, lines)
}

package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// A lineReader reads a text line by line.
type lineReader interface {
	line(b []byte, n int) error // b is valid until it returns
	end(lines int) (*Tree, error)
}

// A blockReader is a lineReader that can consume several lines at once. block is called before each
// line, numbered n, with all bytes read from it on. It returns the number of bytes and lines
// consumed. 0 means that line reads the line; moreBytes means that block wants to see more bytes,
// if they are near.
type blockReader interface {
	lineReader
	block(b []byte, n int) (bytesTaken, lines int)
}

const (
	moreBytes = -1
	nearBytes = 256 << 10 // of it that a blockReader may want to see
)

// MaxLine is the highest length of a line.
const MaxLine = 64 << 20

// readLines passes all lines of an input to l. buf[:have] contains the bytes already read;
// readLines owns buf. dropped lines of comments came before.
func readLines(r io.Reader, buf []byte, have, dropped int, l lineReader) (*Tree, error) {
	n := dropped
	searched := 0 // how many of the bytes in buf have no line break
	blocks, _ := l.(blockReader)
	if c, ok := l.(interface{ close() }); ok {
		defer c.close()
	}
	for first := true; ; first = false {
		got, err := 0, error(nil)
		if !first {
			got, err = r.Read(buf[have:])
		}
		b := buf[:have+got]
		for {
			if blocks != nil {
				i, lines := blocks.block(b, n+1)
				if i > 0 {
					b, n, searched = b[i:], n+lines, max(0, searched-i)
					continue
				}
				if i == moreBytes && err == nil && len(b) < nearBytes {
					break
				}
			}
			i := bytes.IndexByte(b[searched:], '\n')
			if i < 0 {
				searched = len(b)
				break
			}
			i, searched = i+searched, 0
			n++
			if err := l.line(trimCR(b[:i]), n); err != nil {
				return nil, err
			}
			b = b[i+1:]
		}
		have = copy(buf, b)
		switch {
		case errors.Is(err, io.EOF):
			if have > 0 {
				n++
				if err := l.line(trimCR(buf[:have]), n); err != nil {
					return nil, err
				}
			}
			return l.end(n)
		case err != nil:
			return nil, fmt.Errorf("read: %w", err)
		case have == len(buf):
			if have >= MaxLine {
				return nil, &ParseError{Line: n + 1, What: "the line is longer than 64 MB"}
			}
			buf = append(buf, make([]byte, have)...)
		}
	}
}

func trimCR(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\r' {
		return b[:n-1]
	}
	return b
}

// cutCount removes a number from the end of a line: digits, possibly with a decimal part, after a
// blank.
func cutCount(line []byte) (stack []byte, count float64, ok bool) {
	end := len(line)
	for end > 0 && (line[end-1] == ' ' || line[end-1] == '\t') {
		end--
	}
	i, n, point := end, uint64(0), -1
	scale := uint64(1)
	for ; i > 0; i-- {
		c := line[i-1]
		if c == '.' && point < 0 {
			point = i - 1
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		if end-i < 18 {
			n += uint64(c-'0') * scale
			scale *= 10
		}
	}
	if i > 0 && (i < end || line[i-1] == '.') && line[i-1] != ' ' && line[i-1] != '\t' {
		return cutScientific(line, end)
	}
	if i == end || i == 0 || point == i || line[i-1] != ' ' && line[i-1] != '\t' {
		return nil, 0, false
	}
	count = float64(n)
	if point >= 0 || end-i > 18 {
		var err error
		if count, err = strconv.ParseFloat(string(line[i:end]), 64); err != nil ||
			math.IsInf(count, 0) {
			return nil, 0, false
		}
	}
	return line[:i-1], count, true // only one blank: names of functions can end with one
}

// cutScientific removes a number with a sign or an exponent from the end of a line.
func cutScientific(line []byte, end int) (stack []byte, count float64, ok bool) {
	at := bytes.LastIndexAny(line[:end], " \t")
	if at < 0 || at+1 >= end || end-at > 32 {
		return nil, 0, false
	}
	word := line[at+1 : end]
	if len(bytes.Trim(word, "0123456789.eE+-")) > 0 || word[0] == 'e' || word[0] == 'E' {
		return nil, 0, false
	}
	count, err := strconv.ParseFloat(string(word), 64)
	return line[:at], count, err == nil && !math.IsInf(count, 0)
}

// skipped counts lines that could not be parsed.
type skipped struct {
	lines, first int
	why          string
}

func (s *skipped) skip(line int, why string) {
	if s.lines == 0 {
		s.first, s.why = line, why
	}
	s.lines++
}

// maxSkipped is the highest share of skipped lines. Above it, few lines look like stacks by chance:
// the input is something else.
const maxSkipped = 0.99

// fewSkipped is a number of skipped lines that is always allowed: records and warnings between few
// samples.
const fewSkipped = 1000

// report adds a note about skipped lines to a tree. It returns a *ParseError when no line, or
// almost none, was parsed.
func (s *skipped) report(t *Tree, lines int) (*Tree, error) {
	switch {
	case s.lines > 0 && t.Sum() == 0:
		return nil, &ParseError{Line: s.first, What: s.why}
	case s.lines > fewSkipped && float64(s.lines) > maxSkipped*float64(lines):
		return nil, &ParseError{
			Line: s.first,
			What: fmt.Sprintf("%s of %s lines are no part of a stack: %s",
				thousands(strconv.Itoa(s.lines)), thousands(strconv.Itoa(lines)), s.why),
		}
	case s.lines > 0:
		t.note(
			fmt.Sprintf("%s left out, the first is line %d: %s",
				plural(s.lines, "line is", "lines are"), s.first, s.why),
		)
	}
	return t, nil
}

// plural returns a number with its noun: 1 line, 2,345 lines.
func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(strconv.Itoa(n)) + " " + more
}

// thousands inserts commas into a whole number.
func thousands(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

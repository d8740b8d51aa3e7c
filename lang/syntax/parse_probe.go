package syntax

import (
	"strconv"
	"strings"

	"culprit/measure"
)

// probe reads the description at p.off. It returns nil when the description is wrong and has been
// reported. p.off is behind it in any case.
func (p *parser) probe() *Probe {
	from, off := p.off, p.off
	bracket, bad, digits := -1, false, true
	// positions; a colon behind a backslash or within brackets of a function's name is part of the
	// name
	var colons []int
	process := false
	for off < len(p.text) {
		c := p.text[off]
		if process && len(colons) > 0 {
			if end := p.symbolText(off, from, colons); end > off {
				off = end
				continue
			}
		}
		if classes[c]&cProbe == 0 {
			break
		}
		switch c {
		case ':':
			if colons == nil {
				provider := p.text[from:off]
				process = OfProcess(provider) || OfFile(provider)
			}
			colons = append(colons, off)
			digits = false
		case '[':
			if bracket < 0 {
				bracket = off
			}
		case ']':
			bracket = -1
		case '\\':
			if off+1 >= len(p.text) ||
				classes[p.text[off+1]]&cProbe == 0 && (!process || p.text[off+1] == '\n') {
				p.report(ProbeGlob, off, off+1, "missing character after \\", "")
				bad = true
			} else {
				off++
			}
		default:
			digits = digits && classes[c]&cDigit != 0
		}
		off++
	}
	p.off = off
	if off == from {
		end := min(off+1, len(p.text))
		p.report(
			MissingProbe, from, end, "expected a probe description",
			"provider:module:function:name",
		)
		p.off = end
		return nil
	}
	// colons in between belong to the function's name
	if most := 3 - int(p.mode.Last); process && len(colons) > most && most >= 2 {
		kept := colons[:2:2]
		if p.mode.Last == PartName {
			kept = append(kept, colons[len(colons)-1])
		}
		colons = kept
	}
	probe := &Probe{Span: Span{int32(from), int32(off)}, Parts: len(colons) + 1}
	if digits && p.mode.Last == PartName {
		n, err := strconv.ParseUint(p.text[from:off], 10, 32)
		if err != nil {
			p.report(
				ProbeNumber, from, off, "probe number "+shorten(p.text[from:off])+" is too large",
				"a probe number has 32 bits",
			)
			return nil
		}
		probe.ID, probe.Parts = uint32(n), 0
		return probe
	}
	if bracket >= 0 {
		p.report(
			ProbeGlob, bracket, bracket+1, "unclosed [ in a probe description",
			"[abc] matches one of a, b and c; \\[ matches [",
		)
		bad = true
	}
	if most := 4 - int(p.mode.Last); len(colons) >= most {
		p.report(
			ProbeParts,
			from,
			off,
			"the description has "+strconv.Itoa(
				len(colons)+1,
			)+" parts; at most "+strconv.Itoa(
				most,
			)+" are allowed",
			"provider:module:function:name",
		)
		bad = true
	}
	if bad {
		return nil
	}
	parts := [4]*Name{&probe.Provider, &probe.Module, &probe.Function, &probe.Name}
	end := off
	for i := range probe.Parts {
		start := from
		if i < len(colons) {
			start = colons[len(colons)-1-i] + 1
		}
		to := parts[3-int(p.mode.Last)-i]
		*to = Name{
			Span{int32(start), int32(end)},
			p.part(start, end, process && to == &probe.Function),
		}
		end = start - 1
	}
	return probe
}

// OfProcess reports whether a provider is one of a process: pid, a name that begins with it, or a
// name that ends with the number of a process or a macro.
func OfProcess(provider string) bool {
	if strings.HasPrefix(provider, "pid") || strings.IndexByte(provider, '$') >= 0 {
		return true
	}
	return provider != "" && classes[provider[len(provider)-1]]&cDigit != 0
}

// OfFile reports whether a provider is one of a file, whose name may have slashes.
func OfFile(provider string) bool {
	switch provider {
	case "uprobe", "uretprobe", "usdt", "file", "u", "ur", "U": // the short ones are of bpftrace
		return true
	}
	return false
}

// symbolText returns the end of the text at off that only a file or function of a process probe may
// contain. So names of symbols need no backslashes: net/http.(*conn).serve, main.f[...],
// std::vector<int>::size(). It returns off when there is no such text.
func (p *parser) symbolText(off, from int, colons []int) int {
	switch c := p.text[off]; c {
	case '(', '[', '<':
		if len(colons) >= 2 {
			return max(off, p.closed(off))
		}
	case '/': // or a predicate begins
		last := p.text[colons[len(colons)-1]+1 : off]
		if len(colons) >= 3 &&
			(!strings.HasPrefix(p.text[from:], "pid") || last == "entry" || last == "return" ||
				strings.Trim(last, "0123456789abcdef*?") == "") {
			return off
		}
		for end := off + 1; end < len(p.text) && classes[p.text[end]]&cSpace == 0 &&
			p.text[end] != '{'; end++ {
			switch c := p.text[end]; c {
			case ':':
				return off + 1
			case '(', '[', '<':
				if behind := p.closed(end); behind > 0 {
					end = behind - 1
				}
			case '\\':
				end++
			}
		}
	}
	return off
}

// closed returns the offset behind the bracket that closes the one at off, on the same line; -1:
// there is none.
func (p *parser) closed(off int) int {
	var open []byte
	for ; off < len(p.text) && p.text[off] != '\n'; off++ {
		switch c := p.text[off]; c {
		case '(':
			open = append(open, ')')
		case '[':
			open = append(open, ']')
		case '{':
			open = append(open, '}')
		case '<': // type arguments of C++
			open = append(open, '>')
		case ')', ']', '}', '>':
			if c == '>' && off > 0 && p.text[off-1] == '-' { // operator->
				continue
			}
			if open[len(open)-1] != c {
				return -1
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return off + 1
			}
		}
	}
	return -1
}

// ProbePart returns the name of a function as the description of a process probe may contain it:
// with a backslash before each character that would end the description or a part of it, or begin a
// macro.
func ProbePart(name string) string {
	p := parser{text: name}
	var out strings.Builder
	for off := 0; off < len(name); off++ {
		c := name[off]
		end := -1
		if c == '(' || c == '[' || c == '<' {
			end = p.closed(off)
		}
		switch {
		case end > 0 && !strings.ContainsAny(name[off:end], `\$`):
			out.WriteString(name[off:end])
			off = end - 1
			continue
		case classes[c]&cProbe == 0 && c != '/',
			c == '/' && strings.IndexByte(name[:off], ':') >= 0,
			c == '\\',
			c == '$',
			c == '[':
			out.WriteByte('\\')
		}
		out.WriteByte(c)
	}
	return out.String()
}

// part returns the text of a part of a description, with its macros replaced. In a symbol a $ that
// begins no macro is part of the name.
func (p *parser) part(from, to int, symbol bool) string {
	text := p.text[from:to]
	if p.mode.Macros == nil || strings.IndexByte(text, '$') < 0 {
		return text
	}
	var out strings.Builder
	for off := from; off < to; {
		if p.text[off] == '\\' && off+1 < to {
			out.WriteString(p.text[off : off+2])
			off += 2
			continue
		}
		if p.text[off] != '$' {
			out.WriteByte(p.text[off])
			off++
			continue
		}
		_, end := p.token(off)
		if name := strings.TrimLeft(p.text[off:end], "$"); symbol {
			if _, ok := p.mode.Macros(name); !ok && (name == "" || classes[name[0]]&cDigit == 0) {
				out.WriteString("\\$")
				off++
				continue
			}
		}
		value, _ := p.macro(Span{int32(off), int32(end)})
		out.WriteString(strings.Trim(value, `"`))
		off = end
	}
	return out.String()
}

// macro returns the value of the macro at a span, and whether it was written with $$.
func (p *parser) macro(at Span) (value string, quoted bool) {
	name := strings.TrimPrefix(p.text[at.From:at.To], "$")
	name, quoted = strings.CutPrefix(name, "$")
	value, ok := p.mode.Macros(name)
	if !ok && name != "" {
		hint := "this->" + name + " is a clause-local variable"
		if classes[name[0]]&cDigit != 0 {
			hint = "pass it after the program, or set the option defaultargs to use 0 or \"\""
		}
		d := p.report(
			UnknownMacro, int(at.From), int(at.To),
			"undefined macro "+shorten(p.text[at.From:at.To]), hint,
		)
		d.Near = measure.Nearest(name, macroNames())
		if d.Near != "" {
			d.Near = "$" + d.Near
		}
	}
	return value, quoted
}

func macroNames() []string {
	return []string{
		"target",
		"pid",
		"ppid",
		"pgid",
		"sid",
		"uid",
		"euid",
		"gid",
		"egid",
		"projid",
		"taskid",
	}
}

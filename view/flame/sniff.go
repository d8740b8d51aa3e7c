package flame

import "bytes"

// Sniff finds out the format of an input by its beginning; "" it is none of them. Whole: there is no more of it.
func Sniff(head []byte, whole bool) Format {
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	if len(text) > 0 && text[0] == '{' {
		return Speedscope
	}
	if looksPProf(head) {
		return PProf
	}
	lines, folded, frames, counts := 0, 0, 0, 0
	sampled := false // the line before is that of a sample in perf script
	for len(head) > 0 {
		line, rest, ended := bytes.Cut(head, []byte("\n"))
		if !ended && !whole && lines > 0 {
			break
		}
		head = rest
		line = trimCR(line)
		bare := bytes.TrimSpace(line)
		if len(bare) == 0 || line[0] == '#' {
			continue
		}
		lines++
		if bytes.HasPrefix(line, []byte("@")) && (bytes.HasSuffix(bare, []byte("[")) || bytes.Contains(bare, []byte("]: "))) {
			return BPFTrace
		}
		if _, _, _, ok := parsePerfFrame(bare); ok && sampled {
			return Perf
		}
		sampled = false
		if h, ok := parsePerfHead(bare); ok && len(h.event) > 0 {
			if _, _, _, ok := parsePerfFrame(h.rest); ok {
				return Perf
			}
			sampled = true
		}
		switch stack, _, ok := cutCount(line); {
		case isDigits(bare):
			if frames > 0 {
				counts++
			}
		case ok && len(bytes.TrimSpace(stack)) > 0:
			folded++
		default:
			frames++
		}
	}
	switch {
	case folded > 0 && 2*folded >= lines:
		return Folded
	case counts > 0:
		return DTrace
	}
	return ""
}

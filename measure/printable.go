package measure

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// IsShown reports whether a character of a name, a path or a message that others chose may be
// written to a terminal, a log or a table. Others could move the cursor, forge a line, or change
// how the text beside them looks: C0 and C1 controls, DEL, and characters without a width that
// change the direction of text, separate lines or hide.
func IsShown(r rune) bool {
	switch {
	case r < ' ',
		r >= 0x7f && r < 0xa0,
		r == 0x61c,
		r >= 0x200b && r <= 0x200f,
		r >= 0x2028 && r <= 0x202e,
		r >= 0x2060 && r <= 0x206f,
		r == 0xfeff,
		r >= 0xfff9 && r <= 0xfffb,
		r&0xfffe == 0xfffe,
		r >= 0xe0000 && r <= 0xe0fff:
		return false
	}
	return true
}

// Clean returns a text of others with '?' for each character that IsShown refuses, and for each
// byte that is not UTF-8.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError || !IsShown(r) {
			r = '?'
		}
		b.WriteRune(r)
		i += n
	}
	return b.String()
}

// isPlain reports whether a text has nothing but printable ASCII.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// Escape returns a text of others with C's escapes for each byte of what Clean replaces: \n, \033,
// \302\233. Other characters stay, also backslashes.
func Escape(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if IsShown(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(s[i : i+n])
		} else {
			for _, c := range []byte(s[i : i+n]) {
				escapeByte(&b, c)
			}
		}
		i += n
	}
	return b.String()
}

// escapeByte writes the escape of a byte.
func escapeByte(b *strings.Builder, c byte) {
	if c >= '\a' && c <= '\r' {
		b.Write([]byte{'\\', "abtnvfr"[c-'\a']})
		return
	}
	b.Write([]byte{'\\', '0' + c>>6, '0' + c>>3&7, '0' + c&7})
}

// AppendJSON appends a JSON text, with \u escapes for the characters in its strings that IsShown
// refuses. A parser reads the same text.
func AppendJSON(b, text []byte) []byte {
	from := 0
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if c == 0x7f {
				b = append(append(b, text[from:i]...), `\u007f`...)
				from = i + 1
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if r != utf8.RuneError && !IsShown(r) {
			b = append(b, text[from:i]...)
			for _, unit := range utf16.AppendRune(nil, r) {
				b = fmt.Appendf(b, `\u%04x`, unit)
			}
			from = i + n
		}
		i += n
	}
	return append(b, text[from:]...)
}

// MarshalJSON returns a value as AppendJSON writes its JSON. The error is that of json.Marshal.
func MarshalJSON(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return AppendJSON(nil, b), err
}

package api

import (
	"math"
	"strconv"
	"strings"
)

// AppendMillis appends ns nanoseconds as a decimal number of milliseconds, without rounding.
func AppendMillis(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1e6, 10)
	if part := ns % 1e6; part != 0 {
		b = append(b, '.')
		for scale := int64(1e5); part > 0; scale /= 10 {
			b = append(b, byte('0'+part/scale))
			part %= scale
		}
	}
	return b
}

// ParseMillis returns a decimal number of milliseconds in nanoseconds. Digits below a nanosecond
// are ignored. ok is false if text is no number, has a plus sign or is out of range.
func ParseMillis(text string) (ns int64, ok bool) {
	whole, part, _ := strings.Cut(text, ".")
	ms, err := strconv.ParseInt(whole, 10, 64)
	const limit = math.MaxInt64 / 2_000_000
	if err != nil || whole[0] == '+' || ms > limit || ms < -limit {
		return 0, false
	}
	ns = ms * 1e6
	scale := int64(1e5)
	for i := range len(part) {
		if part[i] < '0' || part[i] > '9' {
			return 0, false
		}
		d := int64(part[i]-'0') * scale
		if whole[0] == '-' {
			d = -d
		}
		ns, scale = ns+d, scale/10
	}
	return ns, true
}

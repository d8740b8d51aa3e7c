package term

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
)

// parseSpan parses a duration: "20s", "1m30s", or seconds: "0.5".
func parseSpan(flag, text string) (measure.Span, error) {
	d, err := time.ParseDuration(text)
	if seconds, e := strconv.ParseFloat(text, 64); e == nil {
		d, err = time.Duration(seconds*1e9), nil
	}
	if err != nil || d <= 0 {
		return 0, usagef("%s %q: give a time, such as 20s", flag, text)
	}
	return measure.Span(d), nil
}

var bitsPattern = regexp.MustCompile(
	`(?i)^([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)(?:bits?/s|bits?|bps)?$`,
) // table: made once, never changed

// parseBits parses bits per second: "100Mbit/s", "1G", "500 kbit/s".
func parseBits(flag, text string) (float64, error) {
	m := bitsPattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, usagef("%s %q: give bits per second, such as 100Mbit/s or 1Gbit/s", flag, text)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if m[2] != "" {
		n *= math.Pow(1000, float64(strings.Index("kmgt", strings.ToLower(m[2]))+1))
	}
	if err != nil || !(n > 0) {
		return 0, usagef("%s %q: give more than 0", flag, text)
	}
	return n, nil
}

// parseBytes parses bytes: "128KiB", "1MB", "512".
func parseBytes(flag, text string) (int, error) {
	m := sizePattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, usagef("%s %q: give a number of bytes, such as 1400, 128KiB or 1MB", flag, text)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	base := 1000.
	if m[3] != "" {
		base = 1024
	}
	if m[2] != "" {
		n *= math.Pow(base, float64(strings.Index("KMGT", strings.ToUpper(m[2]))+1))
	}
	if err != nil || n > 1e12 || n != math.Trunc(n) {
		return 0, usagef("%s %q: give a whole number of bytes", flag, text)
	}
	return int(n), nil
}

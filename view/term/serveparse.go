package term

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
)

var (
	keepPattern = regexp.MustCompile(
		`^(1s|1m|1h)=([0-9]+(?:\.[0-9]+)?)(s|m|h|d|w|y)$`,
	) // table: made once, never changed
	sizePattern = regexp.MustCompile(
		`^([0-9]+(?:\.[0-9]+)?) ?([kKMGT]?)(i?)[bB]?$`,
	) // table: made once, never changed
	daysPerUnit = map[string]float64{
		"s": 1. / 86400,
		"m": 1. / 1440,
		"h": 1. / 24,
		"d": 1,
		"w": 7,
		"y": 365,
	} // table: units of time
)

// parseShare parses a share of one CPU: "1%" or "0.5 %".
func parseShare(text string) (float64, error) {
	n, err := strconv.ParseFloat(
		strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "%")), 64,
	)
	if err != nil || !(n >= 0) || n > 100 || n > 0 && n < 0.01 ||
		n > 0 && !strings.Contains(text, "%") {
		return 0, usagef(
			"--budget %q: give per cent of one CPU, from 0.01%% to 100%%, or 0 for no limit", text,
		)
	}
	return n / 100, nil
}

// maxRecordedRate is the highest sampling rate of a server.
const maxRecordedRate = 999

// parseRate parses the sampling rate of a server: "49"; "off" is 0.
func parseRate(text string) (int, error) {
	if text == "off" || text == "0" {
		return 0, nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(text, "Hz"))
	if err != nil || n < 1 || n > maxRecordedRate {
		return 0, usagef(
			"--profile %q: give samples per second, from 1 to %d, or off", text, maxRecordedRate,
		)
	}
	return n, nil
}

// parseKeep parses "1s=7d,1m=14d,1h=90d". A step that is not named is 0.
func parseKeep(text string) (keep [3]measure.Span, err error) {
	for _, part := range strings.Split(text, ",") {
		m := keepPattern.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return keep, usagef(
				"--keep %q: give the times to keep seconds, minutes and hours, "+
					"such as 1s=7d,1m=14d,1h=90d",
				text,
			)
		}
		n, err := strconv.ParseFloat(m[2], 64)
		days := n * daysPerUnit[m[3]]
		if err != nil || days < 1./144 || days > 36500 {
			return keep, usagef("--keep %s: from 10m to 100y", part)
		}
		i := slices.Index([]string{"1s", "1m", "1h"}, m[1])
		if keep[i] != 0 {
			return keep, usagef("--keep names %s twice", m[1])
		}
		keep[i] = measure.Span(days * 86400 * float64(measure.Second))
	}
	return keep, nil
}

// minArchiveSize is the smallest size of an archive: an hour of a small machine.
const minArchiveSize = 32 << 20

// parseSize parses the bytes in a flag: "2GB", "500 MiB".
func parseSize(flag, text string) (int64, error) {
	m := sizePattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, usagef(
			"--%s %q: give a number of bytes, such as 500MB, 2GB or 1TiB", flag, text,
		)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	base := 1000.
	if m[3] != "" {
		base = 1024
	}
	n *= math.Pow(base, float64(strings.Index("KMGT", strings.ToUpper(m[2]))+1))
	if m[2] == "" {
		n /= base // Index of "" is 0
	}
	if err != nil || n < minArchiveSize || n > 1e15 {
		return 0, usagef("--%s %q: from 32MiB to 1000TB", flag, text)
	}
	return int64(n), nil
}

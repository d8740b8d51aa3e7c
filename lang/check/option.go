package check

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"culprit/lang/syntax"
)

// optionKind is which values an option accepts.
type optionKind uint8

const (
	optFlag     optionKind = iota // nothing, or 0 1 on off yes no true false
	optNumber                     // 0 or more
	optCount                      // above 0
	optSize                       // bytes: 4m
	optRate                       // 10hz, 5s; a plain number is hz; in nanoseconds
	optWord                       // anything
	optPolicy                     // switch, ring, fill
	optVersion                    // of D: 1.6.3, 2.0
	optStandard                   // a, c, s, t
	optUnwind                     // auto, fp, tables
)

// An option can be set by #pragma D option, -x and setopt().
type option struct {
	kind    optionKind
	least   int64
	most    int64 // 0: any
	outside bool  // only on the command line
	set     func(o *Options, n int64)
}

// options are all options by name.
//
// table: name to rule
var options = map[string]option{
	"aggpercpu": {}, "encoding": {kind: optWord}, "aggrate": {kind: optRate},
	"aggrows": {kind: optNumber}, "aggsize": {kind: optSize}, "aggsortkey": {}, "aggsortkeypos": {kind: optNumber},
	"aggsortpos": {kind: optNumber}, "aggsortrev": {},
	"agghist": {}, "aggpack": {}, "aggzoom": {}, "amin": {kind: optWord}, "argref": {},
	"budget": {kind: optWord}, "bufpolicy": {kind: optPolicy},
	"bufresize": {kind: optWord}, "bufsize": {kind: optSize, least: 60},
	"cleanrate": {kind: optRate}, "core": {}, "cost": {}, "cpp": {outside: true},
	"cpphdrs": {outside: true}, "cppargs": {kind: optWord, outside: true},
	"cpppath": {kind: optWord, outside: true},
	"cpu":     {kind: optNumber}, "ctypes": {kind: optWord, outside: true}, "debug": {},
	"defaultargs": {set: func(o *Options, n int64) { o.DefaultArgs = n != 0 }},
	"define":      {kind: optWord, outside: true},
	"destructive": {set: func(o *Options, n int64) { o.Destructive = n != 0 }},
	"disasm":      {kind: optNumber, outside: true}, "droptags": {},
	"dtypes": {kind: optWord, outside: true}, "dynvarsize": {kind: optSize},
	"empty": {outside: true}, "errtags": {}, "evaltime": {kind: optWord}, "flowindent": {},
	"grabanon": {}, "inline": {}, "iregs": {kind: optNumber, most: 8},
	"incdir":       {kind: optWord, outside: true},
	"jstackframes": {kind: optCount}, "jstackstrsize": {kind: optSize}, "kdefs": {}, "knodefs": {},
	"late": {kind: optWord}, "lazyload": {}, "ldpath": {kind: optWord, outside: true},
	"libdir":   {kind: optWord, outside: true},
	"linkmode": {kind: optWord}, "linktype": {kind: optWord}, "lockmem": {kind: optWord},
	"maxframes": {kind: optCount, set: func(o *Options, n int64) { o.MaxFrames = int(n) }},
	"modpath":   {kind: optWord, outside: true}, "nolibs": {}, "noresolve": {},
	"nspec": {kind: optNumber}, "oformat": {kind: optWord},
	"pcapsize": {kind: optSize}, "pgmax": {kind: optNumber}, "preallocate": {kind: optNumber},
	"printsize": {kind: optSize}, "procfspath": {kind: optWord, outside: true}, "pspec": {},
	"quiet":       {set: func(o *Options, n int64) { o.Quiet = n != 0 }},
	"quietresize": {}, "raw": {}, "rawbytes": {}, "scratchsize": {kind: optSize},
	"setenv": {kind: optWord, outside: true}, "specsize": {kind: optSize},
	"stackframes": {kind: optCount, set: func(o *Options, n int64) { o.StackFrames = int(n) }},
	"stackindent": {kind: optNumber}, "statusrate": {kind: optRate},
	"stdc": {kind: optStandard, outside: true}, "strip": {},
	"strsize":    {kind: optSize, least: 2, set: func(o *Options, n int64) { o.StrSize = n }},
	"switchrate": {kind: optRate}, "syslibdir": {kind: optWord, outside: true},
	"sysslice": {kind: optWord}, "tcpsize": {kind: optSize}, "temporal": {},
	"tree": {kind: optNumber}, "tregs": {kind: optNumber}, "udefs": {},
	"undef": {kind: optWord, outside: true}, "unodefs": {},
	"unsetenv": {kind: optWord, outside: true}, "unwind": {kind: optUnwind},
	"useruprobe":   {},
	"ustackframes": {kind: optCount, set: func(o *Options, n int64) { o.UStackFrames = int(n) }},
	"verbose":      {}, "version": {kind: optVersion},
	"zdefs": {set: func(o *Options, n int64) { o.Probes = n != 0 }},
}

// startOptions applies the options of the command line.
func (c *checker) startOptions() {
	all := map[string]string{}
	given := c.o.All
	c.o.All = all
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range given {
			if !yield(name) {
				return
			}
		}
	}) {
		c.option(syntax.Span{}, name, given[name], false)
	}
}

// pragma applies a #pragma D line.
func (c *checker) pragma(p *syntax.Pragma) {
	switch p.Kind.Text {
	case "option":
		value := p.Value.Text
		if v, ok := strings.CutPrefix(value, "$"); ok {
			if m, ok := c.o.Macro(strings.TrimPrefix(v, "$")); ok {
				value = m
			}
		}
		at := p.Name.At()
		if p.Set {
			at.To = p.Value.At().To
		}
		c.option(at, p.Name.Text, value, true)
	case "depends_on":
		if len(p.Words) > 0 && p.Words[0].Text == "library" {
			c.fail(
				p.At(), syntax.MalformedPragma, "D_PRAGMA_DEPEND",
				"depends_on is not supported: D's libraries are always available",
			)
		}
	}
}

// option sets one option.
func (c *checker) option(at syntax.Span, name, value string, inText bool) {
	name = strings.ToLower(name)
	if !inText { // not in a text
		before := len(c.diags)
		defer func() {
			for _, d := range c.diags[before:] {
				d.Message = "-x " + name + ": " + d.Message
			}
		}()
	}
	rule, ok := options[name]
	if !ok {
		near(
			c.fail(at, UnknownOption, "D_PRAGMA_OPTSET", "unknown option %s", name), name,
			names(options),
		)
		return
	}
	if inText && rule.outside {
		d := c.fail(at, OptionValue, "D_PRAGMA_OPTSET", "the option %s can't be set in a program",
			name)
		d.Hint = "set it with -x " + name + "=..."
		return
	}
	n, want, ok := optionValue(rule.kind, value)
	switch {
	case !ok:
		c.fail(
			at, OptionValue, "D_PRAGMA_OPTSET", "the option %s requires %s, not %q", name, want,
			value,
		)
		return
	case n < rule.least:
		c.fail(
			at, OptionValue, "D_PRAGMA_OPTSET", "the option %s must be at least %d", name,
			rule.least,
		)
		return
	case rule.most > 0 && n > rule.most:
		c.fail(
			at, OptionValue, "D_PRAGMA_OPTSET", "the option %s must be at most %d", name, rule.most,
		)
		return
	}
	c.o.All[name] = value
	if rule.kind == optFlag && n == 0 {
		delete(c.o.All, name)
	}
	if rule.set != nil {
		rule.set(&c.o, n)
	}
}

// number returns an option that is a number.
func (c *checker) number(name string) (int64, bool) {
	value, set := c.o.All[name]
	if !set {
		return 0, false
	}
	n, _, ok := optionValue(options[name].kind, value)
	return n, ok
}

// OptionBytes returns the number of bytes of an option's value: 4m is 4 MiB. 0: it is no such
// value.
func OptionBytes(value string) int64 {
	n, _, ok := optionValue(optSize, value)
	if !ok {
		return 0
	}
	return n
}

// OptionOn reports whether the value of a flag option means on. An empty value does.
func OptionOn(value string) bool {
	n, _, ok := optionValue(optFlag, value)
	return ok && n != 0
}

// OptionProblem returns in dtrace's words why an option can't be set while a program runs; "": it
// can.
func OptionProblem(name, value string) string {
	rule, ok := options[strings.ToLower(name)]
	if !ok {
		return "Invalid option name"
	}
	if _, _, ok := optionValue(rule.kind, value); !ok {
		return "Invalid value for specified option"
	}
	switch strings.ToLower(name) {
	case "aggsize",
		"bufpolicy",
		"bufresize",
		"bufsize",
		"cpu",
		"destructive",
		"dynvarsize",
		"grabanon",
		"maxframes",
		"nspec",
		"pcapsize",
		"scratchsize",
		"specsize",
		"strsize",
		"unwind":
		return "Operation illegal when tracing is active"
	}
	return ""
}

// OptionSpan returns the nanoseconds of an option's value that is a rate or a time: 10hz, 5s. 0: it
// is no such value.
func OptionSpan(value string) int64 {
	n, _, ok := optionValue(optRate, value)
	if !ok {
		return 0
	}
	return n
}

// optionValue parses the value of an option; want describes the valid ones.
func optionValue(kind optionKind, value string) (n int64, want string, ok bool) {
	switch kind {
	case optFlag:
		switch strings.ToLower(value) {
		case "", "1", "on", "yes", "true", "enable", "enabled", "set":
			return 1, "", true
		case "0", "off", "no", "false", "disable", "disabled", "unset":
			return 0, "", true
		}
		return 0, "no value", false
	case optNumber, optCount:
		n, err := strconv.ParseInt(value, 0, 64)
		return n, "a number", err == nil && n >= 0 && (kind != optCount || n > 0) &&
			n <= math.MaxInt32
	case optSize:
		number, unit := splitUnit(value)
		n, err := strconv.ParseInt(number, 0, 64)
		shift, known := map[string]int{"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[unit]
		return n << shift, "a number of bytes such as 64k or 4m", err == nil && known && n >= 0 &&
			n <= math.MaxInt64>>shift
	case optRate:
		number, unit := splitUnit(value)
		n, err := strconv.ParseInt(number, 0, 64)
		if unit == "" || unit == "hz" {
			if err == nil && n > 0 {
				return 1e9 / n, "", true
			}
			return 0, "a rate such as 10hz or a time such as 5s", false
		}
		span, known := map[string]int64{"ns": 1, "nsec": 1, "us": 1e3, "usec": 1e3, "ms": 1e6,
			"msec": 1e6, "s": 1e9, "sec": 1e9, "m": 60e9, "min": 60e9, "h": 3600e9, "hour": 3600e9,
			"d": 86400e9, "day": 86400e9}[unit]
		return n * span, "a rate such as 10hz or a time such as 5s", err == nil && known &&
			n >= 0 &&
			n <= math.MaxInt64/span
	case optVersion:
		major, _, _ := strings.Cut(value, ".")
		n, err := strconv.Atoi(major)
		return 0, "a version of D up to 2", err == nil && n >= 1 && n <= 2
	case optStandard:
		return 0, "a, c, s or t", len(value) == 1 && strings.Contains("acst", value)
	case optUnwind:
		return 0, "auto, fp or tables", slices.Contains([]string{"auto", "fp", "tables"}, value)
	case optPolicy:
		advice := "switch (records are printed while the script runs), ring (the last bufsize " +
			"bytes of each CPU, at its end) or fill (the first, until they are full)"
		return 0, advice, value == "switch" || value == "ring" || value == "fill"
	}
	return 0, "", true
}

// splitUnit separates a number from the letters after it.
func splitUnit(value string) (number, unit string) {
	i := 0
	if strings.HasPrefix(value, "0x") {
		return value, ""
	}
	for i < len(value) && (value[i] == '-' || value[i] >= '0' && value[i] <= '9') {
		i++
	}
	return value[:i], strings.ToLower(value[i:])
}

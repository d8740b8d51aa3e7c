package tool

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
)

// There are at least forty tools. Each has a purpose, columns, what it needs, and at most a page.
func TestDeclarations(t *testing.T) {
	if n := len(All()); n < 40 {
		t.Errorf("%d tools", n)
	}
	for _, one := range All() {
		t.Run(one.Name, func(t *testing.T) {
			if len(one.Columns) == 0 || len(one.Needs) == 0 || one.Purpose == "" {
				t.Error("columns, needs or the purpose are missing")
			}
			if n := strings.Count(one.Text, "\n"); n > 120 {
				t.Errorf("%d lines", n)
			}
			letters := map[string]bool{}
			for _, o := range one.Options {
				if letters[o.Short] && o.Short != "" {
					t.Errorf("-%s has two meanings", o.Short)
				}
				letters[o.Short] = true
			}
			_, body, _ := strings.Cut(one.Text, "*/")
			for _, o := range slices.Concat(one.Options, one.Operands) {
				if !regexp.MustCompile(`\b` + o.Macro() + `\b`).MatchString(body) {
					t.Errorf("%s is not used", o.Macro())
				}
			}
		})
	}
}

// An array loses its elements when they are no longer needed: otherwise it is full after some
// thousand requests, connections or allocations.
func TestArraysAreEmptied(t *testing.T) {
	few := map[string]string{ // arrays with few keys, and why
		"biopattern next": "disks", "seeksize end": "disks", "deadlock order": "pairs of mutexes",
		"deadlock printed": "pairs of mutexes", "tcpstates since": "0 is stored for a closed one",
	}
	assigned := regexp.MustCompile(`(?m)^\s+(\w+)\[[^;{}]*?\]\s+=\s+([^;]+);`)
	for _, one := range All() {
		_, body, _ := strings.Cut(one.Text, "*/")
		emptied, arrays := map[string]bool{}, map[string]bool{}
		for _, m := range assigned.FindAllStringSubmatch(body, -1) {
			arrays[m[1]] = true
			emptied[m[1]] = emptied[m[1]] || m[2] == "0" || m[2] == "NULL"
		}
		for name := range arrays {
			if !emptied[name] && few[one.Name+" "+name] == "" {
				t.Errorf("%s: elements of %s stay for ever", one.Name, name)
			}
		}
	}
}

func TestMacros(t *testing.T) {
	for _, c := range []struct {
		name     string
		tool     string
		given    map[string]string
		operands []string
		want     string // a definition, or a part of the error
	}{
		{"default", "opensnoop", nil, nil, "PID=0"},
		{"number", "opensnoop", map[string]string{"pid": "17"}, nil, "PID=17"},
		{"no number", "opensnoop", map[string]string{"pid": "x"}, nil, `--pid: "x" is no whole number`},
		{"too large", "opensnoop", map[string]string{"pid": "99999999999999999999"}, nil, "no whole number"},
		{"target", "opensnoop", map[string]string{"pid": "$target"}, nil, "PID=$target"},
		{"text", "opensnoop", map[string]string{"name": `a"b\` + "\n"}, nil, `NAME="a\042b\134\012"`},
		{"long text", "opensnoop", map[string]string{"name": strings.Repeat("x", 251)}, nil, "too long"},
		{"flag", "opensnoop", map[string]string{"failed": "true"}, nil, "FAILED=1"},
		{"interval", "biolatency", nil, []string{"0.25"}, "INTERVAL=250ms"},
		{"no interval", "biolatency", nil, nil, "INTERVAL=10000d"},
		{"negative interval", "biolatency", nil, []string{"-1"}, "no number of seconds"},
		{"not a number", "biolatency", nil, []string{"NaN"}, "no number of seconds"},
		{"count", "biolatency", nil, []string{"1", "3"}, "COUNT=3"},
		{"one too many", "biolatency", nil, []string{"1", "3", "4"}, `"4" is one operand too many`},
		{"missing", "funccount", nil, nil, "give PATTERN"},
		{"function", "funccount", nil, []string{"vfs_*"}, "PATTERN=fbt::vfs_*:entry"},
		{"libc", "funccount", nil, []string{"c:malloc"}, "PATTERN=uprobe:libc:malloc:"},
		{"its return", "funclatency", nil, []string{"c:malloc"}, "PATTERN_RETURN=uretprobe:libc:malloc:"},
		{"tracepoint", "funccount", nil, []string{"t:sched:sched_*"}, "PATTERN=tracepoint:sched::sched_*"},
		{"call", "funccount", nil, []string{"sys_read"}, "PATTERN=syscall::read:entry"},
		{"D", "funccount", nil, []string{"io:::start"}, "PATTERN=io:::start"},
		{"USDT", "funccount", nil, []string{"u:c:setjmp"}, "PATTERN=usdt:libc:*:setjmp"},
		{"no probe", "funccount", nil, []string{"a { exit(0); }"}, "is no probe"},
		{"code", "argdist", nil, []string{"c:malloc", "arg0 + 1"}, "EXPRESSION=(arg0 + 1)"},
		{"too much code", "argdist", nil, []string{"c:malloc", "1; exit(0)"}, "write one expression"},
		{"word", "sslsniff", map[string]string{"library": "/opt/x.so"}, nil, "LIBRARY=/opt/x.so"},
		{"comment", "sslsniff", map[string]string{"library": "/opt//x"}, nil, "a name has letters"},
		{"begin of a comment", "funccount", nil, []string{"uprobe:/*:f:"}, "is no probe"},
		{"no word", "sslsniff", map[string]string{"library": "a b"}, nil, "a name has letters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Named(c.tool).Macros(c.given, c.operands)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %s", err, c.want)
				}
			} else if !slices.Contains(got, c.want) {
				t.Errorf("%q, want %s", got, c.want)
			}
		})
	}
}

func TestHeaderMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"BEGIN {}":                             "must stand first",
		"/* tool x */":                         "WHAT: MEANING",
		"/* column A: b */":                    "tool NAME: PURPOSE is missing",
		"/* nothing x: y */":                   "nothing is no declaration",
		"/* tool x: y\n * option -p: z */":     "the long name is missing",
		"/* tool x: y\n * option a KIND: z */": "KIND is no kind of values",
		"/* tool: y */":                        "tool has no name",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Any text is a header or an error, and any value a definition of one line or an error.
func FuzzHeader(f *testing.F) {
	f.Add(All()[0].Text, "c:malloc")
	f.Add("/* tool x: y\n * option -p --pid NUMBER = 0: z */", "17")
	heapbound.Fuzz(f, func(t *testing.T, text, value string) {
		one, err := parse(text)
		if err != nil {
			return
		}
		given := map[string]string{}
		for _, o := range one.Options {
			given[o.Name] = value
		}
		macros, _ := one.Macros(given, nil)
		for _, m := range macros {
			if strings.ContainsAny(m, "\n\r\x00") {
				t.Errorf("%q", m)
			}
		}
	})
}

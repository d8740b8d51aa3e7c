package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"culprit/lang/check"
	"culprit/lang/cpp"
	"culprit/measure"
)

// preprocessor returns what options ask of C's preprocessor; nil: that it does not run. Their order
// counts.
func (r *Request) preprocessor() (*cpp.Config, error) {
	c := &cpp.Config{
		Arch:   runtime.GOARCH,
		Now:    time.Now(),
		System: systemHeaders(),
		Read:   readHeader,
	}
	on := false
	for _, o := range r.Options {
		name, value, _ := strings.Cut(o, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "cpp":
			on = check.OptionOn(value)
		case "define":
			c.Macros = append(c.Macros, cpp.Macro{Text: value})
		case "undef":
			c.Macros = append(c.Macros, cpp.Macro{Text: value, Undef: true})
		case "incdir":
			c.Dirs = append(c.Dirs, value)
		case "stdc":
			if len(value) == 1 {
				c.Standard = value[0]
			}
		case "cppargs":
			if err := cppArguments(c, value); err != nil {
				return nil, err
			}
		case "cpppath":
			return nil, fmt.Errorf(
				"-x cpppath=%s: the C preprocessor is culprit's own; run the other over the script, and give its output to -s -: %w",
				value, measure.ErrUnsupported,
			)
		}
	}
	if !on {
		return nil, nil
	}
	return c, nil
}

// cppArguments parses the value of -x cppargs: -D, -U and -I. headersShown handles -H.
func cppArguments(c *cpp.Config, args string) error {
	words := strings.Fields(args)
	for i := 0; i < len(words); i++ {
		flag, value := words[i], ""
		if len(flag) > 2 {
			flag, value = flag[:2], flag[2:]
		} else if slices.Contains([]string{"-D", "-U", "-I"}, flag) && i+1 < len(words) {
			i++
			value = words[i]
		}
		switch flag {
		case "-D", "-U":
			c.Macros = append(c.Macros, cpp.Macro{Text: value, Undef: flag == "-U"})
		case "-I":
			c.Dirs = append(c.Dirs, value)
		case "-H":
		default:
			return fmt.Errorf(
				"-x cppargs: %s: culprit's own C preprocessor knows -D, -U, -I and -H: %w",
				words[i], measure.ErrUnsupported,
			)
		}
	}
	return nil
}

// headersShown reports whether the names of included files are printed: -H, -x cpphdrs.
func (r *Request) headersShown() bool {
	on := false
	for _, o := range r.Options {
		name, value, _ := strings.Cut(o, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "cpphdrs":
			on = check.OptionOn(value)
		case "cppargs":
			on = on || slices.Contains(strings.Fields(value), "-H")
		}
	}
	return on
}

// systemHeaders returns the directories in which a C compiler of this machine looks for <files>,
// and its own first.
func systemHeaders() []string {
	own, _ := filepath.Glob("/usr/lib/gcc/*-linux-gnu/*/include")
	slices.Sort(own)
	dirs := own[max(len(own)-1, 0):]
	dirs = append(dirs, "/usr/local/include")
	if triple := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]; triple != "" {
		dirs = append(dirs, "/usr/include/"+triple)
	}
	return append(dirs, "/usr/include")
}

// readHeader reads a file to include. Only plain files are one: a device may have no end.
func readHeader(name string) ([]byte, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("it is no plain file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4*scriptMost))
}

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

// preprocessor returns the configuration of the C preprocessor from the options, whose order
// counts. It returns nil when the preprocessor does not run.
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
				"-x cpppath=%s: the C preprocessor is culprit's own; "+
					"run the other one, and pipe its output to -s -: %w",
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

// systemHeaders returns the directories in which the C compiler of this machine searches <files>.
func systemHeaders() []string {
	own, _ := filepath.Glob("/usr/lib/gcc/*-linux-gnu/*/include")
	slices.Sort(own)
	dirs := own[max(len(own)-1, 0):]
	dirs = append(dirs, "/usr/local/include")
	switch runtime.GOARCH {
	case "amd64":
		dirs = append(dirs, "/usr/include/x86_64-linux-gnu")
	case "arm64":
		dirs = append(dirs, "/usr/include/aarch64-linux-gnu")
	}
	return append(dirs, "/usr/include")
}

// readHeader reads a file to include. It fails for a file that is not regular, because a device may
// have no end.
func readHeader(name string) ([]byte, error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4*scriptMost))
}

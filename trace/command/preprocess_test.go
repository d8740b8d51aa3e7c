package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/lang/syntax"
	"culprit/measure"
)

// -C and its options work, and diagnostics have positions in the source files.
func TestPreprocessed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write("inc/size.h", "#define SIZE 40\ntypedef int size_h;\n")
	write("inc/odd.h", "\ninline int odd = nosuch;\n")
	script := write(
		"a.d",
		"#!/usr/sbin/dtrace -Cs\n#include \"inc/size.h\"\n#include <size.h>\n#define SHOW(x) printf(\"%s %d|\", #x, x)\n#pragma D option quiet\n"+
			"#ifdef WITH\nBEGIN { SHOW(SIZE + WITH); }\n#endif\nBEGIN { printf(\"%d %s|\", __LINE__, NAME); exit(0); }\n",
	)
	r := Request{
		Parts: []Part{{'n', "#define SIZE 3\nBEGIN { trace(SIZE); }"}, {'s', script}},
		Options: []string{
			"cpp",
			"define=WITH=2",
			"define=NAME=\"n\"",
			"undef=nosuch",
			"incdir=" + dir + "/inc",
			"cpphdrs",
			"quiet",
		},
	}
	_, out, errs := traced(t, r, nil)
	if strings.TrimSpace(out) != `3SIZE + WITH 42|9 n|` ||
		errs != ". "+dir+"/inc/size.h\n. "+dir+"/inc/size.h\n" {
		t.Errorf("printed %q and %q", out, errs)
	}

	// Later errors are reported at the line of the source, not of the preprocessed text.
	fault := write(
		"fault.d",
		"#include \"inc/size.h\"\n#define DEREF(p) *(int *)(p)\n\nBEGIN {\n\tx = DEREF(0);\n}\nERROR { exit(0); }\n",
	)
	_, _, errs = traced(
		t, Request{Parts: []Part{{'s', fault}}, Options: []string{"cpp", "quiet"}}, nil,
	)
	if !strings.Contains(errs, "at line 5 column 6: ") {
		t.Errorf("a fault is reported as %q", errs)
	}

	for _, c := range []struct{ name, text, want string }{
		{"macro.d", "#define BAD(x) (x + nosuch)\nBEGIN {\n\ttrace(BAD(2)); }", "macro.d:3:8: unknown name nosuch"},
		{"here.d", "#define F(x) x\nBEGIN { trace(\n\tF(nosuch)); }", "here.d:3:4: unknown name nosuch"},
		{"header.d", "#include \"inc/odd.h\"\nBEGIN { exit(odd); }", "inc/odd.h:2:18: unknown name nosuch"},
		{"syntax.d", "#define OPEN (\nBEGIN {\n  trace(OPEN 1); }", "syntax.d:3:"},
		{"missing.d", "\n#include <no/such.h>\n", "missing.d:2:1: file no/such.h not found"},
		{"device.d", "#include \"/dev/zero\"\n", "device.d:1:1: /dev/zero can't be read: it is not a regular file"},
	} {
		_, _, _, err := session(
			t.Context(), t,
			Request{Parts: []Part{{'s', write(c.name, c.text)}}, Options: []string{"cpp"}},
		)
		var ds syntax.Diagnostics
		if !errors.As(err, &ds) || !strings.HasPrefix(ds[0].Error(), dir+"/"+c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, option := range []string{"cpppath=/bin/cat", "cppargs=-dM"} {
		r := Request{Parts: []Part{{'n', "BEGIN { exit(0); }"}}, Options: []string{option}}
		if _, _, _, err := session(t.Context(), t, r); !errors.Is(err, measure.ErrUnsupported) {
			t.Errorf("-x %s: %v", option, err)
		}
	}
	r = Request{
		Parts: []Part{
			{'n', "#if defined A && B == 2 && !defined C\nBEGIN { exit(0); }\n#endif"},
		},
		Options:     []string{"cppargs=-DA -D B=2 -H -UC", "cpp=on"},
		CompileOnly: true,
	}
	if _, _, _, err := session(context.Background(), t, r); err != nil {
		t.Error(err)
	}
}

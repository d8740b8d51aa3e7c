package syntax_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"

	"culprit/lang/syntax"
)

// same reports whether two trees are equal except for their spans.
func same(a, b any) bool {
	return reflect.DeepEqual(strip(reflect.ValueOf(a)), strip(reflect.ValueOf(b)))
}

// strip returns a tree as nested lists of its values, without the spans.
func strip(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return strip(v.Elem())
	case reflect.Slice:
		out := []any{}
		for i := range v.Len() {
			out = append(out, strip(v.Index(i)))
		}
		return out
	case reflect.Struct:
		out := []any{v.Type().Name()}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Span" {
				out = append(out, strip(v.Field(i)))
			}
		}
		return out
	}
	return v.Interface()
}

// codes returns the constants of type Code with the Example of each.
func codes(t testing.TB) map[string]string {
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		code := strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)
		if _, twice := out[code]; twice {
			t.Errorf("two codes are %s", code)
		}
		_, example, _ := strings.Cut(v.Doc.Text(), "Example: ")
		out[code] = strings.TrimSuffix(example, "\n")
		return true
	})
	return out
}

func TestExamplesOfCodes(t *testing.T) {
	all := codes(t)
	if len(all) < 30 {
		t.Fatalf("found %d codes", len(all))
	}
	for code, example := range all {
		mode := syntax.Mode{}
		text := strings.ReplaceAll(example, `\n`, "\n")
		switch syntax.Code(code) {
		case syntax.LongText:
			text = strings.Repeat(" ", syntax.MaxText+1)
		case syntax.UnknownMacro:
			mode.Macros = func(string) (string, bool) { return "", false }
		}
		prog, ds := syntax.Parse(text, mode)
		if prog != nil {
			t.Errorf("%s: its example parses: %s", code, example)
			continue
		}
		if syntax.Code(code) == syntax.TooMany {
			ds = ds[len(ds)-1:]
		}
		if len(ds) != 1 || string(ds[0].Code) != code {
			t.Errorf("%s: its example returns something else: %s", code, example)
			for _, d := range ds {
				t.Errorf("  %s\n%s", d.Code, d.Marked())
			}
		}
	}
}

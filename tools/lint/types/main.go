// Command types says whether Go packages compile, as far as types tell, without compiling what they import: for another
// architecture, or of a module of its own, that would be minutes for an answer that nobody runs.
//
//	types [-arch arm64] DIR PATTERN...
//
// Bodies of functions are looked at in the named packages only. It prints each mistake, and exits with 1 when there was one. It
// does not see what the compiler's later steps refuse, nor assembly.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	arch := flag.String("arch", "", "GOARCH of the packages; the machine's when empty")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: types [-arch ARCH] DIR PATTERN...")
		os.Exit(2)
	}
	if err := check(*arch, flag.Arg(0), flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(arch, dir string, patterns []string) error {
	root, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if arch != "" {
		env = append(env, "GOARCH="+arch)
	}
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes |
			packages.NeedModule | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir: root, Env: env,
		ParseFile: func(set *token.FileSet, name string, text []byte) (*ast.File, error) {
			f, err := parser.ParseFile(set, name, text, parser.AllErrors|parser.SkipObjectResolution)
			if err == nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				for _, d := range f.Decls {
					if d, ok := d.(*ast.FuncDecl); ok {
						d.Body = nil
					}
				}
			}
			return f, err
		},
	}, patterns...)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%s: no packages match %s", dir, strings.Join(patterns, " "))
	}
	mistakes := 0
	for _, p := range all {
		for _, e := range p.Errors {
			fmt.Println(e)
			mistakes++
		}
	}
	if mistakes > 0 {
		return fmt.Errorf("%d mistakes in %d packages", mistakes, len(all))
	}
	return nil
}

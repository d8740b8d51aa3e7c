package check_test

import (
	"strings"
	"testing"

	"culprit/lang/check"

	"github.com/cilium/ebpf/btf"
)

// d_path takes a struct path, a pointer to one or to a struct file, and nothing else.
func TestPathArgument(t *testing.T) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skipf("needs: kernel feature BTF: %v", err)
	}
	for _, tt := range []struct {
		name, arg string
		says      string // "": it is accepted
	}{
		{"a pointer", "&curthread->fs->pwd", ""},
		{"a struct", "curthread->fs->pwd", ""},
		{"a file", "curthread->files->fdt->fd[0]", ""},
		{"NULL", "NULL", ""},
		{"a cast number", "(struct path *)arg0", ""},
		{"another struct", "curthread->fs", "can't be struct fs_struct *"},
		{"a dentry", "curthread->fs->pwd.dentry", "can't be struct dentry *"},
		{"a string", "execname", "can't be string"},
		{"a number", "arg0", "can't be int64_t"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "BEGIN { trace(d_path(" + tt.arg + ")); }"
			p, ds := compile(text, check.Options{}, &env{spec: spec})
			if tt.says == "" {
				if ds != nil {
					t.Fatal(ds.Marked())
				}
				checkTree(t, p)
				return
			}
			if ds == nil || !strings.Contains(ds.Error(), tt.says) {
				t.Errorf("%v, want %q", ds, tt.says)
			}
			if ds != nil && !strings.Contains(ds[0].Hint, "string d_path(struct path *)") {
				t.Errorf("the hint is %q", ds[0].Hint)
			}
		})
	}
}

// file_part is for the libraries only.
func TestFilePartIsUnknown(t *testing.T) {
	_, ds := compile(`BEGIN { trace(file_part(curthread, "path")); }`, check.Options{}, &env{})
	if ds == nil || !strings.Contains(ds.Error(), "unknown function file_part") {
		t.Errorf("%v", ds)
	}
}

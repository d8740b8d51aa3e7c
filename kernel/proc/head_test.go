package proc

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"culprit/kernel"
	"culprit/measure"
)

func TestReadPIDHead(t *testing.T) {
	d, err := OpenProcDir(kernel.Root{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	buf := make([]byte, 3)
	if b, err := d.ReadPIDHead(int32(os.Getpid()), "cmdline", buf); err != nil ||
		string(b) != os.Args[0][:3] {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := d.ReadPIDHead(1<<30, "cmdline", buf); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := d.ReadPIDHead(int32(os.Getpid()), "attr", buf); err == nil ||
		errors.Is(err, measure.ErrDenied) {
		t.Errorf("a directory: %v", err)
	}
}

package proc

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"culprit/kernel"
	"culprit/measure"
)

func TestReadPIDAt(t *testing.T) {
	d, err := OpenProcDir(kernel.Root{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	buf := make([]byte, 3)
	if b, err := d.ReadPIDAt(int32(os.Getpid()), "cmdline", 1, buf); err != nil ||
		string(b) != os.Args[0][1:4] {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := d.ReadPIDAt(1<<30, "cmdline", 0, buf); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := d.ReadPIDAt(int32(os.Getpid()), "attr", 0, buf); err == nil ||
		errors.Is(err, measure.ErrDenied) {
		t.Errorf("a directory: %v", err)
	}
}

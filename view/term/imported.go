package term

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"culprit/captured"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Limits of --import.
const (
	maxImportBytes = 128 << 20 // of all files
	maxImportFiles = 2000      // of a directory
)

const importHelp = `With --import it reads tables that somebody captured, and not this machine: the output of mpstat,
vmstat, iostat, sar, nicstat, lockstat, dtrace, top, ss, ethtool and others, as it was pasted into a
ticket. Headers may be missing, and prompts and prose may stand around them. It reports what the
numbers allow, what they rule out, and which command shows the rest.`

func (d *diagnosis) importFlag(f *pflag.FlagSet) {
	f.StringArrayVar(&d.imported, "import", nil,
		"diagnose the tables in these files; - is standard input, a directory all its files")
}

// files accepts arguments only after --import: they are further files.
func (d *diagnosis) files(_ *cobra.Command, args []string) error {
	if len(d.imported) > 0 || len(args) == 0 {
		return nil
	}
	return usagef("culprit diagnose takes no argument %q; --import %s reads the tables in a file",
		args[0], args[0])
}

// importTables diagnoses captured tables. A file without a table is a note when another has one.
func (d *diagnosis) importTables(p Program, c *cobra.Command, names []string) error {
	for _, flag := range []string{"for", "netns", "from", "to", "at"} {
		if c.Flags().Changed(flag) {
			return usagef("--import and --%s exclude each other: tables have their own time", flag)
		}
	}
	if p.ReadsFiles != nil {
		p.ReadsFiles()
	}
	i := &importer{left: maxImportBytes}
	for _, name := range names {
		if err := i.add(name); err != nil {
			return err
		}
	}
	if len(i.captures) == 0 {
		return errors.Join(i.failed...)
	}
	report := captured.Diagnose(i.captures)
	for _, err := range i.failed {
		text, _, _ := strings.Cut(err.Error(), " was recognized;")
		report.Notes = append(report.Notes, text)
	}
	return d.printReport(p, report)
}

// An importer reads files with a limit on their sum.
type importer struct {
	captures []*captured.Capture
	failed   []error
	left     int64
}

// add reads a file, standard input or a directory. Its error is that of opening or reading.
func (i *importer) add(name string) error {
	if name == "-" {
		return i.read("standard input", os.Stdin)
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return i.directory(name)
	}
	return i.file(name, name)
}

func (i *importer) file(name, label string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return i.read(label, f)
}

func (i *importer) read(label string, r io.Reader) error {
	limit := min(captured.MaxFile, i.left)
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return fmt.Errorf("%s: %w", label, err)
	}
	if int64(len(text)) > limit {
		return fmt.Errorf("%s: more than %d MB in a file or %d MB in all: cut it to the tables",
			label, captured.MaxFile>>20, maxImportBytes>>20)
	}
	i.left -= int64(len(text))
	c, err := captured.Read(filepath.Base(label), string(text))
	if err != nil {
		i.failed = append(i.failed, err)
		return nil
	}
	i.captures = append(i.captures, c)
	return nil
}

// directory reads the files of a directory, and of a sosreport those that contain tables.
func (i *importer) directory(dir string) error {
	sos := false
	if _, err := os.Stat(filepath.Join(dir, "sos_commands")); err == nil {
		sos = true
	}
	n := 0
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(dir, name)
		if !e.Type().IsRegular() || sos && !captured.InSosreport(filepath.ToSlash(relative)) {
			return nil
		}
		if n++; n > maxImportFiles {
			return fmt.Errorf("%s: more than %d files: name those that contain tables", dir,
				maxImportFiles)
		}
		return i.file(name, relative)
	})
	if err == nil && len(i.captures) == 0 && len(i.failed) == 0 {
		return fmt.Errorf("%s: no file in it contains a table", dir)
	}
	return err
}

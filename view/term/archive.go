package term

import (
	"fmt"
	"strconv"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/term/output"

	"github.com/spf13/cobra"
)

// Archive is the archive of a directory, as files.
type Archive interface {
	// Check returns the damaged files after reading all of the archive, and changes nothing. A
	// server may be running.
	Check() ([]DamagedFile, error)
	// Repair leaves out what cannot be read. It returns the damaged files and the directory that
	// they are in now, "" if none was moved. It fails while a server is running.
	Repair() (all []DamagedFile, aside string, err error)
	// List returns what is recorded.
	List() (Recordings, error)
}

// DamagedFile is a file of an archive that is not as it was written.
type DamagedFile struct{ Name, What string }

// Recordings are what an archive and its damaged files contain.
type Recordings struct {
	Datasets []RecordedDataset
	Damaged  []DamagedDirectory
	Problems []string // of the archive
}

// RecordedDataset is a dataset of an archive.
type RecordedDataset struct {
	Dataset measure.Dataset
	Stored  measure.Stored
}

// DamagedDirectory contains files that an archive has left out because they were damaged.
type DamagedDirectory struct {
	Path  string
	Made  time.Time
	Bytes int64
}

// archive returns the command that lists, checks and repairs an archive.
func (p Program) archive() *cobra.Command {
	var dir string
	with := func(do func(Archive) error) func(*cobra.Command, []string) error {
		return func(*cobra.Command, []string) error {
			a, err := p.Archive(dir)
			if err != nil {
				return err
			}
			return do(a)
		}
	}
	list := with(func(a Archive) error { return p.listArchive(a) })
	c := &cobra.Command{
		Use:   "archive",
		Short: "what culprit serve has recorded, as files: list, check, repair",
		Long: reflow(
			`culprit serve repairs its archive at each start: a damaged file costs what cannot be read of it,
is named among the problems, and is moved to a directory next to the archive, archive.damaged-TIME. These
directories are part of --size and are deleted when they are as old as --keep allows for seconds. "check" reads
all of the archive, which a start does only up to 32 MB, and changes nothing. "repair" does what a start
does, for all of it. The server must not be running.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{Line: "culprit archive", Means: "what is recorded, and damaged files"},
			{Line: "culprit archive check", Means: "name each damaged file"},
			{Line: "culprit archive repair", Means: "leave out what cannot be read"},
			{
				Line:  "culprit cpu --at 2026-03-01T12:00 --dir /var/lib/culprit/archive.damaged-20260302T080000",
				Means: "read what can be read of damaged files",
			},
		}),
		Args: cobra.ArbitraryArgs,
		RunE: listOr(list),
	}
	c.PersistentFlags().StringVar(
		&dir, "dir", "",
		"directory of the recording (default: $CULPRIT_DIR, or that of culprit serve)",
	)
	sub := func(use, short string, run func(Archive) error) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: exactly(0, "no arguments"), RunE: with(run),
			ValidArgsFunction: cobra.NoFileCompletions,
		}
	}
	c.AddCommand(
		sub("ls", "list what is recorded, and damaged files", p.listArchive),
		sub("check", "name each damaged file; the status is 1 if there is one", p.checkArchive),
		sub("repair", "leave out what cannot be read; the server must be stopped", p.repairArchive),
	)
	return c
}

func (p Program) listArchive(a Archive) error {
	all, err := a.List()
	if err != nil {
		return err
	}
	for _, text := range all.Problems {
		if _, err := fmt.Fprintln(p.Terminal.Err, "note:", text); err != nil {
			return err
		}
	}
	out := output.Text{
		Out: p.Terminal.Out, Width: p.Terminal.Width, Bold: p.Terminal.Colour,
	}
	if err := out.Table(recordedTable(all.Datasets)); err != nil {
		return err
	}
	for _, d := range all.Damaged {
		if _, err := fmt.Fprintf(
			p.Terminal.Out, "damaged files of %s: %s in %s\n",
			formatTime(measure.Time(d.Made.UnixNano())), view.FormatBytes(float64(d.Bytes)),
			view.Clean(d.Path),
		); err != nil {
			return err
		}
	}
	return nil
}

// recordedTable returns the table of datasets.
func recordedTable(all []RecordedDataset) *view.Table {
	t := &view.Table{View: "archive", Columns: []view.Column{
		{Name: "id", Head: "ID", Width: 4, Help: "number of the dataset"},
		{Head: "From", Width: 19, Left: true, Help: "start of the oldest value"},
		{Head: "To", Width: 19, Left: true, Help: "end of the newest value"},
		{Head: "Bytes", Width: 7, Help: "size on disk"},
		{Name: "query", Head: "Query", Left: true, Help: "what is recorded"},
	}}
	var over measure.Interval
	var bytes int64
	row := func(id string, over measure.Interval, bytes int64, query string) {
		from, to := "-", "-"
		if over.End > over.Start {
			from, to = formatTime(over.Start), formatTime(over.End)
		}
		t.Rows = append(t.Rows, view.Row{Key: id, Cells: []view.Cell{
			view.T(id), view.T(from), view.T(to), view.T(view.FormatBytes(float64(bytes))),
			view.T(query),
		}})
	}
	for _, d := range all {
		row(strconv.Itoa(int(d.Dataset.ID)), d.Stored.Over, d.Stored.Disk, d.Dataset.Query.String())
		bytes += d.Stored.Disk
		if d.Stored.Over.End > 0 {
			if over.End == 0 {
				over = d.Stored.Over
			}
			over.Start = min(over.Start, d.Stored.Over.Start)
			over.End = max(over.End, d.Stored.Over.End)
		}
	}
	row("all", over, bytes, fmt.Sprintf("%d datasets", len(all)))
	return t
}

func (p Program) checkArchive(a Archive) error {
	all, err := a.Check()
	if err != nil {
		return err
	}
	if err := p.printDamaged(all); err != nil {
		return err
	}
	if len(all) == 0 {
		_, err = fmt.Fprintln(p.Terminal.Out, "No file is damaged.")
		return err
	}
	return fmt.Errorf(
		"%s damaged: stop the server, if one runs, and run `culprit archive repair`",
		files(len(all)),
	)
}

func (p Program) repairArchive(a Archive) error {
	all, aside, err := a.Repair()
	if printed := p.printDamaged(all); err == nil {
		err = printed
	}
	if err != nil {
		return err
	}
	text := "No file is damaged."
	if len(all) > 0 {
		text = "The archive is repaired."
		if aside != "" {
			text += " The damaged files are now in " + view.Clean(aside)
		}
	}
	_, err = fmt.Fprintln(p.Terminal.Out, text)
	return err
}

func (p Program) printDamaged(all []DamagedFile) error {
	for _, d := range all {
		if _, err := fmt.Fprintf(
			p.Terminal.Out, "%s: %s\n", view.Clean(d.Name), view.Clean(d.What),
		); err != nil {
			return err
		}
	}
	return nil
}

func files(n int) string {
	if n == 1 {
		return "1 file is"
	}
	return fmt.Sprintf("%d files are", n)
}

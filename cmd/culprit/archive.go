package main

import (
	"context"
	"errors"
	"io/fs"

	"culprit/measure"
	"culprit/store"
	"culprit/view/term"
)

// archiveFiles implements term.Archive for the archive in a recording directory, or for a directory
// of damaged files.
type archiveFiles struct{ dir string }

// openArchiveFiles returns the archive of a directory. Whether there is one is found out later.
func openArchiveFiles(requested string) (term.Archive, error) {
	dir, err := userDirectory(requested)
	return archiveFiles{dir}, err
}

func damagedFiles(all []store.Damage) []term.DamagedFile {
	out := make([]term.DamagedFile, len(all))
	for i, d := range all {
		out[i] = term.DamagedFile{Name: d.File, What: d.What}
	}
	return out
}

// Check implements term.Archive.
func (a archiveFiles) Check() ([]term.DamagedFile, error) {
	all, err := store.Check(filesPath(a.dir))
	return damagedFiles(all), archiveError(a.dir, err)
}

// Repair implements term.Archive.
func (a archiveFiles) Repair() ([]term.DamagedFile, string, error) {
	if err := checkDirectory(a.dir); err != nil {
		return nil, "", err
	}
	all, aside, err := store.Repair(filesPath(a.dir))
	return damagedFiles(all), aside, archiveError(a.dir, err)
}

// List implements term.Archive. The datasets are those of the running server if there is one.
func (a archiveFiles) List() (r term.Recordings, err error) {
	damaged, err := store.DamagedDirectories(archivePath(a.dir))
	if err != nil {
		return r, archiveError(a.dir, err)
	}
	for _, d := range damaged {
		r.Damaged = append(
			r.Damaged, term.DamagedDirectory{Path: d.Path, Made: d.Time, Bytes: d.Bytes},
		)
	}
	c, err := dial(a.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return r, a.listFiles(&r)
	}
	if err != nil {
		return r, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	all, err := runningServer{c}.Datasets(ctx)
	for _, d := range all {
		r.Datasets = append(
			r.Datasets, term.RecordedDataset{Dataset: d.Dataset, Stored: d.Held},
		)
	}
	return r, err
}

// listFiles adds the datasets of an archive that no server has open.
func (a archiveFiles) listFiles(r *term.Recordings) error {
	s, err := store.OpenReadOnly(filesPath(a.dir))
	if err != nil {
		return archiveError(a.dir, err)
	}
	for _, d := range s.Datasets() {
		r.Datasets = append(
			r.Datasets, term.RecordedDataset{Dataset: d, Stored: s.Held(d.ID)},
		)
	}
	for _, p := range s.Problems() {
		r.Problems = append(r.Problems, p.Text)
	}
	return s.Close()
}

// filesPath returns the directory of the archive's files: that of the recording directory, or dir
// itself if it is a directory of damaged files.
func filesPath(dir string) string {
	if path := archivePath(dir); store.IsArchive(path) || !store.IsArchive(dir) {
		return path
	}
	return dir
}

// archiveError says what to do about an error of opening the archive of a directory.
func archiveError(dir string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothingRecorded(dir)
	case errors.Is(err, fs.ErrPermission):
		return &measure.Denied{
			Doing: "open " + dir,
			Needs: "to be root or the user that recorded there",
		}
	}
	return err
}

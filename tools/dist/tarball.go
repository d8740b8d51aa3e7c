package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// tarball writes the archive that is unpacked below /usr/local: one directory named after it, with
// bin, lib and share, and the settings as examples in share/culprit. stage is an empty directory.
func (r *release) tarball(arch, stage, program string) error {
	if err := r.stage(stage, "usr/local", program); err != nil {
		return err
	}
	top := filepath.Join(stage, "usr/local")
	for _, f := range []struct{ from, to string }{
		{"packaging/culprit.default", "share/culprit/culprit.default"},
		{"packaging/culprit.yaml", "share/culprit/culprit.yaml"},
		{"LICENSE", "share/doc/culprit/LICENSE"},
		{"CHANGELOG.md", "share/doc/culprit/CHANGELOG.md"},
	} {
		if err := copyFile(filepath.Join(r.root, f.from), filepath.Join(top, f.to), 0o644); err != nil {
			return err
		}
	}
	if err := setTimes(stage, r.time); err != nil {
		return err
	}
	f, err := os.Create(r.file(arch, ".tar.gz"))
	if err != nil {
		return err
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression) // the level is valid
	w := tar.NewWriter(z)
	err = addTree(w, top, "culprit-"+r.version+"-linux-"+arch, r.time)
	return errors.Join(err, w.Close(), z.Close(), f.Close())
}

// addTree adds a directory under another name: in the order of names, owned by root, all of one
// time.
func addTree(w *tar.Writer, dir, name string, at time.Time) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h := &tar.Header{
			Name: filepath.Join(name, below), Mode: int64(info.Mode().Perm()), ModTime: at,
			Format: tar.FormatUSTAR, Typeflag: tar.TypeDir, Uname: "root", Gname: "root",
		}
		if d.IsDir() {
			h.Name += "/"
			return w.WriteHeader(h)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}

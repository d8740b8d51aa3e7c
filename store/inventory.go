package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// inventoryName is the file that lists the others. It is written when the archive is closed and
// removed when it is opened: a program that was killed leaves none.
const inventoryName = "FILES"

// inventory lists the files of a closed archive by name.
type inventory struct {
	Files map[string]fileState `json:"files"`
	Sum   uint32               `json:"sum"` // CRC-32C of Files as JSON
}

// fileState is what an inventory knows of a file.
type fileState struct {
	Size int64   `json:"size"`
	Sum  *uint32 `json:"sum,omitempty"` // CRC-32C; nil: it is a table, which has checksums
}

// maxSummed limits the bytes of a file that an inventory has a checksum of.
const maxSummed = 16 << 20

func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }
func isLog(name string) bool   { return strings.HasSuffix(name, ".log") }

// stateOf returns the state of a file.
func stateOf(on vfs.FS, path string, table bool) (s fileState, err error) {
	info, err := on.Stat(path)
	if err != nil {
		return s, err
	}
	s.Size = info.Size()
	if table || s.Size > maxSummed {
		return s, nil
	}
	b, err := readFile(on, path)
	sum := crc32.Checksum(b, castagnoli)
	s.Sum = &sum
	return s, err
}

func readFile(on vfs.FS, path string) ([]byte, error) {
	f, err := on.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// writeFile writes a file and syncs it.
func writeFile(on vfs.FS, path string, write func(io.Writer) error) error {
	f, err := on.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Sync(), f.Close())
}

// writeInventory writes the inventory of a closed archive.
func writeInventory(on vfs.FS, dir string) error {
	names, err := on.List(dir)
	if err != nil {
		return err
	}
	v := inventory{Files: map[string]fileState{}}
	for _, name := range names {
		if name == "LOCK" || name == inventoryName {
			continue
		}
		if v.Files[name], err = stateOf(on, on.PathJoin(dir, name), isTable(name)); err != nil {
			return err
		}
	}
	b, err := v.sealed()
	if err != nil {
		return err
	}
	return writeFile(on, on.PathJoin(dir, inventoryName), func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// sealed returns the inventory as JSON with its checksum.
func (v *inventory) sealed() ([]byte, error) {
	files, err := json.Marshal(v.Files)
	if err != nil {
		return nil, err
	}
	v.Sum = crc32.Checksum(files, castagnoli)
	return json.Marshal(v)
}

// readInventory returns the inventory, nil when there is none, and an error when it is damaged.
func readInventory(on vfs.FS, dir string) (*inventory, error) {
	b, err := readFile(on, on.PathJoin(dir, inventoryName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var v inventory
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, errors.New("it cannot be read")
	}
	sum := v.Sum
	if _, err := v.sealed(); err != nil || v.Sum != sum {
		return nil, errors.New("its checksum does not match")
	}
	return &v, nil
}

// differences returns what is wrong with each file, by name. A file that is not in the inventory is
// not wrong.
func (v *inventory) differences(on vfs.FS, dir string) map[string]string {
	out := map[string]string{}
	for name, want := range v.Files {
		got, err := stateOf(on, on.PathJoin(dir, name), isTable(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out[name] = "it is missing"
		case err != nil:
			out[name] = err.Error()
		case got.Size != want.Size:
			out[name] = fmt.Sprintf("it has %d bytes instead of %d", got.Size, want.Size)
		case want.Sum != nil && got.Sum != nil && *got.Sum != *want.Sum:
			out[name] = "its content has changed"
		}
	}
	return out
}

package cases

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// damageStories are a file system with a damaged directory, and a twin that is whole.
func damageStories() []Story {
	return []Story{
		{Name: "filesystem-damaged", Twin: "filesystem-whole",
			Needs: func() string { return needTool("mkfs.ext4") },
			Help:  "a program lists a directory that is damaged on its disk, four times a second",
			build: listing(true)},
		{Name: "filesystem-whole", Light: true,
			Needs: func() string { return needTool("mkfs.ext4") },
			Help:  "the same directory as it was made",
			build: listing(false)},
	}
}

// listing has a program that lists a directory of 50 files.
func listing(damaged bool) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		mount := l.Filesystem("mail", 48)
		dir := filepath.Join(mount, "queue")
		if l.err == nil {
			l.fail(os.Mkdir(dir, 0o777))
			for i := range 50 {
				l.fail(os.WriteFile(filepath.Join(dir, fmt.Sprintf("letter-%02d", i)), nil, 0o666))
			}
		}
		if damaged {
			l.damage(mount, "letter-20")
		}
		d := sc.load(Program{Name: "mailer", Act: "list", Args: []string{"-in", dir}})
		sc.try("dmesg | tail; ls %s", dir)
		if !damaged {
			sc.Truth = Truth{Never: []string{"kernel-events", "calls-fail"},
				Expect: []Range{failures(d, 0, 0), done(d, 3, 5)}}
			return
		}
		device := strings.TrimSpace(l.tool("findmnt", "-n", "-o", "SOURCE", mount))
		sc.Truth = Truth{Rule: "kernel-events", Kind: []string{"filesystem"}, Lowest: "high",
			Names: []string{filepath.Base(device)}, Never: []string{"calls-fail"},
			Expect: []Range{failures(d, 3, 5), done(d, 0, 0)}}
	}
}

// damage damages the directory that has a file of the name, on the disk. The file system is mounted
// again, and goes on after errors.
func (l *Lab) damage(mount, name string) {
	image := mount + ".img"
	l.tool("umount", mount)
	if l.err != nil {
		return
	}
	b, err := os.ReadFile(image)
	if err != nil {
		l.fail(fmt.Errorf("read the image of a file system: %w", err))
		return
	}
	// An entry of a directory is inode 4, length 2, length of the name 1, type 1, name.
	at := bytes.Index(b, []byte(name))
	if at < 8 {
		l.fail(errors.New("find an entry of a directory: it is not in the image"))
		return
	}
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		l.fail(fmt.Errorf("open the image of a file system: %w", err))
		return
	}
	_, err = f.WriteAt([]byte{0xff, 0x7f}, int64(at-4))
	l.fail(errors.Join(err, f.Close()))
	l.tool("mount", "-o", "loop,errors=continue", image, mount)
}

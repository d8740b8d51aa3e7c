package cases

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// pipeStories are a program that writes to a pipe which nobody reads, and a twin in which it is
// read.
func pipeStories() []Story {
	return []Story{
		{Name: "pipe-wait", Twin: "pipe-read",
			Help:  "a program writes to a FIFO, and the one that has it open does not read",
			build: pipeScene(true)},
		{Name: "pipe-read", Light: true,
			Help:  "the same, and it is read",
			build: pipeScene(false)},
	}
}

func pipeScene(never bool) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		fifo := filepath.Join(l.Dir(), "spool")
		if l.err == nil {
			l.fail(unix.Mkfifo(fifo, 0o600))
		}
		reader := sc.load(Program{Name: "importer", Act: "take", Args: []string{"-fifo", fifo,
			fmt.Sprintf("-never=%v", never)}})
		writer := sc.load(Program{Name: "exporter", Act: "put", Args: []string{"-fifo", fifo}})
		sc.try("cat /proc/%d/task/*/wchan; ls -l /proc/%d/fd", writer.PID, reader.PID)
		if !never {
			sc.Truth = Truth{Never: []string{"pipe-wait"}, Expect: []Range{done(writer, 95, 101)}}
			return
		}
		sc.Truth = Truth{Rule: "pipe-wait", Kind: []string{"process"}, Names: []string{"importer"},
			PID: reader.PID, Lowest: "medium", Expect: []Range{done(writer, 0, 0)}}
	}
}

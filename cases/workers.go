package cases

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// countsTurns is the descriptor on which a worker reports its turns. Those before it are the files
// of its act.
const countsTurns = 4

// startWorkers starts n processes of this name with the arguments. Descriptor 3 is file, which may
// be nil. They end when this process does. turns has a byte for each call of countTurn;
// stop ends the workers.
func startWorkers(args []string, n int, file *os.File) (turns *os.File,
	stop func(), err error) {
	turns, counted, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer counted.Close()
	var all []*os.Process
	stop = func() {
		for _, p := range all {
			p.Kill()
			p.Wait()
		}
	}
	for range n {
		p, err := os.StartProcess(os.Args[0], append([]string{os.Args[0]}, args...),
			&os.ProcAttr{Env: os.Environ(),
				Files: []*os.File{nil, nil, os.Stderr, file, counted},
				Sys:   &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}})
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("start a worker: %w", err)
		}
		all = append(all, p)
	}
	return turns, stop, nil
}

// countTurns counts the turns of workers until the last one has ended.
func countTurns(turns *os.File, t *tally) {
	for b := make([]byte, 4096); ; {
		n, err := turns.Read(b)
		if err != nil {
			return
		}
		t.ops.Add(int64(n))
	}
}

// countTurn reports a turn of this worker.
func countTurn() error {
	_, err := unix.Write(countsTurns, []byte{1})
	return err
}

package term

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// commandArgs accepts a command after --.
func commandArgs(c *cobra.Command, args []string) error {
	if at := c.ArgsLenAtDash(); len(args) > 0 && at != 0 {
		return usagef("%q is no flag; a command to profile comes after --: culprit profile -- %s",
			args[0], args[0])
	}
	return nil
}

// useCommand makes the profile one of a command; args empty: there is none.
func (q *Profiling) useCommand(args []string, recorded, forGiven bool) error {
	switch {
	case len(args) == 0:
		return nil
	case recorded:
		return usagef("a command is profiled now: --at, --from and --to are for recorded samples")
	case !q.allThreads():
		return usagef("a command excludes --pid, --thread, --process and --cgroup")
	}
	q.Command = args
	if !forGiven {
		q.For = 0
	}
	return nil
}

// clearLine clears the line of the progress.
const clearLine = "\r\x1b[K"

// profileProgress returns a function that shows the progress of a profile, or nil where standard
// error is not a terminal.
func profileProgress(t Terminal, whole time.Duration) func(ProfileProgress) {
	if !t.ErrTTY {
		return nil
	}
	return func(now ProfileProgress) { fmt.Fprint(t.Err, clearLine+now.line(whole)) }
}

// line returns the progress as text. whole is the planned duration; 0: none.
func (now ProfileProgress) line(whole time.Duration) string {
	text := fmt.Sprintf("%.0f s", now.Took.Seconds())
	if whole > 0 {
		text = fmt.Sprintf("%.0f of %.0f s", now.Took.Seconds(), whole.Seconds())
	}
	if now.Samples > 0 {
		text += fmt.Sprintf(", %d samples, %.1f %% without a name", now.Samples,
			100*float64(now.Unnamed)/float64(now.Samples))
	}
	return text
}

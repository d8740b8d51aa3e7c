package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// rootsDirectory is where root records.
const rootsDirectory = "/var/lib/culprit"

// directory gives where this user records, as an absolute path: as was asked for, or $CULPRIT_DIR,
// or for root /var/lib/culprit, for others culprit below $XDG_STATE_HOME or ~/.local/state. It need
// not be there. In it are archive/, token and culprit.sock.
func directory(asked string, uid int, env func(string) string) (string, error) {
	home := env("XDG_STATE_HOME")
	if !filepath.IsAbs(home) { // the XDG specification has relative ones ignored
		home = ""
	}
	if home == "" && env("HOME") != "" {
		home = filepath.Join(env("HOME"), ".local", "state")
	}
	switch {
	case asked != "":
	case env("CULPRIT_DIR") != "":
		asked = env("CULPRIT_DIR")
	case uid == 0:
		asked = rootsDirectory
	case home != "":
		asked = filepath.Join(home, "culprit")
	default:
		return "", fmt.Errorf(
			"where to record is not known: HOME is not set; give --dir or CULPRIT_DIR",
		)
	}
	dir, err := filepath.Abs(asked)
	if err != nil {
		return "", fmt.Errorf("find directory %s: %w", asked, err)
	}
	return dir, nil
}

// myDirectory is directory for who runs this.
func myDirectory(asked string) (string, error) { return directory(asked, os.Geteuid(), os.Getenv) }

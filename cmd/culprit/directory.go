package main

import (
	"fmt"
	"os"
	"path/filepath"

	"culprit/confine"
	"culprit/trusted"
)

// rootDirectory is the recording directory of root.
const rootDirectory = "/var/lib/culprit"

// recordDirectory returns the recording directory of a user as an absolute path. It may not exist.
// The first of these is used:
//
//   - requested, from --dir
//   - $CULPRIT_DIR
//   - /var/lib/culprit for root
//   - culprit in $XDG_STATE_HOME, else in ~/.local/state
//
// The directory contains archive/, token and culprit.sock. It is an error if none applies.
func recordDirectory(requested string, uid int, env func(string) string) (string, error) {
	home := env("XDG_STATE_HOME")
	if !filepath.IsAbs(home) { // the XDG specification ignores relative paths
		home = ""
	}
	if home == "" && env("HOME") != "" {
		home = filepath.Join(env("HOME"), ".local", "state")
	}
	switch {
	case requested != "":
	case env("CULPRIT_DIR") != "":
		requested = env("CULPRIT_DIR")
	case uid == 0:
		requested = rootDirectory
	case home != "":
		requested = filepath.Join(home, "culprit")
	default:
		return "", fmt.Errorf(
			"no recording directory: HOME is not set; set it, --dir or CULPRIT_DIR",
		)
	}
	dir, err := filepath.Abs(requested)
	if err != nil {
		return "", fmt.Errorf("find directory %s: %w", requested, err)
	}
	return dir, nil
}

// userDirectory is recordDirectory for the effective user of this process.
func userDirectory(requested string) (string, error) {
	return recordDirectory(requested, os.Geteuid(), os.Getenv)
}

// checkDirectory checks that nobody but this user and root can change the directory of what is
// recorded, and what a server trusts in it: its tokens and the archive. It need not exist.
func checkDirectory(dir string) error {
	var also []int
	if os.Geteuid() == 0 {
		also = confine.Trusted() // the user of the server that root has started
	}
	if err := trusted.Directory(dir, also...); err != nil {
		return fmt.Errorf("record in %s: %w, or choose another directory with --dir", dir, err)
	}
	for _, path := range []string{
		filepath.Join(dir, "token"), tokensPath(dir), tokensPath(dir) + ".lock", sessionsPath(dir),
		notesPath(dir), worksheetsPath(dir), socketPath(dir),
	} {
		if err := trusted.Entry(path, also...); err != nil {
			return fmt.Errorf("record in %s: %w", dir, err)
		}
	}
	if err := trusted.Tree(archivePath(dir), also...); err != nil {
		return fmt.Errorf("record in %s: %w", dir, err)
	}
	return nil
}

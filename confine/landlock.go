package confine

import (
	"fmt"

	"github.com/landlock-lsm/go-landlock/landlock"
)

// configuration is files and directories as the server needs them: names and certificates of
// servers that remote write sends to, time zones.
func configuration() []string {
	return []string{
		"/etc", "/usr/share/zoneinfo", "/usr/share/ca-certificates",
		"/usr/local/share/ca-certificates", "/usr/lib/ssl", "/usr/share/pki",
		"/run/systemd/resolve", "/run/resolvconf",
	}
}

// own files of /proc that the server reads.
var procFiles = []string{"/proc/self/statm", "/proc/locks"} // table: only read

// NoFiles takes from this process all files and connections that it has not opened yet. It does
// nothing where the kernel has no Landlock. The error is the kernel's.
func NoFiles() error {
	if err := landlock.V7.BestEffort().Restrict(); err != nil {
		return fmt.Errorf("forbid files and connections: %w", err)
	}
	return nil
}

// ServerFiles limits this process to a directory, to reading the configuration of the machine, and
// to TCP connections to some ports. It does nothing where the kernel has no Landlock.
// The error is the kernel's.
func ServerFiles(dir string, ports ...uint16) error {
	rules := []landlock.Rule{
		landlock.RWDirs(dir).WithRefer(),
		landlock.RODirs(configuration()...).IgnoreIfMissing(),
		landlock.ROFiles(procFiles...).IgnoreIfMissing(),
	}
	for _, p := range ports {
		rules = append(rules, landlock.ConnectTCP(p))
	}
	// One ruleset: a second one without rules for files forbids renaming between directories.
	if err := landlock.V7.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("limit files and connections: %w", err)
	}
	return nil
}

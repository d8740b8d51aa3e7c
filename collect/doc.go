// Package collect reads the counters that the kernel keeps already, one file of this package for
// each source: /proc/stat, netlink, inet_diag, ethtool ... It differences them over the measured
// interval, so no absolute leaves it. It needs no BPF, and no root wherever the kernel allows; what
// root would add is said in a note.
//
// It refuses to judge: a collector emits what it read and says what it could not read. Thresholds
// are diagnose's, columns are view's.
package collect

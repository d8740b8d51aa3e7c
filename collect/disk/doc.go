// Package disk collects the counters of block devices and the use of file systems.
package disk

// Package kernellog reads the messages that the kernel writes to its log.
package kernellog

// Package command runs a command line of dtrace: it reads scripts, preprocesses them, starts or
// finds the processes to trace, lists probes, and runs the session.
package command

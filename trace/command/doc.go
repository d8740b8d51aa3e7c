// Package command runs a command line that dtrace understands: it reads scripts, preprocesses them,
// starts or finds the processes to watch, lists probes, and runs the session.
package command

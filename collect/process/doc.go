// Package process collects the counters of processes and threads.
package process

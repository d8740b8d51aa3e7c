// Package cgroup collects the counters of control groups, version 1 and 2.
package cgroup

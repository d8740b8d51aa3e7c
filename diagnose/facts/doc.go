// Package facts holds what several rules read out of the tables of a diagnosis: CPUs, programs,
// network devices and their capacity, TCP flows, disks, control groups, time in softirqs, and
// sampled kernel functions. It judges nothing: rules do.
package facts

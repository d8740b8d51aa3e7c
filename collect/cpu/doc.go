// Package cpu collects what CPUs do: time by mode, the scheduler, interrupts, softirqs, pressure
// and the CPUs that the machine has.
package cpu

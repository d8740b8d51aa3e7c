// Package demand estimates how much CPU time a task would use if others used less: from the time
// that it used, and the time that it waited for a CPU.
package demand

//go:build race

package confine

// memoryScale is the factor of limits of memory: the race detector needs more memory than the
// program.
const memoryScale = 16

//go:build !race

package confine

// memoryScale is the factor of limits of memory.
const memoryScale = 1

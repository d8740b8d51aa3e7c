// Package kernel says what this kernel is and can do, and opens the roads to it.
package kernel

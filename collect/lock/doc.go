// Package lock measures waits for file locks.
package lock

// Package lock measures waits for file locks and System V semaphores.
package lock

// Package measure is the waist of culprit: the words in which every room speaks to every other. A source answers queries
// with batches, a reader answers them with answers, and neither knows who asked.
//
// It refuses to do anything: no reading, no storing, no drawing. It imports the standard library only, so that any room
// may import it and a value that has passed through it carries no trace of where it came from.
package measure

// Package changes compares two time ranges of recordings, of one machine or of two: it ranks all
// statistics by the size of their change, with the field values that explain it. Pure: it reads
// through measure.Reader only.
package changes

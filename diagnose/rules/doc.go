// Package rules holds the rules of the diagnosis: one file and one directory of testdata for each,
// and one line in All. A rule uses package facts for what other rules need too, and never a helper
// of another rule's file. Its constants are in package threshold.
package rules

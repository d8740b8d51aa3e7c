// Package diagnose finds what limits a machine, and proves it. It is the engine: the rules are in
// package rules, the constants by which they decide in package threshold.
//
// Run asks each query of each rule once, passes each rule a Look at the answers, and then settles
// the findings: symptoms go below their causes, resources without a fault are ruled out with their
// numbers, and the rest is ranked. A finding names the culprit and its effect. It has evidence with
// the query of each number, caveats, a command to verify it, and a fix with its undo.
//
// Queries that could not be answered are listed as missing: silence always means "checked, and
// found nothing". The engine measures nothing itself; it reads a measure.Reader. It does not guess:
// an unknown limit is not reached, a moment is not a state, and a number that contradicts itself
// accuses nobody. A false culprit is worse than silence.
package diagnose

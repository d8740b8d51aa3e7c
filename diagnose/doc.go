// Package diagnose says what holds a machine back, and proves it. A rule asks a measure.Reader its sentences over a range
// of time and gives findings: who, what it does to whom, the chain of evidence with each number's sentence, what was
// checked and is innocent, what speaks against it, a command to check it with and a fix with its undo. What could not be
// asked is listed as missing, so that silence always means "looked, and found nothing".
//
// It refuses to measure: it opens no file, starts nothing and knows no collector. It refuses to guess: a limit that is not
// known is not reached, a moment is not a state, and a number that contradicts itself accuses nobody. A false culprit is
// worse than silence.
//
// The road of a diagnosis is: Run asks every sentence of every rule once, gives each rule a Look at the answers, then
// settles what the rules found: symptoms go below their causes, the innocent are exonerated with their numbers, and the
// rest is ranked. A rule is one file, rule_NAME.go, one line in All, and one folder of testdata.
package diagnose

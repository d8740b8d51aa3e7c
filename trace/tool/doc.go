// Package tool contains the ready-made programs of `culprit trace NAME`: D scripts with declared
// options.
//
// A script begins with a comment that declares it, one line each:
//
//	tool NAME: PURPOSE
//	option -p --pid NUMBER = 0: MEANING
//	operand INTERVAL interval = none: MEANING
//	column NAME (UNIT): MEANING
//	needs: WHAT
//	note: WHAT MAY MISLEAD
//
// The value of an option is a macro of the C preprocessor with the name of the option in upper
// case: PID for --pid, MIN_LATENCY for --min-latency. A macro is always defined, unless its default
// is "none" and the option is not given. The kinds of values:
//
//	flag      0 or 1; an option without a kind is a flag
//	NUMBER    a whole number of 0 or more; the default may have a unit: = 10 ms
//	TEXT      a string literal
//	WORD      text for probe descriptions: a function, a file
//	PROBE     a probe of bcc, bpftrace or D, as a D description
//	CODE      an expression of D
//	interval  seconds, as 1s or 500ms; undefined is the end of the script: 10000d
package tool

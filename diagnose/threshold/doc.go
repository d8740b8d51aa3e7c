// Package threshold holds the constants by which rules decide. All is the table of them: value,
// unit, reason, and two values close to it between which the tests of package rules see a
// difference. Command tools/thresholds proves that they do: it raises each constant by 12 %.
package threshold

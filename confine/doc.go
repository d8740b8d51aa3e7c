// Package confine takes from this process what it does not need: the user root, capabilities,
// system calls and files. Nothing can be regained. docs/decisions/0009 has the reasons.
package confine

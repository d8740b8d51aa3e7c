// Package measure is the shared vocabulary of culprit's packages: a source emits batches for
// queries, a reader returns answers to queries, and neither depends on the other.
//
// The package reads, stores and draws nothing. It imports only the standard library, so any package
// may import it.
package measure

// Package receiver sends requests to servers that a user named: addresses with credentials from
// files, bounded replies, and the wait between two attempts.
package receiver

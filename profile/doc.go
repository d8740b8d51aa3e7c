// Package profile reads, compares and writes profiles: stacks with a value each, as a tree of
// calls. It reads every common format of stacks, recognised by content. It writes formats of other
// tools, tables and pictures. It is pure: it opens no file, reads no clock and resolves no
// addresses.
package profile

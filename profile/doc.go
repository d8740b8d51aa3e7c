// Package profile is profiles: stacks with an amount each, as a tree of calls. It reads every common format of stacks, recognised by
// content, compares two profiles, and writes formats for other tools, tables and pictures. It is pure: bytes in, bytes out, no
// file, no clock, no kernel. It resolves no addresses and judges nothing.
package profile

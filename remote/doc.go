// Package remote lets one process use the sources of another over a unix socket. The recorder of
// `culprit serve` has the privileges and offers sources, D scripts and profiles. The server uses
// them through Client and has no privileges.
//
// A Recorder outlives its connections: runs and scripts continue while no client is connected, and
// ticks that the client has not acknowledged are kept within a bound. A Client outlives them too.
// docs/FORMATS.md draws the frames. docs/decisions/0009 has the reasons.
package remote

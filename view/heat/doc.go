// Package heat makes heat maps of distributions: time x value x number of events. It also ranks the
// field values of a part of the map against the rest, and formats maps for a terminal. It is pure.
package heat

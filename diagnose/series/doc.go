// Package series computes with series of values of which some are unknown (NaN): median, spread,
// distance from the others, correlation.
package series

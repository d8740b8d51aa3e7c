// Package limits decides which limits of a machine are reached: the engine of rule limit-reached.
//
// A Kind describes one kind of limit: the statistics of its use and its size, the errors that it
// causes, and its words. The decisions are the same for all kinds. A use is reported as
//
//   - high when requests fail because of the limit, in three seconds at least;
//   - medium when the limit is reached for most of the time and failed requests were not counted,
//     or when it will be reached within minutes at a steady rate;
//   - low when it is reached or nearly reached, and nothing fails: that is a fact, no fault.
package limits

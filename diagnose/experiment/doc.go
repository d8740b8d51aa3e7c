// Package experiment plans short measurements that replace the estimates of a report, and updates
// its findings with the answers. A diagnosis first uses what costs little. Only where a finding
// rests on an estimate, and a traced statistic has the number, that one is measured for some
// seconds.
package experiment

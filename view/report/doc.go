// Package report formats the results of a diagnosis, of load tests, and of the comparison of hosts.
package report

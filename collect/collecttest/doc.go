// Package collecttest helps to test collectors: machines made of files, network namespaces, and
// checks that hold for every collector.
package collecttest

// Package classic contains the tools: each shows one resource with the columns of a classic tool.
// A tool has queries and makes a table of the answers.
package classic

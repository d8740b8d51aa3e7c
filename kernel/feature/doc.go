// Package feature answers whether this kernel has something and allows it. It tries each feature
// and derives none from a version.
package feature

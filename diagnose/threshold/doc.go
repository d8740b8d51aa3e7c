// Package threshold holds the constants by which rules decide, each with its unit and its reason.
package threshold

// Package limit reads limits of the kernel that belong to no other subsystem, with their use.
package limit

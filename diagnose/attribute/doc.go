// Package attribute divides a saturated resource among its users and decides which of them are the
// cause: the fewest without which the resource would be below the threshold of the rule.
//
// A user that waits would take what another one leaves. So each user has two numbers: the part that
// it takes, and what it wants, which is the part that it would take alone. Without a set of users
// the resource is in use for
//
//	min(total, total + unserved - wants of the set)
//
// where unserved is the sum of wants minus parts over all users. Two programs that could each fill
// a disk alone are the cause together: without either of them the disk stays full.
package attribute

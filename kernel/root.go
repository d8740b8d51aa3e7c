package kernel

// Root is where procfs and sysfs are mounted; "" means /proc and /sys. A captured tree can stand in for them.
type Root struct{ Proc, Sys string }

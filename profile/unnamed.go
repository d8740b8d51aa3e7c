package profile

// Unnamed returns the amount of samples whose innermost function has no name, in a tree of
// FromSamples or of recorded samples. The innermost function is the program's, also for samples in
// the kernel; without frames of the program it is the kernel's. For a wait it belongs to the thread
// that waited.
//
//	app;main;[unknown]            unnamed
//	app;[libx.so];vfs_read        unnamed
//	app;[libx.so];main;vfs_read   named
func (t *Tree) Unnamed() float64 {
	const (
		named   = iota // so far; a callee can change it
		unnamed        // so far
		settled        // named, whatever it calls
		lacking        // unnamed, whatever it calls
	)
	sum := 0.0
	state := make([]byte, t.Len())
	for n := 1; n < t.Len(); n++ {
		f, up := &t.Functions[t.Function[n]], t.Parent[n]
		caller := &t.Functions[t.Function[up]]
		state[n] = named
		if f.Name == "[unknown]" || f.Name == "["+f.Module+"]" {
			state[n] = unnamed
		}
		switch {
		case state[up] >= settled:
			state[n] = state[up]
		case f.Kind == Process && up > 0,
			f.Kind == Kernel && up > 0 && caller.Kind != Kernel && caller.Kind != Process:
			state[n] = state[up] + settled
		case f.Kind == Process:
			state[n] = named
		}
		if state[n] == unnamed || state[n] == lacking {
			sum += t.Self[n]
		}
	}
	return sum
}

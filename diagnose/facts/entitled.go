package facts

// Entitled returns the CPU time to which each process is entitled by weight, in the order of all,
// and the sum that they divide: what they used. A process gets no more than it wants: what it used,
// and waited for. The rest is divided among the others, in each group of the tree.
func Entitled(all []*Weighed) (entitled []float64, sum float64) {
	top := &share{}
	for i, w := range all {
		sum += w.Used
		at := top
		for _, p := range w.Path {
			at = at.child(p)
		}
		at.task, at.wants = i, w.Used+w.Waited
		at.weight *= max(at.wants, 1) // wants is the number of its threads that run or wait
	}
	top.collect()
	top.got = sum
	entitled = make([]float64, len(all))
	if len(all) > 0 {
		top.divide(entitled)
	}
	return entitled, sum
}

// A share is a group, or a process, in the tree by which CPU time is divided.
type share struct {
	id         string
	weight     float64
	wants, got float64
	children   []*share
	task       int // index of a process; of a share without children
}

// child returns the child with an ID, and makes it if it is missing.
func (s *share) child(w Weight) *share {
	for _, c := range s.children {
		if c.id == w.ID {
			return c
		}
	}
	c := &share{id: w.ID, weight: w.Value}
	s.children = append(s.children, c)
	return c
}

// collect sums up what the processes in each group want.
func (s *share) collect() {
	for _, c := range s.children {
		c.collect()
		s.wants += c.wants
	}
}

// divide divides what a group got among its children.
func (s *share) divide(entitled []float64) {
	if len(s.children) == 0 {
		entitled[s.task] = s.got
		return
	}
	left, open := s.got, s.children
	for len(open) > 0 {
		weights := 0.0
		for _, c := range open {
			weights += c.weight
		}
		var more []*share
		given := 0.0
		for _, c := range open {
			if weights > 0 && c.wants > left*c.weight/weights {
				more = append(more, c)
				continue
			}
			c.got = c.wants
			given += c.got
		}
		left = max(left-given, 0)
		if len(more) == len(open) { // each wants more than its part
			for _, c := range open {
				c.got = left * c.weight / weights
			}
			break
		}
		open = more
	}
	for _, c := range s.children {
		c.divide(entitled)
	}
}

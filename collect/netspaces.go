package collect

import "sort"

// spaces keeps a T for each network namespace that Env asks for: made when the namespace appears, ended when it goes.
type spaces[T any] struct {
	env   *Env
	open  func(*space[T]) (T, error)
	close func(T)
	list  []*space[T]
}

// space is one network namespace.
type space[T any] struct {
	name  string // "" the tool's own
	data  T
	epoch int
	word  label
	said  bool
}

func (s *spaces[T]) start() error {
	sp := &space[T]{}
	data, err := s.open(sp)
	if err != nil {
		return err
	}
	sp.data = data
	s.list = append(s.list, sp)
	return nil
}

// follow gives the namespaces that are there now.
func (s *spaces[T]) follow(o *Out) []*space[T] { return s.list }

func (s *spaces[T]) shut() {
	for _, sp := range s.list {
		s.close(sp.data)
	}
	s.list = nil
}

// label gives the label of the namespace's name.
func (s *space[T]) label(o *Out) label {
	if !s.said || s.epoch != o.Epoch {
		s.word, s.epoch, s.said = o.Label(s.name), o.Epoch, true
	}
	return s.word
}

// of gives " of namespace NAME", or "" for the tool's own.
func (s *space[T]) of() string {
	if s.name == "" {
		return ""
	}
	return " of namespace " + s.name
}

func sortLinks(list []*link) {
	sort.Slice(list, func(i, j int) bool { return list[i].index < list[j].index })
}

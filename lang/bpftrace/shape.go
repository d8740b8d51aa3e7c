package bpftrace

// A Kind is how user space prints a value.
type Kind uint8

// The kinds of values.
const (
	Plain      Kind = iota // a number or string, by its type
	KStack                 // a stack of the kernel
	UStack                 // a stack of a process
	KSym                   // an address of the kernel, as its symbol
	USym                   // an address of a process, as its symbol
	Time                   // a time in ns of the monotonic clock, by strftime
	Inet                   // an IP address: a number of 4 bytes, or 4 or 16 bytes
	MAC                    // 6 bytes
	Buffer                 // bytes and, as another value, their number
	Username               // the number of a user
	ProbeName              // the number of a probe
	ErrorText              // the number of an error, by strerror
	CallName               // the number of a system call
	CgroupPath             // the ID of a control group
	Tuple                  // the values of Parts
)

// A Shape is how a value is printed, and of how many values of D it is made. nil is Plain.
type Shape struct {
	Kind   Kind
	Format string   // of Time; of CgroupPath: a pattern of the hierarchies' names
	Mode   string   // of KStack and UStack: bpftrace, perf or raw
	Parts  []*Shape // of Tuple
	Open   bool     // of Buffer: the number of bytes is not a constant
}

// kind returns the kind of a shape.
func (s *Shape) kind() Kind {
	if s == nil {
		return Plain
	}
	return s.Kind
}

// Values returns how many values of D make up one value of the shape.
func (s *Shape) Values() int {
	switch s.kind() {
	case Buffer:
		return 2
	case Tuple:
		n := 0
		for _, p := range s.Parts {
			n += p.Values()
		}
		return n
	}
	return 1
}

// An Output is an action that user space performs.
type Output struct {
	Kind   OutputKind
	Format *Format  // of Printf, Cat, System
	Text   string   // of PrintTime: the format; of Join: the separator
	Shapes []*Shape // of the arguments
	Map    *Map     // of PrintMap, ClearMap, ZeroMap, DeleteKey
	Top    int      // of PrintMap: the number of rows, from the last; 0: all
	Div    int64    // of PrintMap: values are divided by it; 0: 1
}

// OutputKind is the kind of an action.
type OutputKind uint8

// The actions.
const (
	Printf OutputKind = iota
	Print             // a value
	PrintMap
	ClearMap
	ZeroMap
	DeleteKey // the element with the key in the record
	PrintTime
	Join
	Cat
	System
)

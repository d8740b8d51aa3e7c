package yamlfile

// Kind is the form of a value in the file.
type Kind int

// The kinds of values.
const (
	Text    Kind = iota // one scalar: a word, a number, a quoted text
	Bool                // true or false
	Texts               // a list of scalars; one scalar is a list of one
	Map                 // names with one scalar each
	Objects             // a list of mappings with the keys Fields; one mapping is a list of one
)

// String returns the kind in words, as errors name it.
func (k Kind) String() string {
	return [...]string{
		"a text", "true or false", "a list of texts", "names with a text each",
		"a list of mappings",
	}[k]
}

// Key describes a key that a file may have.
type Key struct {
	Name   string
	Kind   Kind
	Fields []Key // of Objects
	// Short is the field that a scalar sets, where an object is expected; "": scalars are refused.
	Short string
	// Need makes a field of an object required.
	Need bool
	// Check returns what is wrong with one scalar of the key that errors call name; nil: any text
	// will do. Its error names the key.
	Check func(name, text string) error
}

// Position is a place in a file. Lines and columns begin at 1; columns count characters.
type Position struct {
	File         string
	Line, Column int
}

// Value is a key of a file with its value.
type Value struct {
	Name    string
	Kind    Kind
	At      Position // of the value
	Texts   []string // Text and Bool: one; Texts: each
	Map     []Pair   // in the order of the file
	Objects []Object
}

// Pair is a name with a text.
type Pair struct{ Name, Text string }

// Object is one element of a list of mappings.
type Object struct {
	At     Position
	Values []Value
}

// Value returns the value of a key; nil: the object has none.
func (o *Object) Value(name string) *Value { return find(o.Values, name) }

// Text returns the first text of a key; "": the object has none.
func (o *Object) Text(name string) string {
	if v := o.Value(name); v != nil && len(v.Texts) > 0 {
		return v.Texts[0]
	}
	return ""
}

// File is the content of a configuration file.
type File struct {
	Name   string
	Values []Value // in the order of the file
}

// Value returns the value of a key; nil: the file has none.
func (f *File) Value(name string) *Value { return find(f.Values, name) }

func find(values []Value, name string) *Value {
	for i := range values {
		if values[i].Name == name {
			return &values[i]
		}
	}
	return nil
}

package check

import "culprit/lang/syntax"

const dPathProto = "string d_path(struct path *); a struct file * has the path &F->f_path"

// pathOf returns the address of the struct path in an argument: a struct path, a pointer to one, or
// to a struct file. It returns nil for others.
func (c *checker) pathOf(v value) Expr {
	if isZero(v.x) {
		return convert(v.x, &Pointer{Elem: tVoid, Space: Kernel})
	}
	t := v.t
	if p, ok := t.(*Pointer); ok {
		t = p.Elem
	}
	s, ok := t.(*Struct)
	if !ok {
		return nil
	}
	switch s.Name {
	case "path":
		return convert(v.x, &Pointer{Elem: s, Space: spaceOf(v.x)})
	case "file":
		for _, f := range s.Fields() {
			if f.Name == "f_path" {
				return c.fieldOf(v.x.Place(), v, f).x
			}
		}
	}
	return nil
}

// fileParts are the names of the parts of a file's name in D's libraries.
//
// table: name to part
var fileParts = map[string]PathPart{
	"path": PathWhole, "directory": PathDirectory, "name": PathName, "mount": PathMount,
	"type": PathType,
}

// ofFile returns functions of D's libraries: file_part(F, "PART"), a part of the name of a struct
// file or of that whose data a struct request transfers, "<none>" if there is none; file_of(FD),
// the struct file of a descriptor, NULL if there is none.
func (c *checker) ofFile(e *syntax.Call) value {
	v := c.expr(e.Args[0])
	if !v.ok() {
		return value{}
	}
	if e.Func.Text == "file_of" {
		i, _ := v.int()
		t := &Pointer{Elem: c.types.kernelStruct("file", false), Space: Kernel}
		if t.Elem == (*Struct)(nil) {
			c.types.noSpec(e.At())
			return value{}
		}
		return value{x: &Call{typed{e.At(), t}, SubFileOf, []Expr{v.computed(i)}}, t: t}
	}
	part, _ := e.Args[1].(*syntax.String)
	n := fileParts[part.Value] | PathOfFile
	if s, ok := elemOf(v.t).(*Struct); ok && s.Name == "request" {
		n ^= PathOfFile | PathOfRequest
	}
	args := []Expr{v.x, &Const{typed{e.At(), tInt}, int64(n)}}
	return value{x: &Call{typed{e.At(), tString}, SubPath, args}, t: tString}
}

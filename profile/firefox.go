package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"culprit/measure"
)

// firefoxVersion is the version of the processed format that is written. The Firefox Profiler
// converts it to its own: docs-developer/CHANGELOG-formats.md.
const firefoxVersion = 60

// The categories of frames, indexes into firefoxCategories.
const (
	firefoxOther = iota
	firefoxUser
	firefoxKernel
	firefoxJIT
)

// table: names and colours as samply has them
const firefoxCategories = `[{"name":"Other","color":"grey","subcategories":["Other"]},` +
	`{"name":"User","color":"yellow","subcategories":["Other"]},` +
	`{"name":"Kernel","color":"orange","subcategories":["Other"]},` +
	`{"name":"JIT","color":"purple","subcategories":["Other"]}]`

// A firefoxThread is a root of the tree: a process, a thread, or the whole profile.
type firefoxThread struct {
	name    string
	samples []int32 // nodes
}

// firefoxWriter writes columns.
type firefoxWriter struct {
	out     *bufio.Writer
	t       *Tree
	texts   []string
	indexes map[string]int
	libs    []string
	buf     []byte
}

// WriteFirefox writes a profile for https://profiler.firefox.com, in its processed format. Roots
// that are processes or threads become its threads. A tree has no times: samples are a millisecond
// apart, in the order of the tree. The error is the writer's.
func WriteFirefox(w io.Writer, t *Tree, name string) error {
	f := &firefoxWriter{out: bufio.NewWriterSize(w, 64<<10), t: t, indexes: map[string]int{}}
	threads := f.threads(name)
	if err := f.meta(name); err != nil {
		return err
	}
	f.out.WriteString(`,"shared":{`) //nolint:errcheck // Flush returns it
	f.stacks()
	f.functions()
	if err := f.strings(); err != nil {
		return err
	}
	f.out.WriteString(`},"threads":[`) //nolint:errcheck // as above
	for i := range threads {
		if err := f.thread(&threads[i], i); err != nil {
			return err
		}
	}
	f.out.WriteString("]}\n") //nolint:errcheck // as above
	return f.out.Flush()
}

// text returns the index of a text.
func (f *firefoxWriter) text(s string) int {
	i, ok := f.indexes[s]
	if !ok {
		i = len(f.texts)
		f.indexes[s] = i
		f.texts = append(f.texts, s)
	}
	return i
}

// threads returns the threads with their nodes. The nodes of a root that is no process are in a
// thread of their own, the first.
func (f *firefoxWriter) threads(name string) []firefoxThread {
	t := f.t
	all := []firefoxThread{{name: cmp.Or(name, "all")}}
	byFunction := map[uint32]int{}
	of := make([]int, t.Len()) // the thread of each node
	for i := 1; i < t.Len(); i++ {
		if of[i] = of[t.Parent[i]]; t.Parent[i] == 0 {
			if fn := t.Function[i]; t.Functions[fn].Kind == Process {
				n, ok := byFunction[fn]
				if !ok {
					n = len(all)
					byFunction[fn] = n
					all = append(all, firefoxThread{name: t.Functions[fn].Name})
				}
				of[i] = n
			}
		}
	}
	for i := range t.Len() {
		if t.Self[i] > 0 {
			all[of[i]].samples = append(all[of[i]].samples, int32(i))
		}
	}
	if len(all) > 1 && len(all[0].samples) == 0 {
		return all[1:]
	}
	return all
}

// weights returns the type of the weights, and by what amounts are divided.
func (f *firefoxWriter) weights() (kind string, by float64) {
	switch f.t.Unit {
	case "ns":
		return "tracing-ms", 1e6
	case "bytes":
		return "bytes", 1
	}
	return "samples", 1
}

// meta writes what describes the profile, and the libraries.
func (f *firefoxWriter) meta(name string) error {
	for i := range f.t.Functions {
		if m := f.t.Functions[i].Module; m != "" {
			if _, ok := f.indexes["lib\x00"+m]; !ok {
				f.indexes["lib\x00"+m] = len(f.libs)
				f.libs = append(f.libs, m)
			}
		}
	}
	title, err := measure.MarshalJSON(strings.ToValidUTF8(cmp.Or(name, "culprit"), "\uFFFD"))
	if err != nil {
		return err
	}
	notes, err := measure.MarshalJSON(strings.Join(boundedNotes(f.t.Notes), "; "))
	if err != nil {
		return err
	}
	fmt.Fprintf(f.out, `{"meta":{"interval":1,"startTime":%d,"processType":0,"product":%s,`+
		`"stackwalk":1,"version":30,"preprocessedProfileVersion":%d,"symbolicated":true,`+
		`"importedFrom":"culprit","usesOnlyOneStackType":true,`+
		`"sourceCodeIsNotOnSearchfox":true,"misc":%s,"markerSchema":[],"categories":%s},"libs":[`,
		int64(f.t.Taken.At)/1e6, title, firefoxVersion, notes, firefoxCategories)
	for i, lib := range f.libs {
		text, err := measure.MarshalJSON(strings.ToValidUTF8(lib, "\uFFFD"))
		if err != nil {
			return err
		}
		f.comma(i)
		fmt.Fprintf(f.out, `{"arch":"","name":%s,"path":%s,"debugName":%s,"debugPath":%s,`+
			`"breakpadId":"","codeId":null}`, text, text, text, text)
	}
	_, err = f.out.WriteString(`],"pages":[]`)
	return err
}

func (f *firefoxWriter) comma(i int) {
	if i > 0 {
		f.out.WriteByte(',') //nolint:errcheck // Flush returns it
	}
}

// column writes n numbers; null for those below 0.
func (f *firefoxWriter) column(name string, n int, value func(i int) int) {
	fmt.Fprintf(f.out, "%q:[", name)
	for i := range n {
		f.comma(i)
		if v := value(i); v < 0 {
			f.out.WriteString("null") //nolint:errcheck // as above
		} else {
			f.buf = strconv.AppendInt(f.buf[:0], int64(v), 10)
			f.out.Write(f.buf) //nolint:errcheck // as above
		}
	}
	f.out.WriteString("],") //nolint:errcheck // as above
}

// same writes n times the same value.
func (f *firefoxWriter) same(name string, n int, value string) {
	fmt.Fprintf(f.out, "%q:[", name)
	for i := range n {
		f.comma(i)
		f.out.WriteString(value) //nolint:errcheck // as above
	}
	f.out.WriteString("],") //nolint:errcheck // as above
}

func (f *firefoxWriter) length(n int, end string) { fmt.Fprintf(f.out, `"length":%d}%s`, n, end) }

// stacks writes the nodes of the tree, which are a tree of stacks already.
func (f *firefoxWriter) stacks() {
	t := f.t
	n := t.Len() - 1
	f.out.WriteString(`"stackTable":{`) //nolint:errcheck // as above
	f.column("frame", n, func(i int) int { return int(t.Function[i+1]) - 1 })
	f.column("prefix", n, func(i int) int {
		p := int(t.Parent[i+1])
		if p > 0 && t.Parent[p] == 0 && t.Functions[t.Function[p]].Kind == Process {
			return -1 // the thread
		}
		return p - 1
	})
	f.length(n, ",")
}

// functions writes the functions. Each has one frame.
func (f *firefoxWriter) functions() {
	all := f.t.Functions[1:]
	n := len(all)
	category := func(i int) int {
		switch all[i].Kind {
		case Kernel:
			return firefoxKernel
		case JIT:
			return firefoxJIT
		case Process:
			return firefoxOther
		}
		return firefoxUser
	}
	line := func(i int) int {
		if all[i].Line > 0 {
			return all[i].Line
		}
		return -1
	}
	f.out.WriteString(`"frameTable":{`) //nolint:errcheck // as above
	f.same("address", n, "-1")
	f.same("inlineDepth", n, "0")
	f.column("category", n, category)
	f.same("subcategory", n, "0")
	f.column("func", n, func(i int) int { return i })
	for _, name := range []string{"nativeSymbol", "innerWindowID"} {
		f.same(name, n, "null")
	}
	f.column("line", n, line)
	f.same("column", n, "null")
	f.length(n, `,"funcTable":{`)
	f.column("name", n, func(i int) int { return f.text(all[i].Name) })
	f.same("isJS", n, "false")
	f.same("relevantForJS", n, "false")
	f.resources(n)
	sources, index := []int{}, map[string]int{}
	f.column("source", n, func(i int) int {
		file := all[i].File
		if file == "" {
			return -1
		}
		k, ok := index[file]
		if !ok {
			k = len(sources)
			index[file] = k
			sources = append(sources, f.text(file))
		}
		return k
	})
	f.column("lineNumber", n, line)
	f.same("columnNumber", n, "null")
	f.length(n, `,"resourceTable":{`)
	libs := len(f.libs)
	f.column("lib", libs, func(i int) int { return i })
	f.column("name", libs, func(i int) int { return f.text(f.libs[i]) })
	f.same("host", libs, "null")
	f.same("type", libs, "1") // a library
	f.length(libs, `,"nativeSymbols":{"libIndex":[],"address":[],"name":[],"functionSize":[],`)
	f.length(0, `,"sources":{`)
	f.same("uuid", len(sources), "null")
	f.column("filename", len(sources), func(i int) int { return sources[i] })
	f.length(len(sources), ",")
}

// resources writes the library of each function, -1 for none.
func (f *firefoxWriter) resources(n int) {
	f.out.WriteString(`"resource":[`) //nolint:errcheck // as above
	for i := range n {
		f.comma(i)
		lib := -1
		if m := f.t.Functions[i+1].Module; m != "" {
			lib = f.indexes["lib\x00"+m]
		}
		f.out.WriteString(strconv.Itoa(lib)) //nolint:errcheck // as above
	}
	f.out.WriteString("],") //nolint:errcheck // as above
}

// strings writes all texts.
func (f *firefoxWriter) strings() error {
	f.out.WriteString(`"stringArray":[`) //nolint:errcheck // as above
	for i, s := range f.texts {
		text, err := measure.MarshalJSON(strings.ToValidUTF8(s, "\uFFFD"))
		if err != nil {
			return err
		}
		f.comma(i)
		f.out.Write(text) //nolint:errcheck // as above
	}
	f.out.WriteByte(']') //nolint:errcheck // as above
	return nil
}

// thread writes a thread.
func (f *firefoxWriter) thread(t *firefoxThread, i int) error {
	name, err := measure.MarshalJSON(strings.ToValidUTF8(t.name, "\uFFFD"))
	if err != nil {
		return err
	}
	f.comma(i)
	n := len(t.samples)
	fmt.Fprintf(f.out, `{"processType":"default","processStartupTime":0,`+
		`"processShutdownTime":null,"registerTime":0,"unregisterTime":null,"pausedRanges":[],`+
		`"name":%s,"processName":%s,"isMainThread":true,"pid":"%d","tid":%d,"samples":{`,
		name, name, i+1, i+1)
	f.column("stack", n, func(k int) int { return int(t.samples[k]) - 1 })
	f.column("time", n, func(k int) int { return k })
	kind, by := f.weights()
	f.out.WriteString(`"weight":[`) //nolint:errcheck // as above
	for k, node := range t.samples {
		f.comma(k)
		f.buf = AppendAmount(f.buf[:0], f.t.Self[node]/by)
		f.out.Write(f.buf) //nolint:errcheck // as above
	}
	fmt.Fprintf(f.out, `],"weightType":%q,`, kind)
	f.length(n, `,"markers":{"data":[],"name":[],"startTime":[],"endTime":[],"phase":[],`+
		`"category":[],"length":0}}`)
	return nil
}

package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"culprit/measure"

	"go.yaml.in/yaml/v3"
)

// MaxSize is the highest number of bytes of a file.
const MaxSize = 256 << 10

const (
	maxItems = 1000 // elements of one list or mapping
	maxName  = 256  // bytes of a name in a Map
)

// Parse parses a file with the given keys. The error is a Mistakes with at most 50 of them. Values
// of the file replace nothing: the caller knows the defaults. Anchors, aliases, tags and a second
// document are mistakes, so a small file cannot become large.
func Parse(name string, text []byte, keys []Key) (*File, error) {
	p := &parser{file: name}
	if len(text) > MaxSize {
		p.fail(1, 1, "the file has %d bytes, at most %d are allowed", len(text), MaxSize)
		return nil, p.mistakes
	}
	root := p.document(text)
	if len(p.mistakes) > 0 {
		return nil, p.mistakes
	}
	f := &File{Name: name}
	if root != nil {
		f.Values = p.mapping(root, keys, "")
	}
	if len(p.mistakes) > 0 {
		return nil, p.mistakes
	}
	return f, nil
}

// parser collects the mistakes of one file.
type parser struct {
	file     string
	mistakes Mistakes
}

func (p *parser) fail(line, column int, format string, args ...any) {
	if len(p.mistakes) < maxMistakes {
		p.mistakes = append(p.mistakes, &Mistake{
			Position{p.file, line, column}, fmt.Sprintf(format, args...),
		})
	}
}

func (p *parser) failAt(n *yaml.Node, format string, args ...any) {
	p.fail(n.Line, n.Column, format, args...)
}

// yamlLine matches the errors of the YAML library, which have a line and no column.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`) // table: made once, never changed

// document returns the mapping of the file; nil: the file has none, or there are mistakes.
func (p *parser) document(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	err := decoder.Decode(&first)
	if errors.Is(err, io.EOF) {
		return nil // comments only
	}
	if err != nil {
		p.syntax(text, err)
		return nil
	}
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		p.syntax(text, err)
		return nil
	default:
		p.failAt(&second, "a second document begins here: a configuration has one")
		return nil
	}
	root := first.Content[0]
	switch {
	case isNull(root):
		return nil
	case root.Kind != yaml.MappingNode:
		p.failAt(root, "the file contains %s, want keys with values, such as size: 2GB", form(root))
		return nil
	}
	return root
}

// syntax reports an error of the YAML library at the first word of its line.
func (p *parser) syntax(text []byte, err error) {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		p.fail(1, 1, "%s", printable(err.Error()))
		return
	}
	line, column := 1, 1
	if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
		line = n
	}
	if lines := bytes.Split(text, []byte("\n")); line <= len(lines) {
		column += len(lines[line-1]) - len(bytes.TrimLeft(lines[line-1], " "))
	}
	p.fail(line, column, "this is not YAML: %s", printable(m[2]))
}

// mapping returns the values of a mapping. path names the mapping in errors: "remote-write[0].".
func (p *parser) mapping(n *yaml.Node, keys []Key, path string) []Value {
	var out []Value
	if !p.plain(n) {
		return nil
	}
	lines := map[string]int{} // of the keys so far
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || !p.plain(key) {
			p.failAt(key, "a key is one word")
			continue
		}
		at := slices.IndexFunc(keys, func(k Key) bool { return k.Name == key.Value })
		if at < 0 {
			p.unknown(key, keys, path)
			continue
		}
		if line, ok := lines[key.Value]; ok {
			p.failAt(key, "%s%s is set twice, first in line %d", path, key.Value, line)
			continue
		}
		lines[key.Value] = key.Line
		if v, ok := p.value(value, &keys[at], path); ok {
			out = append(out, v)
		}
	}
	for i := range keys {
		if _, ok := lines[keys[i].Name]; !ok && keys[i].Need {
			p.failAt(n, "%s%s is missing", path, keys[i].Name)
		}
	}
	return out
}

// unknown reports a key that does not exist, with a near one.
func (p *parser) unknown(key *yaml.Node, keys []Key, path string) {
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = keys[i].Name
	}
	name := key.Value
	if len(name) > 100 {
		name = name[:100]
	}
	hint := "; `culprit config example` shows all keys"
	word := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if near := measure.Nearest(word, names); near != "" {
		hint = "; did you mean " + near + "?"
	} else if path != "" {
		hint = "; there are " + strings.Join(names, ", ")
	}
	p.failAt(key, "there is no key %s%s%s", path, printable(name), hint)
}

// plain reports whether a node has neither an anchor nor an alias nor a tag, which are mistakes.
func (p *parser) plain(n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode, n.Anchor != "":
		p.failAt(n, "anchors and aliases are not supported: write the value again")
	case n.Style&yaml.TaggedStyle != 0:
		p.failAt(n, "tags are not supported: remove %s", printable(n.Tag))
	default:
		return true
	}
	return false
}

// value returns the value of a key; ok is false if it has a mistake.
func (p *parser) value(n *yaml.Node, k *Key, path string) (v Value, ok bool) {
	before := len(p.mistakes)
	v = Value{Name: k.Name, Kind: k.Kind, At: Position{p.file, n.Line, n.Column}}
	name := path + k.Name
	switch {
	case !p.plain(n):
	case isNull(n):
		p.failAt(n, "%s has no value: write %v, or remove the line", name, k.Kind)
	case len(n.Content) > 2*maxItems:
		p.failAt(n, "%s has more than %d elements", name, maxItems)
	case n.Kind == yaml.ScalarNode && k.Kind == Objects && k.Short != "":
		p.short(&v, n, k, name)
	case n.Kind == yaml.ScalarNode && k.Kind <= Texts:
		p.scalar(&v, n, k, name)
	case n.Kind == yaml.SequenceNode && k.Kind == Texts:
		for _, one := range n.Content {
			switch {
			case !p.plain(one):
			case one.Kind != yaml.ScalarNode:
				p.failAt(one, "%s contains %s, want texts", name, form(one))
			default:
				p.scalar(&v, one, k, name)
			}
		}
	case n.Kind == yaml.MappingNode && k.Kind == Map:
		p.pairs(&v, n, k, name)
	case n.Kind == yaml.MappingNode && k.Kind == Objects:
		p.object(&v, n, k, name)
	case n.Kind == yaml.SequenceNode && k.Kind == Objects:
		for i, one := range n.Content {
			element := fmt.Sprintf("%s[%d]", name, i)
			switch {
			case !p.plain(one):
			case one.Kind == yaml.MappingNode:
				p.object(&v, one, k, element)
			case one.Kind == yaml.ScalarNode && k.Short != "" && !isNull(one):
				p.short(&v, one, k, element)
			default:
				p.failAt(one, "%s is %s, want a mapping", element, form(one))
			}
		}
	default:
		p.failAt(n, "%s is %s, want %v", name, form(n), k.Kind)
	}
	return v, len(p.mistakes) == before
}

// object adds one element of a list of mappings.
func (p *parser) object(v *Value, n *yaml.Node, k *Key, name string) {
	v.Objects = append(v.Objects, Object{
		Position{p.file, n.Line, n.Column}, p.mapping(n, k.Fields, name+"."),
	})
}

// short adds an element whose field k.Short is a scalar.
func (p *parser) short(v *Value, n *yaml.Node, k *Key, name string) {
	at := slices.IndexFunc(k.Fields, func(f Key) bool { return f.Name == k.Short })
	if at < 0 {
		p.failAt(n, "%s is %s, want a mapping", name, form(n))
		return
	}
	field := Value{Name: k.Short, At: Position{p.file, n.Line, n.Column}}
	if p.scalar(&field, n, &k.Fields[at], name); len(field.Texts) == 1 {
		v.Objects = append(v.Objects, Object{field.At, []Value{field}})
	}
}

// pairs adds the names of a mapping with their texts.
func (p *parser) pairs(v *Value, n *yaml.Node, k *Key, name string) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, text := n.Content[i], n.Content[i+1]
		switch {
		case !p.plain(key) || !p.plain(text):
		case key.Kind != yaml.ScalarNode || key.Value == "" || len(key.Value) > maxName:
			p.failAt(key, "a name in %s is one word of at most %d bytes", name, maxName)
		case text.Kind != yaml.ScalarNode:
			p.failAt(text, "%s.%s is %s, want a text", name, printable(key.Value), form(text))
		case seen[key.Value]:
			p.failAt(key, "%s.%s is set twice", name, printable(key.Value))
		default:
			seen[key.Value] = true
			var one Value
			p.scalar(&one, text, k, name+"."+printable(key.Value))
			if len(one.Texts) == 1 {
				v.Map = append(v.Map, Pair{key.Value, one.Texts[0]})
			}
		}
	}
}

// scalar adds a scalar to the texts of a value.
func (p *parser) scalar(v *Value, n *yaml.Node, k *Key, name string) {
	text := n.Value
	switch {
	case isNull(n):
		p.failAt(n, "%s contains an empty value", name)
		return
	case k.Kind == Bool && n.Tag != "!!bool":
		p.failAt(n, "%s is %s, want true or false", name, strconv.Quote(printable(text)))
		return
	case k.Kind == Bool:
		text = strings.ToLower(text) // TRUE and True are YAML too
	case strings.ContainsFunc(text, unicode.IsControl):
		p.failAt(n, "%s contains a line break or another control character", name)
		return
	}
	if k.Check != nil {
		if err := k.Check(name, text); err != nil {
			p.failAt(n, "%s", printable(err.Error()))
			return
		}
	}
	v.Texts = append(v.Texts, text)
}

// isNull reports whether a value is missing.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// form names the form of a node.
func form(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	return "a text"
}

// printable returns a text without control characters, at most 400 bytes of it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s[:min(len(s), 400)])
}

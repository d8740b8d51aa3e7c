package yamlfile

import "encoding/json"

// Encode returns the values as JSON, which Parse reads with the same keys. Positions are lost.
func (f *File) Encode() []byte {
	b, err := json.Marshal(encodeAll(f.Values))
	if err != nil {
		panic(err) // maps, lists, texts: encoding never fails
	}
	return b
}

func encodeAll(values []Value) map[string]any {
	out := map[string]any{}
	for i := range values {
		out[values[i].Name] = values[i].encode()
	}
	return out
}

// encode returns a value for encoding/json.
func (v *Value) encode() any {
	switch v.Kind {
	case Bool:
		return v.Texts[0] == "true"
	case Texts:
		return append([]string{}, v.Texts...)
	case Map:
		out := map[string]string{}
		for _, p := range v.Map {
			out[p.Name] = p.Text
		}
		return out
	case Objects:
		out := []map[string]any{}
		for _, o := range v.Objects {
			out = append(out, encodeAll(o.Values))
		}
		return out
	}
	return v.Texts[0]
}

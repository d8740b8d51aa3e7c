package profile

import "bytes"

// cloneSuffixes are the suffixes that compilers append to functions that they clone, split or move.
//
// table: GCC's and Clang's names of clones; a number may follow
var cloneSuffixes = []string{".isra", ".constprop", ".cold", ".part", ".lto_priv", ".llvm",
	".localalias", ".ctor", ".dtor", ".__uniq", ".warm", ".hot", ".unlikely"}

// sameName returns the name under which functions of two profiles are compared. It removes what
// differs between builds and runs:
//   - clones: f.isra.0 and f.cold are f;
//   - Java's lambdas and hidden classes: A$$Lambda$14/0x7f.run is A$$Lambda.run;
//   - lambdas of C++ and Swift: f::{lambda(int)#2} is f::{lambda(int)};
//   - the tier of V8's functions: *f and ~f are f.
func sameName(name []byte) []byte {
	name = withoutClones(name)
	if bytes.Contains(name, []byte("Lambda")) || bytes.Contains(name, []byte("/0x")) ||
		bytes.Contains(name, []byte("$Proxy")) ||
		bytes.Contains(name, []byte("GeneratedMethodAccessor")) {
		name = withoutJavaNumbers(name)
	}
	name = withoutLambdaNumbers(name)
	if len(name) > 1 &&
		(name[0] == '*' || name[0] == '^' ||
			name[0] == '~' && !bytes.Contains(name, []byte("::"))) &&
		isIdentifier(name[1]) {
		name = name[1:]
	}
	return name
}

func isIdentifier(c byte) bool {
	return c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// withoutClones removes all clone suffixes of a name, also in the form of c++filt: f(int) [clone
// .isra.0].
func withoutClones(name []byte) []byte {
	for {
		short := name
		if i := bytes.LastIndex(short, []byte(" [clone .")); i > 0 && short[len(short)-1] == ']' {
			short = short[:i]
		}
		bare := bytes.TrimRight(short, "0123456789")
		if len(bare) < len(short) && len(bare) > 0 && bare[len(bare)-1] == '.' {
			bare = bare[:len(bare)-1]
		} else {
			bare = short
		}
		for _, s := range cloneSuffixes {
			if rest, ok := bytes.CutSuffix(bare, []byte(s)); ok && len(rest) > 0 {
				short = rest
				break
			}
		}
		if len(short) == len(name) {
			return name
		}
		name = short
	}
}

// withoutJavaNumbers removes numbers and addresses from classes that a JVM generates.
func withoutJavaNumbers(name []byte) []byte {
	out := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		if bytes.HasPrefix(name[i:], []byte("/0x")) {
			end := i + 3
			for end < len(name) && isHex(name[end:end+1]) {
				end++
			}
			if end > i+3 {
				i = end - 1
				continue
			}
		}
		made := bytes.HasSuffix(out, []byte("$$Lambda")) && (name[i] == '$' || name[i] == '/') ||
			bytes.HasSuffix(out,
				[]byte("$Proxy")) || bytes.HasSuffix(out, []byte("GeneratedMethodAccessor"))
		if end := digitsFrom(name, i); made && end > i {
			i = end - 1
			continue
		}
		out = append(out, name[i])
	}
	return out
}

// digitsFrom returns the end of the digits at i, which may follow a $ or a /.
func digitsFrom(name []byte, i int) int {
	end := i
	if name[i] == '$' || name[i] == '/' {
		end++
	}
	first := end
	for end < len(name) && name[end] >= '0' && name[end] <= '9' {
		end++
	}
	if end == first {
		return i
	}
	return end
}

// withoutLambdaNumbers removes the numbers of {lambda(int)#2} and of Clang's $_2 and 'lambda2'.
func withoutLambdaNumbers(name []byte) []byte {
	for _, mark := range []string{"#", "$_", "'lambda"} {
		from := 0
		for {
			i := bytes.Index(name[from:], []byte(mark))
			if i < 0 {
				break
			}
			i += from + len(mark)
			end := i
			for end < len(name) && name[end] >= '0' && name[end] <= '9' {
				end++
			}
			inside := mark != "#" ||
				end < len(name) && name[end] == '}' &&
					(bytes.Contains(name[:i], []byte("{lambda")) ||
						bytes.Contains(name[:i], []byte("{closure")) ||
						bytes.Contains(name[:i], []byte("{unnamed")))
			if end == i || !inside {
				from = i
				continue
			}
			cut := i
			if mark == "#" {
				cut--
			}
			name = append(append(make([]byte, 0, len(name)), name[:cut]...), name[end:]...)
			from = cut
		}
	}
	return name
}

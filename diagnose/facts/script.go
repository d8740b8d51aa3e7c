package facts

import (
	"path"
	"slices"
	"strings"
)

// interpreter is how a program that runs scripts is called.
type interpreter struct {
	takes string   // short options with an argument that follows: "W" of python3 -W ignore
	code  string   // short options with code in place of a script
	long  []string // long options with an argument that follows
	stops []string // long options after which there is no script
	ends  []string // endings of scripts that are named without a directory
}

// interpreterOf returns the interpreter with the name of a program, also with a version behind it,
// as in python3.11; false when it is none.
func interpreterOf(name string) (interpreter, bool) {
	switch strings.TrimRight(strings.TrimPrefix(name, "-"), "0123456789.-") {
	case "python", "pypy":
		return interpreter{takes: "WX", code: "c", ends: []string{".py", ".pyc", ".pyz"}}, true
	case "node", "nodejs":
		return interpreter{takes: "rC", code: "ep", ends: []string{".js", ".mjs", ".cjs", ".ts"},
			long:  []string{"--require", "--import", "--loader", "--conditions"},
			stops: []string{"--eval", "--print"}}, true
	case "ruby":
		return interpreter{takes: "IrCEX", code: "e", ends: []string{".rb"}}, true
	case "perl":
		return interpreter{takes: "I", code: "eE", ends: []string{".pl", ".pm"}}, true
	case "php":
		return interpreter{takes: "dcz", code: "rRBE", ends: []string{".php", ".phar"}}, true
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh":
		return interpreter{takes: "oO", code: "cs", ends: []string{".sh", ".bash"},
			long: []string{"--rcfile", "--init-file"}}, true
	case "java":
		return interpreter{ends: []string{".jar", ".java"}, long: []string{"-cp", "-classpath",
			"--class-path", "-p", "--module-path", "--add-modules", "--add-opens", "--add-exports",
			"--add-reads"}}, true
	case "lua", "luajit":
		return interpreter{takes: "l", code: "e", ends: []string{".lua"}}, true
	case "Rscript":
		return interpreter{code: "e", ends: []string{".R", ".r"}}, true
	case "dotnet":
		return interpreter{ends: []string{".dll"}}, true
	}
	return interpreter{}, false
}

// ScriptOf returns the name of the script that an interpreter runs, without its directory:
// "x.py" of "python3 -u /srv/app/x.py --token ...". "" when the command line is that of no
// interpreter, and when its first operand does not look like a script: code and arguments may
// contain secrets.
func ScriptOf(command string) string {
	words := strings.Fields(command)
	if len(words) < 2 {
		return ""
	}
	name := path.Base(words[0])
	in, ok := interpreterOf(name)
	if !ok {
		return ""
	}
	java := name == "java"
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "--" || w == "-":
			return ""
		case w == "-jar" || w == "-m" && (java || strings.HasPrefix(name, "py")):
			if i+1 < len(words) && plainName(words[i+1]) {
				return path.Base(words[i+1])
			}
			return ""
		case slices.Contains(in.stops, strings.SplitN(w, "=", 2)[0]):
			return ""
		case slices.Contains(in.long, w):
			i++
		case strings.HasPrefix(w, "--"), java && strings.HasPrefix(w, "-"):
		case w[0] == '-' || w[0] == '+':
			if strings.ContainsAny(w[1:], in.code) {
				return ""
			}
			if strings.ContainsRune(in.takes, rune(w[len(w)-1])) && len(w) == 2 {
				i++
			}
		default:
			if java && plainName(w) && strings.Contains(w, ".") {
				return path.Base(w) // a class
			}
			if plainName(w) && (strings.Contains(w, "/") ||
				slices.Contains(in.ends, path.Ext(w))) {
				return path.Base(w)
			}
			return ""
		}
	}
	return ""
}

// mostScriptName is the longest name of a script that is shown, in bytes.
const mostScriptName = 64

// plainName reports whether a word is the path of a file with a usual name.
func plainName(word string) bool {
	base := path.Base(word)
	if len(base) > mostScriptName || base == "." || base == "/" || base == ".." {
		return false
	}
	return strings.IndexFunc(word, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.ContainsRune("._-+/$", c))
	}) < 0
}

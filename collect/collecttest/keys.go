package collecttest

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/measure"
)

// KeyedFile is a file of which some kernels have fewer keys than others. Cut returns, for each key,
// the text without it. Grow returns the text of the next reading.
type KeyedFile struct {
	Cut  func(text string) map[string]string
	Grow func(text string) string
	Must bool // every machine has the file
}

// LineKeys are files of lines "name value": meminfo, vmstat, memory.stat.
// table: a function and its name, never changed
var LineKeys = KeyedFile{Cut: CutLines, Grow: GrowFrom(1, 10)}

// ColumnKeys returns the keys of a file with columns of numbers, to which later kernels append
// columns. The first fields of a line, as many as names, identify it. Numbers have the base.
func ColumnKeys(names, base int) KeyedFile {
	return KeyedFile{Grow: GrowFrom(names, base), Cut: func(text string) map[string]string {
		most := 0
		for line := range strings.Lines(text) {
			most = max(most, len(strings.Fields(line)))
		}
		all := map[string]string{}
		for n := names; n < most; n++ {
			cut := ""
			for line := range strings.Lines(text) {
				w := strings.Fields(line)
				cut += strings.Join(w[:min(n, len(w))], " ") + "\n"
			}
			all[fmt.Sprintf("columns from %d on", n+1)] = cut
		}
		return all
	}}
}

// HeadedKeys are files like snmp and netstat: a line of names, then a line of values.
// table: a function and its name, never changed
var HeadedKeys = KeyedFile{Grow: GrowFrom(1, 10), Cut: func(text string) map[string]string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	all := map[string]string{}
	for i := 0; i+1 < len(lines); i += 2 {
		head, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		all[head[0]] = strings.Join(slices.Delete(slices.Clone(lines), i, i+2), "\n") + "\n"
		for k := 1; k < len(head); k++ {
			without := slices.Clone(lines)
			without[i] = strings.Join(slices.Delete(slices.Clone(head), k, k+1), " ")
			without[i+1] = strings.Join(slices.Delete(slices.Clone(values), k, k+1), " ")
			all[head[0]+head[k]] = strings.Join(without, "\n") + "\n"
		}
	}
	return all
}}

// PairKeys are files like sockstat ("TCP: inuse 1 orphan 0"): names and values after the line's
// name.
// table: a function and its name, never changed
var PairKeys = KeyedFile{Grow: GrowFrom(1, 10), Cut: func(text string) map[string]string {
	return cutWords(text, 2)
}}

// OptionKeys are pressure files and io.stat: words name=value.
// table: a function and its name, never changed
var OptionKeys = KeyedFile{Grow: growOptions, Cut: func(text string) map[string]string {
	return cutWords(text, 1)
}}

// CutLines returns the text without each of its lines, and without any line.
func CutLines(text string) map[string]string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	all := map[string]string{"all": ""}
	for i, l := range lines {
		all[strings.Join(strings.Fields(l)[:1], "")] = strings.Join(
			slices.Delete(slices.Clone(lines), i, i+1), "",
		)
	}
	return all
}

// cutWords returns the text without each of its lines, and without each group of size words after
// the first word of a line.
func cutWords(text string, size int) map[string]string {
	all := CutLines(text)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		w := strings.Fields(l)
		for k := 1; k+size <= len(w); k += size {
			without := slices.Clone(lines)
			without[i] = strings.Join(slices.Delete(slices.Clone(w), k, k+size), " ")
			name, _, _ := strings.Cut(w[k], "=")
			all[w[0]+" "+name] = strings.Join(without, "\n") + "\n"
		}
	}
	return all
}

// GrowFrom returns a function that adds a different amount to each number, from word first of a
// line.
func GrowFrom(first, base int) func(string) string {
	return func(text string) string {
		grown := ""
		for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			w := strings.Fields(line)
			for i := first; i < len(w); i++ {
				v, err := strconv.ParseUint(w[i], base, 64)
				if err != nil || strings.HasPrefix(w[0], "HugePages_") || w[0] == "Hugepagesize:" {
					continue
				}
				w[i] = strconv.FormatUint(v+uint64(100+13*i+7*n), base)
			}
			grown += strings.Join(w, " ") + "\n"
		}
		return grown
	}
}

func growOptions(text string) string {
	grown := ""
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		w := strings.Fields(line)
		for i := range w {
			name, value, _ := strings.Cut(w[i], "=")
			if v, err := strconv.ParseUint(value, 10, 64); err == nil {
				w[i] = fmt.Sprintf("%s=%d", name, v+uint64(100+13*i+7*n))
			}
		}
		grown += strings.Join(w, " ") + "\n"
	}
	return grown
}

// KeyedMachine is a collector with the files that it reads.
type KeyedMachine struct {
	Collector collect.Collector
	Files     map[string]KeyedFile // files of which keys are cut
	Texts     map[string]string    // their texts, where testdata/keys does not have them
	Beside    map[string]string    // files that do not change; DIR means the machine's directory
	Next      map[string]string    // texts of the next reading, where Grow does not make them
	// Dependent are rows that depend on more than their key: prefixes of rows, separated by spaces.
	// The index is "file key", or "file" for all of its keys. The reason is written beside each.
	Dependent map[string]string
	// the only statistics that may lose rows by the file, separated by spaces
	Touches map[string]string
	Spread  int // how many statistics may lose rows by one key; 0: one
}

func keyText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "keys", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readings opens the collector on the files and takes two readings. Statistics that could not be
// read have no rows and are unmeasured.
func (k *KeyedMachine) readings(
	t *testing.T, first, second map[string]string,
) map[measure.StatID]keyedRows {
	t.Helper()
	m := EmptyMachine(t)
	for name, text := range k.Beside {
		m.Put(map[string]string{name: strings.ReplaceAll(text, "DIR", m.Dir)})
	}
	m.Put(first)
	err := m.TryOpen(k.Collector)
	if err == nil {
		defer m.Reading.Close()
	}
	for i, text := range []map[string]string{first, second} {
		m.now = m.now.Add(time.Minute)
		m.Out.Start(i == 0, m.now)
		m.Put(text)
		failed := err
		if failed == nil {
			failed = m.Reading.Read(m.Out)
		}
		if failed != nil {
			m.Out.Fail(failed.Error())
		}
		if i == 0 {
			m.Out.Finish(nil)
		}
	}
	return rowsByStat(m.Out)
}

// keyedRows are the rows of one statistic in one reading.
type keyedRows struct {
	rows       map[string]float64
	sparse     bool // a missing row means 0
	unmeasured bool
	notes      []string
}

func rowsByStat(out *collect.Out) map[measure.StatID]keyedRows {
	all, sparse := map[measure.StatID]keyedRows{}, map[measure.StatID]bool{}
	for _, t := range out.Tables() {
		sparse[t.Stat().ID] = t.Stat().Sparse
	}
	for _, b := range out.Finish(nil) {
		k := keyedRows{
			rows:       map[string]float64{},
			sparse:     sparse[b.Stat],
			unmeasured: b.Over.Start == b.Over.End,
			notes:      slices.Clone(b.Notes),
		}
		for i := range b.Rows() {
			var words []string
			for _, l := range b.Key(i) {
				words = append(words, b.Labels[l])
			}
			k.rows[strings.Join(words, "|")] = b.Values[i]
		}
		all[b.Stat] = k
	}
	return all
}

// CheckMissingKeys checks kernels that lack a key, a line, a file or the last columns of a file.
// The rows of that key must be missing, or unknown with a note. They must never be 0, and no other
// row may change.
func CheckMissingKeys(t *testing.T, machines map[string]KeyedMachine) {
	for name, k := range machines {
		t.Run(name, func(t *testing.T) {
			first, second := map[string]string{}, map[string]string{}
			for file, keyed := range k.Files {
				text := k.Texts[file]
				if text == "" {
					text = keyText(t, file)
				}
				first[file] = text
				if second[file] = k.Next[file]; second[file] == "" {
					second[file] = keyed.Grow(text)
				}
			}
			for name, text := range k.Next {
				second[name] = text
			}
			whole := k.readings(t, first, second)
			for id, w := range whole {
				if len(w.rows) == 0 && !w.unmeasured {
					t.Logf("%s has no rows to lose", id)
				}
			}
			for file, keyed := range k.Files {
				cut, later := keyed.Cut(first[file]), keyed.Cut(second[file])
				for _, key := range slices.Sorted(maps.Keys(cut)) {
					k.compare(
						t, file, key, whole,
						k.readings(t, with(first, file, cut[key]), with(second, file, later[key])),
					)
				}
				if keyed.Must {
					continue
				}
				without, after := maps.Clone(first), maps.Clone(second)
				delete(without, file)
				delete(after, file)
				k.compare(t, file, "", whole, k.readings(t, without, after))
			}
		})
	}
}

func with(files map[string]string, name, text string) map[string]string {
	files = maps.Clone(files)
	files[name] = text
	return files
}

// compare compares the rows that were read without a key with those that were read with it.
func (k *KeyedMachine) compare(
	t *testing.T, file, key string, whole, got map[measure.StatID]keyedRows,
) {
	t.Helper()
	lacks, lose := strings.TrimSpace(file+" "+key), []string{}
	for id, w := range whole {
		g, lost, unknown := got[id], 0, 0
		for row, v := range g.rows {
			had, ok := w.rows[row]
			if k.depends(file, key, string(id)+"|"+row) {
				continue
			}
			if math.IsNaN(v) && !math.IsNaN(had) {
				lost, unknown = lost+1, unknown+1
			} else if !ok || !Near(v, had) {
				t.Errorf("without %s: %s %s = %v, was %v (a row: %v)", lacks, id, row, v, had, ok)
			}
		}
		for row, v := range w.rows {
			if _, ok := g.rows[row]; !ok && v == v && !k.depends(file, key, string(id)+"|"+row) {
				lost++
			}
		}
		if lost > 0 && key != "" {
			lose = append(lose, string(id))
		}
		if only := k.Touches[file]; lost > 0 && only != "" && key != "" &&
			!slices.Contains(strings.Fields(only), string(id)) {
			t.Errorf("without %s: %s lacks %d rows, and only %s come of it", lacks, id, lost, only)
		}
		noted := slices.ContainsFunc(
			g.notes, func(n string) bool { return !slices.Contains(w.notes, n) },
		)
		switch {
		case lost == 0 && g.unmeasured && !w.unmeasured && len(w.rows) > 0:
			t.Errorf("without %s: %s is unmeasured, and no row of it is missing", lacks, id)
		case lost > 0 && len(g.rows) == 0 && !g.unmeasured:
			t.Errorf("without %s: %s has no rows, which reads as nothing happened", lacks, id)
		case (unknown > 0 || lost > 0 && w.sparse) && !noted:
			t.Errorf("without %s: %s lacks %d rows and no note says why", lacks, id, lost)
		}
	}
	if len(lose) > max(k.Spread, 1) && !strings.HasPrefix(key, "columns") && key != "all" {
		t.Errorf("without %s: %q lack rows, and only %d should", lacks, lose, max(k.Spread, 1))
	}
}

// depends reports whether a row may differ without the key.
func (k *KeyedMachine) depends(file, key, row string) bool {
	for _, prefix := range strings.Fields(k.Dependent[file] + " " + k.Dependent[file+" "+key]) {
		if strings.HasPrefix(row, prefix) {
			return true
		}
	}
	return false
}

// CheckNothingBelowZero checks that no amount and no level is below zero, and that no difference
// wraps around, whatever numbers a file has. A container may show absurd numbers, and a reading may
// be torn. Two kinds of rows are excepted: growth that is declared as signed, and what the kernel
// itself shows below zero (Tcp MaxConn).
func CheckNothingBelowZero(t *testing.T, machines map[string]KeyedMachine) {
	absurd := []string{"0", "2147483649", "9223372036854775809", "18446744073709551488"}
	for name, k := range machines {
		t.Run(name, func(t *testing.T) {
			first, second := map[string]string{}, map[string]string{}
			for file, keyed := range k.Files {
				text := k.Texts[file]
				if text == "" {
					text = keyText(t, file)
				}
				first[file] = text
				if second[file] = k.Next[file]; second[file] == "" && keyed.Grow != nil {
					second[file] = keyed.Grow(text)
				}
			}
			for name, text := range k.Next {
				second[name] = text
			}
			for file := range k.Files {
				numbers := numbersIn(second[file])
				for i := 0; i < len(numbers); i += 1 + len(numbers)/16 {
					at := numbers[i]
					for _, v := range absurd {
						torn := second[file][:at[0]] + v + second[file][at[1]:]
						k.noneBelowZero(
							t, file+": "+second[file][max(0, at[0]-30):at[0]]+v, len(v) < 12,
							k.readings(t, first, with(second, file, torn)),
						)
					}
				}
			}
		})
	}
}

// numbersIn returns the begin and end of each decimal number in a text.
func numbersIn(text string) (all [][2]int) {
	for i := 0; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' ||
			i > 0 && !strings.ContainsRune(" \t\n=", rune(text[i-1])) {
			continue
		}
		end := i
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		if end == len(text) || strings.ContainsRune(" \t\n", rune(text[end])) {
			all = append(all, [2]int{i, end})
		}
		i = end
	}
	return all
}

// noneBelowZero checks the rows. small means that all numbers of the files are below 2^32, so that
// a larger level has wrapped around.
func (k *KeyedMachine) noneBelowZero(
	t *testing.T, of string, small bool, got map[measure.StatID]keyedRows,
) {
	t.Helper()
	for _, st := range k.Collector.Stats() {
		for row, v := range got[st.ID].rows {
			switch {
			case st.Signed || st.ID == "net.protocol.level":
			case v < 0:
				t.Errorf("%q: %s %s = %v", of, st.ID, row, v)
			case v >= 1<<62 && st.Kind == measure.Level && small:
				t.Errorf("%q: %s %s = %v: it wrapped around", of, st.ID, row, v)
			case math.IsInf(v, 0):
				t.Errorf("%q: %s %s is infinite", of, st.ID, row)
			}
		}
		for _, pair := range [][3]string{
			{"memory.size", "free", "total"},
			{"memory.size", "available", "total"},
			{"memory.size", "swap_free", "swap_total"},
			{"memory.size", "hugepages_free", "hugepages_total"},
		} {
			part, whole := got[st.ID].rows[pair[1]], got[st.ID].rows[pair[2]]
			if string(st.ID) == pair[0] && part > whole*1.01 {
				t.Errorf(
					"%q: %s %s is %v, more than %s, %v", of, st.ID, pair[1], part, pair[2], whole,
				)
			}
		}
	}
}

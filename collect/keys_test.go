package collect

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

	"culprit/measure"
)

// keyedFile is a file of which a kernel may have fewer keys than another. cut makes the texts that
// lack one key: the name of the key, and the text without it. grow makes the text of the next
// reading.
type keyedFile struct {
	cut  func(text string) map[string]string
	grow func(text string) string
	must bool // the file is there in any case
}

// lineKeys are files of lines "name value": meminfo, vmstat, memory.stat.
var lineKeys = keyedFile{cut: cutLines, grow: growFrom(1, 10)}

// columnKeys returns the keys of a file with columns of numbers. Later kernels append columns. The first
// fields of a line, names of them, identify the line.
func columnKeys(names, base int) keyedFile {
	return keyedFile{grow: growFrom(names, base), cut: func(text string) map[string]string {
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

// headedKeys are snmp and netstat: a line of names, then a line of values.
var headedKeys = keyedFile{grow: growFrom(1, 10), cut: func(text string) map[string]string {
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

// pairKeys are sockstat ("TCP: inuse 1 orphan 0"): names and values after the name of the line.
var pairKeys = keyedFile{grow: growFrom(1, 10), cut: func(text string) map[string]string {
	return cutWords(text, 2)
}}

// optionKeys are pressure files and io.stat: words name=value.
var optionKeys = keyedFile{grow: growOptions, cut: func(text string) map[string]string {
	return cutWords(text, 1)
}}

// cutLines leaves out each line in turn, and all of them.
func cutLines(text string) map[string]string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	all := map[string]string{"all": ""}
	for i, l := range lines {
		all[strings.Join(strings.Fields(l)[:1], "")] = strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "")
	}
	return all
}

// cutWords leaves out each line, and behind the first word of each line each group of so many
// words.
func cutWords(text string, size int) map[string]string {
	all := cutLines(text)
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

// growFrom adds to each number, from a word of the line on, another amount.
func growFrom(first, base int) func(string) string {
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

// keyedMachine is a collector with the files that it reads.
type keyedMachine struct {
	collector Collector
	files     map[string]keyedFile // those of which keys are left out
	texts     map[string]string    // those that are not in testdata/keys
	beside    map[string]string    // files that stay as they are; DIR stands for the machine's folder
	next      map[string]string    // texts of the next reading, of files that don't grow by rule
	// dependent are rows that depend on more than their key, by "file key", or by "file" for all
	// keys of it: prefixes of rows, parted by blanks. The reason stands beside each.
	dependent map[string]string
	touches   map[string]string // of a file, the only statistics that may lose rows by it; parted by blanks
	spread    int               // so many statistics may lose rows by one key; 0: one
}

func keyText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "keys", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readings opens the collector on the files and takes two readings. What it can't read has no rows,
// and is unmeasured.
func (k *keyedMachine) readings(t *testing.T, first, second map[string]string) map[measure.StatID]keyedRows {
	t.Helper()
	m := emptyMachine(t)
	for name, text := range k.beside {
		m.put(map[string]string{name: strings.ReplaceAll(text, "DIR", m.dir)})
	}
	m.put(first)
	err := m.tryOpen(k.collector)
	if err == nil {
		defer m.reading.Close()
	}
	for i, text := range []map[string]string{first, second} {
		m.now = m.now.Add(time.Minute)
		m.out.start(i == 0, m.now)
		m.put(text)
		failed := err
		if failed == nil {
			failed = m.reading.Read(m.out)
		}
		if failed != nil {
			m.out.fail(failed.Error())
		}
		if i == 0 {
			m.out.finish(nil)
		}
	}
	return rowsByStat(m.out)
}

// keyedRows is what a statistic had at a reading.
type keyedRows struct {
	rows       map[string]float64
	sparse     bool // a row that is not there is 0
	unmeasured bool
	notes      []string
}

func rowsByStat(out *Out) map[measure.StatID]keyedRows {
	all, sparse := map[measure.StatID]keyedRows{}, map[measure.StatID]bool{}
	for _, t := range out.Tables() {
		sparse[t.Stat().ID] = t.Stat().Sparse
	}
	for _, b := range out.finish(nil) {
		k := keyedRows{rows: map[string]float64{}, sparse: sparse[b.Stat], unmeasured: b.Over.Start == b.Over.End, notes: slices.Clone(b.Notes)}
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

// checkMissingKeys: a kernel that lacks a key, a line, a file or the last columns of one makes the
// rows of that key missing or unknown with a note, and changes no other row. It never makes one 0.
func checkMissingKeys(t *testing.T, machines map[string]keyedMachine) {
	for name, k := range machines {
		t.Run(name, func(t *testing.T) {
			first, second := map[string]string{}, map[string]string{}
			for file, keyed := range k.files {
				text := k.texts[file]
				if text == "" {
					text = keyText(t, file)
				}
				first[file] = text
				if second[file] = k.next[file]; second[file] == "" {
					second[file] = keyed.grow(text)
				}
			}
			for name, text := range k.next {
				second[name] = text
			}
			whole := k.readings(t, first, second)
			for id, w := range whole {
				if len(w.rows) == 0 && !w.unmeasured {
					t.Logf("%s has no rows to lose", id)
				}
			}
			for file, keyed := range k.files {
				cut, later := keyed.cut(first[file]), keyed.cut(second[file])
				for _, key := range slices.Sorted(maps.Keys(cut)) {
					k.compare(t, file, key, whole, k.readings(t, with(first, file, cut[key]), with(second, file, later[key])))
				}
				if keyed.must {
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

// compare holds what was read without a key against what was read with it.
func (k *keyedMachine) compare(t *testing.T, file, key string, whole, got map[measure.StatID]keyedRows) {
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
			} else if !ok || !near(v, had) {
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
		if only := k.touches[file]; lost > 0 && only != "" && key != "" && !slices.Contains(strings.Fields(only), string(id)) {
			t.Errorf("without %s: %s lacks %d rows, and only %s come of it", lacks, id, lost, only)
		}
		switch told := slices.ContainsFunc(g.notes, func(n string) bool { return !slices.Contains(w.notes, n) }); {
		case lost == 0 && g.unmeasured && !w.unmeasured && len(w.rows) > 0:
			t.Errorf("without %s: %s is unmeasured, and no row of it is missing", lacks, id)
		case lost > 0 && len(g.rows) == 0 && !g.unmeasured:
			t.Errorf("without %s: %s has no rows, which reads as nothing happened", lacks, id)
		case (unknown > 0 || lost > 0 && w.sparse) && !told:
			t.Errorf("without %s: %s lacks %d rows and no note says why", lacks, id, lost)
		}
	}
	if len(lose) > max(k.spread, 1) && !strings.HasPrefix(key, "columns") && key != "all" {
		t.Errorf("without %s: %q lack rows, and only %d should", lacks, lose, max(k.spread, 1))
	}
}

// depends says whether a row may be another without the key.
func (k *keyedMachine) depends(file, key, row string) bool {
	for _, prefix := range strings.Fields(k.dependent[file] + " " + k.dependent[file+" "+key]) {
		if strings.HasPrefix(row, prefix) {
			return true
		}
	}
	return false
}

// checkNothingBelowZero: whatever numbers a file has - those of a container's stand-in for it, or a
// torn reading - no amount and no level is below zero, and none that is made by subtraction wraps
// around. Only growth that is declared as signed and what the kernel itself shows below zero (Tcp
// MaxConn) may be.
func checkNothingBelowZero(t *testing.T, machines map[string]keyedMachine) {
	absurd := []string{"0", "2147483649", "9223372036854775809", "18446744073709551488"}
	for name, k := range machines {
		t.Run(name, func(t *testing.T) {
			first, second := map[string]string{}, map[string]string{}
			for file, keyed := range k.files {
				text := k.texts[file]
				if text == "" {
					text = keyText(t, file)
				}
				first[file] = text
				if second[file] = k.next[file]; second[file] == "" && keyed.grow != nil {
					second[file] = keyed.grow(text)
				}
			}
			for name, text := range k.next {
				second[name] = text
			}
			for file := range k.files {
				numbers := numbersIn(second[file])
				for i := 0; i < len(numbers); i += 1 + len(numbers)/16 {
					at := numbers[i]
					for _, v := range absurd {
						torn := second[file][:at[0]] + v + second[file][at[1]:]
						k.noneBelowZero(t, file+": "+second[file][max(0, at[0]-30):at[0]]+v, len(v) < 12, k.readings(t, first, with(second, file, torn)))
					}
				}
			}
		})
	}
}

// numbersIn returns where the decimal numbers of a text stand.
func numbersIn(text string) (all [][2]int) {
	for i := 0; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' || i > 0 && !strings.ContainsRune(" \t\n=", rune(text[i-1])) {
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

// noneBelowZero checks the rows. small: all numbers of the files are below 2^32, so that a level
// that is not has wrapped around.
func (k *keyedMachine) noneBelowZero(t *testing.T, of string, small bool, got map[measure.StatID]keyedRows) {
	t.Helper()
	for _, st := range k.collector.Stats() {
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
		for _, pair := range [][3]string{{"memory.size", "free", "total"}, {"memory.size", "available", "total"}, {"memory.size", "swap_free", "swap_total"},
			{"memory.size", "hugepages_free", "hugepages_total"}} {
			part, whole := got[st.ID].rows[pair[1]], got[st.ID].rows[pair[2]]
			if string(st.ID) == pair[0] && part > whole*1.01 {
				t.Errorf("%q: %s %s is %v, more than %s, %v", of, st.ID, pair[1], part, pair[2], whole)
			}
		}
	}
}

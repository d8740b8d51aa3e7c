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

// cpuKeys are the lines of CPUs in /proc/stat: user nice system idle iowait irq softirq (2.6.0)
// steal guest guest_nice (2.6.33).
var cpuKeys = keyedFile{cut: func(text string) map[string]string {
	all := map[string]string{}
	for n := 1; n < 11; n++ {
		cut := ""
		for line := range strings.Lines(text) {
			if w := strings.Fields(line); strings.HasPrefix(line, "cpu") {
				line = strings.Join(w[:n], " ") + "\n"
			}
			cut += line
		}
		all[fmt.Sprintf("columns from %d on", n+1)] = cut
	}
	return all
}, grow: growCPUs}

// growCPUs adds ticks to the CPUs, fewer the farther to the right: a guest's time is in user's.
func growCPUs(text string) string {
	grown := ""
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		w := strings.Fields(line)
		for i := 1; i < len(w); i++ {
			v, _ := strconv.ParseUint(w[i], 10, 64)
			w[i] = strconv.FormatUint(v+uint64(500-40*i+n), 10)
		}
		grown += strings.Join(w[:min(len(w), 11)], " ") + "\n"
	}
	return grown
}

func keyText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "keys", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// keyedMachines are the readers of named keys and of columns that some kernels lack.
func keyedMachines() map[string]keyedMachine {
	softnet, number := columnKeys(0, 16), columnKeys(0, 10)
	softnet.grow = func(text string) string { // the 13th column is the CPU
		grown := growFrom(0, 16)(text)
		for n, line := range strings.Split(strings.TrimSuffix(grown, "\n"), "\n") {
			w := strings.Fields(line)
			w[12] = strconv.Itoa(n)
			grown = strings.Replace(grown, line, strings.Join(w, " "), 1)
		}
		return grown
	}
	cpus := map[string]string{"sys/devices/system/cpu/online": "0-1\n"}
	return map[string]keyedMachine{
		"meminfo": {collector: Memory{}, files: map[string]keyedFile{"proc/meminfo": lineKeys}},
		"vmstat": {collector: Vmstat{}, files: map[string]keyedFile{"proc/vmstat": lineKeys}, dependent: map[string]string{
			// Sums of zones: a machine has those zones that it has, so one that is missing is none
			// of it.
			"proc/vmstat allocstall_dma": "memory.stalls", "proc/vmstat allocstall_dma32": "memory.stalls", "proc/vmstat allocstall_normal": "memory.stalls",
			"proc/vmstat allocstall_movable": "memory.stalls", "proc/vmstat allocstall_device": "memory.stalls", "proc/vmstat allocstall_high": "memory.stalls"}},
		"stat": {collector: CPU{}, files: map[string]keyedFile{"proc/stat": {cut: cutLines, grow: growCPUs}}, dependent: map[string]string{
			"proc/stat": "cpu.time|0|unaccounted cpu.time|1|unaccounted"}}, // what is left of the time that really passed
		"stat cpu": {collector: CPU{}, files: map[string]keyedFile{"proc/stat": cpuKeys}, touches: map[string]string{"proc/stat": "cpu.time"}, dependent: map[string]string{
			"proc/stat": "cpu.time|0|unaccounted cpu.time|1|unaccounted",
			// A kernel that does not tell guests apart has them in user and nice.
			"proc/stat columns from 9 on": "cpu.time|0|usr cpu.time|1|usr cpu.time|0|nice cpu.time|1|nice", "proc/stat columns from 10 on": "cpu.time|0|usr cpu.time|1|usr cpu.time|0|nice cpu.time|1|nice",
			"proc/stat columns from 11 on": "cpu.time|0|nice cpu.time|1|nice"}},
		"diskstats": {collector: Disks{}, files: map[string]keyedFile{"proc/diskstats": columnKeys(3, 10)}},
		"pressure":  {collector: Pressure{}, files: map[string]keyedFile{"proc/pressure/cpu": optionKeys, "proc/pressure/io": optionKeys, "proc/pressure/memory": optionKeys}},
		"softnet":   {collector: Softnet{}, files: map[string]keyedFile{"proc/net/softnet_stat": softnet}, beside: cpus},
		"schedstat": {collector: Schedstat{}, files: map[string]keyedFile{"proc/schedstat": columnKeys(1, 10)}},
		"load":      {collector: Load{}, files: map[string]keyedFile{"proc/loadavg": number}},
		"protocols": {collector: NetProtocols{}, files: map[string]keyedFile{"proc/net/snmp": headedKeys, "proc/net/netstat": headedKeys, "proc/net/snmp6": lineKeys,
			"proc/net/sockstat": pairKeys, "proc/net/sockstat6": pairKeys}, spread: 2}, // counters and levels of a protocol
		"cgroup1": cgroupKeyFiles(1), "cgroup2": cgroupKeyFiles(2),
		"processes": processKeyFiles(), "socket tables": {collector: socketTables{}, files: map[string]keyedFile{"proc/net/sockstat": pairKeys, "proc/net/sockstat6": pairKeys},
			spread: 2, // entries and growth
			// A protocol that is not in the kernel has no sockets.
			dependent: map[string]string{"proc/net/sockstat UDPLITE:": "cache.entries||udp cache.growth||udp", "proc/net/sockstat UDPLITE: inuse": "cache.entries||udp cache.growth||udp",
				"proc/net/sockstat6 UDPLITE6:": "cache.entries||udp cache.growth||udp", "proc/net/sockstat6 UDPLITE6: inuse": "cache.entries||udp cache.growth||udp",
				"proc/net/sockstat6 ": "cache.entries||udp cache.growth||udp cache.entries||tcp-est cache.growth||tcp-est"}},
		"softirqs": {collector: Softirqs{}, files: map[string]keyedFile{"proc/softirqs": lineKeys}},
		"caches":   {collector: Caches{}, files: map[string]keyedFile{"proc/sys/fs/dentry-state": number, "proc/sys/fs/inode-state": number, "proc/sys/fs/file-nr": number}},
	}
}

// cgroupKeyFiles is a machine with a control group of the version.
func cgroupKeyFiles(version int) keyedMachine {
	number := columnKeys(0, 10)
	// The lines of a device are no keys: a group without them used none.
	devices := func(keyed keyedFile, device string) keyedFile {
		return keyedFile{grow: keyed.grow, cut: func(text string) map[string]string {
			all := keyed.cut(text)
			delete(all, "all")
			delete(all, device)
			return all
		}}
	}
	ioLines := keyedFile{grow: growFrom(2, 10), cut: func(text string) map[string]string {
		all := map[string]string{}
		for _, kind := range []string{"Read", "Write", "Discard"} {
			line, _, _ := strings.Cut(text[strings.Index(text, "254:0 "+kind):], "\n")
			all[kind] = strings.Replace(text, line+"\n", "", 1)
		}
		return all
	}}
	k := keyedMachine{collector: Cgroups{}, beside: map[string]string{"cg/u/cgroup.stat": "nr_descendants 1\n"}, files: map[string]keyedFile{}, texts: map[string]string{}}
	add := func(name string, keyed keyedFile, text string) {
		k.files[name], k.texts[name] = keyed, text
	}
	if version == 2 {
		at := "cg/u/a/"
		k.touches = map[string]string{at + "cpu.stat": "cgroup.cpu cgroup.periods cgroup.throttled"}
		// Without its controller no group has a quota.
		k.dependent = map[string]string{at + "cpu.max ": "cgroup.quota"}
		k.beside["proc/self/mountinfo"] = "41 31 0:40 / DIR/cg/u rw - cgroup2 cgroup2 rw\n"
		add(at+"cpu.stat", lineKeys, "usage_usec 900\nuser_usec 500\nsystem_usec 400\nnr_periods 10\nnr_throttled 3\nthrottled_usec 700\n")
		add(at+"cpu.max", keyedFile{cut: number.cut, grow: func(s string) string { return s }}, "50000 100000\n")
		add(at+"memory.current", number, "5000\n")
		add(at+"memory.max", number, "90000\n")
		add(at+"memory.high", number, "80000\n")
		add(at+"memory.stat", lineKeys, "anon 300\nfile 700\nkernel 90\n")
		add(at+"memory.events", lineKeys, "low 0\nhigh 5\nmax 7\noom 2\noom_kill 3\n")
		add(at+"io.stat", devices(optionKeys, "254:0"), "254:0 rbytes=100 wbytes=200 rios=3 wios=4 dbytes=50 dios=6\n")
		add(at+"pids.current", number, "7\n")
		for _, resource := range []string{"cpu", "memory", "io"} {
			add(at+resource+".pressure", optionKeys, "some avg10=0.00 avg60=0.00 avg300=0.00 total=100\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=50\n")
		}
		return k
	}
	mounts := ""
	for i, c := range []string{"cpu,cpuacct", "memory", "blkio", "pids"} {
		mounts += fmt.Sprintf("3%d 31 0:3%d / DIR/cg/%s rw - cgroup cgroup rw,%s\n", i, i, c, c)
		k.beside["cg/"+c+"/release_agent"] = "\n"
	}
	k.beside["proc/self/mountinfo"] = mounts
	add("cg/cpu,cpuacct/a/cpuacct.usage", number, "2000000000\n")
	add("cg/cpu,cpuacct/a/cpuacct.stat", lineKeys, "user 100\nsystem 100\n")
	add("cg/cpu,cpuacct/a/cpu.stat", lineKeys, "nr_periods 10\nnr_throttled 1\nthrottled_time 500\n")
	add("cg/cpu,cpuacct/a/cpu.cfs_period_us", number, "100000\n")
	add("cg/cpu,cpuacct/a/cpu.cfs_quota_us", number, "150000\n")
	add("cg/memory/a/memory.usage_in_bytes", number, "5000\n")
	add("cg/memory/a/memory.limit_in_bytes", number, "90000\n")
	add("cg/memory/a/memory.stat", lineKeys, "cache 0\nrss 0\nhierarchical_memory_limit 70000\ntotal_cache 70\ntotal_rss 30\n")
	add("cg/memory/a/memory.kmem.usage_in_bytes", number, "90\n")
	add("cg/memory/a/memory.failcnt", number, "1\n")
	add("cg/memory/a/memory.oom_control", lineKeys, "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
	add("cg/blkio/a/blkio.throttle.io_service_bytes_recursive", ioLines, "254:0 Read 4096\n254:0 Write 10\n254:0 Discard 5\n254:0 Total 4111\n")
	add("cg/pids/a/pids.current", number, "7\n")
	return k
}

// processKeyFiles is a machine with one process, and no taskstats.
func processKeyFiles() keyedMachine {
	now := 100 * measure.Second
	p := madeUp{pid: 7, parent: 1, comm: "busy", usr: 100, sys: 50, minor: 10, major: 1, start: 500, rss: 3, wait: 4}
	k := keyedMachine{collector: Processes{now: func() measure.Span { return now }, passwd: "/dev/null"}, texts: p.files("1505000000 2000 30", 20, 10, 100),
		files: map[string]keyedFile{}, beside: map[string]string{"proc/sys/kernel/task_delayacct": "1\n",
			"proc/stat": "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 9 9 9 9 9 9 9 9 9 9\nctxt 1\n"}}
	k.texts["proc/7/limits"] = "Limit Soft Limit Hard Limit Units\nMax open files 1024 4096 files\n"
	before := p
	p.usr, p.sys, p.minor, p.major, p.rss, p.wait, p.state = 130, 60, 15, 2, 4, 9, "R"
	k.next = p.files("1907000000 5000 41", 27, 14, 150)
	k.next["proc/7/limits"] = k.texts["proc/7/limits"]
	of := keyedFile{must: true, cut: cutLines} // a process without it has ended
	for file, keyed := range map[string]keyedFile{"7/io": of, "7/status": of, "self/schedstat": columnKeys(0, 10), "self/io": {cut: func(string) map[string]string { return nil }, grow: strings.ToUpper}, "7/limits": lineKeys, "7/stat": statColumns} {
		k.files["proc/"+file] = keyed
	}
	k.texts["proc/self/io"] = "rchar: 1\n"
	for name, text := range before.files("1 1 1", 1, 1, 1) {
		k.beside[strings.Replace(name, "proc/7/", "proc/7/task/7/", 1)] = text
	}
	k.texts["proc/self/schedstat"] = "1 1 1\n"
	k.spread = 2                                                     // of the process and of its thread
	k.dependent = map[string]string{"proc/7/status": "process.info", // a user that is not known is an empty word
		"proc/self/schedstat": "process.cpu thread.cpu"} // then known to the tick
	for name, text := range k.texts {
		if _, keyed := k.files[name]; !keyed {
			k.beside[name] = text
		}
	}
	return k
}

// statColumns are the columns of a process' stat line, of which 42 with the disk waits came with
// 2.6.18.
var statColumns = keyedFile{must: true, cut: func(text string) map[string]string {
	all, w := map[string]string{}, strings.Fields(text)
	for n := 24; n < len(w); n++ {
		all[fmt.Sprintf("columns from %d on", n+1)] = strings.Join(w[:n], " ") + "\n"
	}
	return all
}}

// socketTables are NetCaches without what netlink tells of this machine.
type socketTables struct{ NetCaches }

func (s socketTables) Open(env *Env, want Want) (Reading, error) {
	r, err := s.NetCaches.Open(env, want)
	if err != nil {
		return nil, err
	}
	return socketTablesReading{r.(*netCaches)}, nil
}

type socketTablesReading struct{ *netCaches }

func (r socketTablesReading) Read(o *Out) error {
	for _, s := range r.spaces.list {
		rest := time.Now().Add(time.Hour)
		s.data.neighbourPace.next, s.data.fdbPace.next = rest, rest
	}
	return r.netCaches.Read(o)
}

// readings opens the collector on the files and takes two readings. What it can't read has no rows,
// and is unmeasured.
func (k *keyedMachine) readings(t *testing.T, first, second map[string]string) map[measure.StatID]keyedRows {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	m.env.Root.Proc, m.env.Root.Sys = m.dir+"/proc", m.dir+"/sys"
	for name, text := range k.beside {
		m.put(map[string]string{name: strings.ReplaceAll(text, "DIR", m.dir)})
	}
	m.put(first)
	m.out = newOut(k.collector.Stats(), newDictionary(), false)
	var err error
	m.reading, err = k.collector.Open(&m.env, wantAll(k.collector))
	if err == nil {
		defer m.reading.Close()
	}
	for i, text := range []map[string]string{first, second} {
		m.out.before = time.Now().Add(-time.Minute)
		m.out.start(i == 0)
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
	all, stats := map[measure.StatID]keyedRows{}, map[measure.StatID]measure.Stat{}
	for _, st := range out.stats {
		stats[st.ID] = st
	}
	for _, b := range out.finish(nil) {
		k := keyedRows{rows: map[string]float64{}, sparse: stats[b.Stat].Sparse, unmeasured: b.Over.Start == b.Over.End, notes: slices.Clone(b.Notes)}
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

// TestMissingKeys: a kernel that lacks a key, a line, a file or the last columns of one makes the
// rows of that key missing or unknown with a note, and changes no other row. It never makes one 0.
func TestMissingKeys(t *testing.T) {
	for name, k := range keyedMachines() {
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

// TestNothingBelowZero: whatever numbers a file has - those of a container's stand-in for it, or a
// torn reading - no amount and no level is below zero, and none that is made by subtraction wraps
// around. Only growth that is declared as signed and what the kernel itself shows below zero (Tcp
// MaxConn) may be.
func TestNothingBelowZero(t *testing.T) {
	absurd := []string{"0", "2147483649", "9223372036854775809", "18446744073709551488"}
	for name, k := range keyedMachines() {
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

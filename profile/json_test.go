package profile

import (
	"runtime"
	"strings"
	"testing"

	"culprit/heapbound"
)

const (
	geckoProcessed = `{"meta":{"interval":1,"preprocessedProfileVersion":47},"threads":[{"name":"main","pid":"1","tid":1,"stringArray":["main","work","app.c"],
"funcTable":{"length":2,"name":[0,1],"fileName":[2,null],"lineNumber":[7,null]},"frameTable":{"length":2,"func":[0,1]},
"stackTable":{"length":2,"frame":[0,1],"prefix":[null,0]},"samples":{"length":4,"stack":[1,1,0,null],"weight":null,"weightType":"samples"}}]}`
	geckoShared = `{"meta":{"interval":1,"preprocessedProfileVersion":58},"shared":{"stringArray":["main","work"],"funcTable":{"length":2,"name":[0,1]},
"frameTable":{"length":2,"func":[0,1]},"stackTable":{"length":2,"frame":[0,1],"prefix":[null,0]}},"threads":[{"name":"A","samples":{"stack":[1,0],"weight":[5,2],"weightType":"samples"}},
{"name":"B","samples":{"stack":[1],"weightType":"samples"}},{"name":"C","samples":{"stack":[1],"weight":[4096],"weightType":"bytes"}}]}`
	geckoRaw = `{"meta":{"interval":1,"version":29},"libs":[],"threads":[{"name":"GeckoMain","samples":{"schema":{"stack":0,"time":1},"data":[[1,0.1],[1,0.2],[0,0.3],[null,0.4]]},
"stackTable":{"schema":{"prefix":0,"frame":1},"data":[[null,0],[0,1]]},"frameTable":{"schema":{"location":0},"data":[[0],[1]]},"stringTable":["main","work (a.js:3)"]}],"processes":[]}`
	chromeX = `{"traceEvents":[{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"worker"}},
{"ph":"X","name":"main","ts":0,"dur":100,"pid":1,"tid":1},{"ph":"X","name":"a","ts":10,"dur":30,"pid":1,"tid":1},{"ph":"i","name":"x","ts":20,"pid":1,"tid":1},
{"ph":"X","name":"b","ts":50,"dur":40,"pid":1,"tid":1}],"displayTimeUnit":"ms"}`
	chromeB  = `[{"ph":"B","name":"main","ts":0,"pid":1,"tid":1},{"ph":"B","name":"a","ts":10,"pid":1,"tid":1},{"ph":"E","ts":40,"pid":1,"tid":1},{"ph":"E","name":"main","ts":100,"pid":1,"tid":1}]`
	devTools = `{"traceEvents":[{"ph":"P","name":"Profile","id":"0x1","ts":1000,"pid":1,"tid":1,"args":{"data":{"startTime":1000}}},
{"ph":"P","name":"ProfileChunk","id":"0x1","ts":2000,"pid":1,"tid":2,"args":{"data":{"cpuProfile":{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}},{"id":2,"parent":1,"callFrame":{"functionName":"main","url":"app.js"}}],"samples":[2]},"timeDeltas":[100]}}},
{"ph":"P","name":"ProfileChunk","id":"0x1","ts":2000,"pid":1,"tid":2,"args":{"data":{"cpuProfile":{"nodes":[{"id":3,"parent":2,"callFrame":{"functionName":"work","url":"app.js"}}],"samples":[3,3]},"timeDeltas":[100,100]}}}]}`
	pyroscopeJSON = `{"version":1,"flamebearer":{"names":["total","main","work","idle"],"levels":[[0,10,0,0],[0,8,1,1,0,2,2,3],[0,7,7,2]],"numTicks":10,"maxSelf":7},"metadata":{"format":"single","units":"samples","sampleRate":100}}`
	d3JSON        = `{"name":"root","value":10,"children":[{"name":"main","value":10,"children":[{"name":"work","value":7,"children":[]}]}]}`
	stackProfJSON = `{"version":1.2,"mode":"wall","interval":1000,"samples":3,"gc_samples":0,"frames":{"11":{"name":"Object#main","file":"/srv/app.rb","line":1,"samples":1},"12":{"name":"Object#work","samples":2}},"raw":[2,11,12,2,1,11,1]}`
	v8HeapJSON    = `{"head":{"callFrame":{"functionName":"(root)"},"selfSize":0,"id":1,"children":[{"callFrame":{"functionName":"alloc","url":"app.js","lineNumber":3},"selfSize":4096,"id":2,"children":[{"callFrame":{"functionName":"inner"},"selfSize":16,"children":[]}]}]},"samples":[]}`
)

// jsonCorpus is a profile in each JSON format, with its stacks.
//
// table: input and result
var jsonCorpus = []struct{ name, in, out string }{
	{"Firefox, processed", geckoProcessed, "main 1\nmain;work 2\n"},
	{"Firefox, shared tables", geckoShared, "A;main 2\nA;main;work 5\nB;main;work 1\n"},
	{"Firefox, raw", geckoRaw, "main 1\nmain;work (a.js:3) 2\n"},
	{"Chrome, whole calls", chromeX, "main 30000\nmain;a 30000\nmain;b 40000\n"},
	{"Chrome, begins and ends", chromeB, "main 70000\nmain;a 30000\n"},
	{
		"Chrome, no end of the list",
		strings.TrimSuffix(chromeB, "]") + ",",
		"main 70000\nmain;a 30000\n",
	},
	{
		"Chrome, open calls",
		`[{"ph":"B","name":"main","ts":0,"pid":1,"tid":1},{"ph":"B","name":"a","ts":10,"pid":1,"tid":1},{"ph":"X","name":"b","ts":20,"dur":80,"pid":1,"tid":1}]`,
		"main 10000\nmain;a 10000\nmain;a;b 80000\n",
	},
	{
		"Chrome, threads",
		`[{"ph":"X","name":"m","ts":0,"dur":1,"pid":1,"tid":1},{"ph":"X","name":"m","ts":0,"dur":2,"pid":1,"tid":2}]`,
		"thread 1/1;m 1000\nthread 1/2;m 2000\n",
	},
	{
		"Hermes",
		`{"traceEvents":[],"samples":[{"cpu":"-1","ts":"1","sf":2,"weight":"1"},{"sf":"1"}],"stackFrames":{"1":{"name":"main"},"2":{"name":"work","parent":1}}}`,
		"main 1\nmain;work 1\n",
	},
	{"DevTools", devTools, "main 100000\nmain;work 200000\n"},
	{"Pyroscope", pyroscopeJSON, "idle 2\nmain 1\nmain;work 7\n"},
	{"d3", d3JSON, "main 3\nmain;work 7\n"},
	{"stackprof", stackProfJSON, "Object#main 1\nObject#main;Object#work 2\n"},
	{"V8's heap", v8HeapJSON, "alloc 4096\nalloc;inner 16\n"},
}

func TestJSONFormats(t *testing.T) {
	for _, c := range jsonCorpus {
		t.Run(c.name, func(t *testing.T) {
			for _, in := range []string{
				c.in,
				"\n " + c.in + "\n",
				"\xef\xbb\xbf" + c.in,
				strings.ReplaceAll(c.in, "\n", ""),
			} {
				if got := fold(t, in, Options{}); got != c.out {
					t.Errorf("got\n%swant\n%s", got, c.out)
				}
			}
		})
	}
}

// TestJSONOfNoProfile checks that JSON without stacks is refused with advice.
func TestJSONOfNoProfile(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": 1}`: "JSON of an unknown kind", `[{"a": 1}]`: "JSON of an unknown kind",
		`{"root_frame": {}}`: "pyinstrument -r speedscope", `{"dhatFileVersion": 2}`: "DHAT", `{"program": "x", "cost_centres": []}`: "GHC",
		`{"traceEvents":[]}`: "no samples in it", `{"meta":{"preprocessedProfileVersion":47},"threads":[]}`: "no samples in it", `{"name":"root","value":0,"children":[]}`: "no samples in it",
		`{"version":1,"flamebearer":{"names":["total"],"levels":[[0,10,0,0],[0,10,3,1]]}}`: "level 1", `{"version":1,"flamebearer":{},"metadata":{"format":"double"}}`: "a comparison",
		`{"mode":"wall","gc_samples":0,"frames":{},"raw":[5,1]}`: "raw: at 0", `{"meta":{},"threads":[{"samples":{"stack":[7]},"stackTable":{"frame":[0],"prefix":[null]}}]}`: "stack 7, of 1",
		`{"meta":{},"threads":[{"stringArray":["a"],"funcTable":{"name":[0]},"frameTable":{"func":[0]},"samples":{"stack":[0]},"stackTable":{"frame":[0],"prefix":[0]}}]}`: "deeper than",
	} {
		_, err := Read(never, strings.NewReader(in), "f", Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

// treeLimit is how much a fuzz target may allocate that reads and writes a profile.
func treeLimit() heapbound.Limit { return heapbound.Limit{Base: 64 << 20, PerByte: 8192} }

// heapBound fails a fuzz target whose reader allocates more memory than a bound, for inputs of a
// few kilobytes.
func heapBound(t *testing.T, in int, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if took, most := after.TotalAlloc-before.TotalAlloc, uint64(16<<20+4096*in); took > most {
		t.Fatalf("%d bytes took %d, more than %d", in, took, most)
	}
}

func FuzzJSON(f *testing.F) {
	for _, c := range jsonCorpus {
		f.Add(c.in)
	}
	heapbound.FuzzWithin(f, treeLimit(), func(t *testing.T, in string) {
		for _, format := range []Format{TraceEvents, Gecko, D3, Pyroscope, StackProf, V8Heap} {
			heapBound(t, len(in), func() {
				if tree, err := readJSON(format, strings.NewReader(in), Options{}); err == nil {
					checkTree(t, tree)
				}
			})
		}
	})
}

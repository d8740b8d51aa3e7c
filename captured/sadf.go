package captured

import (
	"encoding/json"
	"strconv"
	"strings"
)

// sadfSections lists the sections of sadf -j: their kind and columns, as define writes them.
func sadfSections() map[string]format {
	cpu := define(CPUs, "sadf", `cpu=cpu$ user=usr usr=usr nice=nice system=sys sys=sys iowait=iowait
		steal=steal irq=irq soft=soft guest=guest idle=idle`)
	return map[string]format{
		"cpu-load": cpu, "cpu-load-all": cpu,
		"queue": define(Queue, "sadf", `runq-sz=runnable plist-sz=tasks ldavg-1=load1 ldavg-5=load5
			ldavg-15=load15 blocked=blocked`),
		"memory": define(Memory, "sadf", `memfree=free*1024 avail=available*1024
			memused=used*1024`),
		"swap-pages": define(Paging, "sadf", `pswpin=si*4096 pswpout=so*4096`),
		"disk": define(Disks, "sadf", `disk-device=device$ rkB=readbytes*1024 wkB=writebytes*1024
			aqu-sz=queue avgqu-sz=queue await=await util-percent=util tps=tps`),
		"net-dev": define(Devices, "sadf", `iface=device$ rxpck=rxpackets txpck=txpackets
			rxkB=rxbytes*1024 txkB=txbytes*1024 ifutil-percent=util`),
		"net-edev": define(Devices, "sadf", `iface=device$ rxerr=rxerrors txerr=txerrors
			rxdrop=rxdrops txdrop=txdrops rxfifo=rxfifo txfifo=txfifo`),
		"net-tcp":  define(Counters, "sar", `iseg=InSegs/s oseg=OutSegs/s`),
		"net-etcp": define(Counters, "sar", `retrans=RetransSegs/s isegerr=InErrs/s`),
	}
}

// A sadfDocument is what sadf -j prints, with sections that are parsed when they are known.
type sadfDocument struct {
	Sysstat struct {
		Hosts []struct {
			Node       string                       `json:"nodename"`
			CPUs       int                          `json:"number-of-cpus"`
			Statistics []map[string]json.RawMessage `json:"statistics"`
		} `json:"hosts"`
	} `json:"sysstat"`
}

// json reads the output of sadf -j. It reports whether text is such a document.
func (r *reader) json(text string) bool {
	at := strings.IndexByte(text, '{')
	if at < 0 || !strings.Contains(text[at:min(len(text), at+200)], `"sysstat"`) {
		return false
	}
	var d sadfDocument
	if json.NewDecoder(strings.NewReader(text[at:])).Decode(&d) != nil {
		return false
	}
	sections := sadfSections()
	for _, h := range d.Sysstat.Hosts {
		r.host, r.cpus = h.Node, h.CPUs
		r.Hosts = append(r.Hosts, h.Node)
		r.open = map[string]*Table{}
		for sample, statistic := range h.Statistics {
			when := sadfTime(statistic["timestamp"])
			r.sections(sections, statistic, sample, when)
			var network map[string]json.RawMessage
			if json.Unmarshal(statistic["network"], &network) == nil {
				r.sections(sections, network, sample, when)
			}
		}
	}
	return true
}

// sadfTime returns the time of day of a timestamp; "" when it has none.
func sadfTime(raw json.RawMessage) string {
	var t struct {
		Time string `json:"time"`
	}
	if json.Unmarshal(raw, &t) != nil {
		return ""
	}
	return t.Time
}

func (r *reader) sections(
	known map[string]format, statistic map[string]json.RawMessage, sample int, when string,
) {
	for name, f := range known {
		raw, ok := statistic[name]
		if !ok {
			continue
		}
		var rows []map[string]any
		if json.Unmarshal(raw, &rows) != nil {
			var row map[string]any
			if json.Unmarshal(raw, &row) != nil {
				continue
			}
			rows = []map[string]any{row}
		}
		for _, row := range rows {
			if r.rows < maxRows {
				r.sadfRow(name, &f, row, sample, when)
			}
		}
	}
}

// sadfRow adds an object of a section to the table of the section.
func (r *reader) sadfRow(name string, f *format, row map[string]any, sample int, when string) {
	t := r.open[name]
	if t == nil {
		t = newTable(f.kind, f.tool)
		seen := map[string]bool{}
		for _, c := range f.columns {
			if !seen[c.name] {
				seen[c.name] = true
				t.addColumn(c.name, c.scale, c.word)
			}
		}
		r.open[name] = r.register(t)
		t.Line = 0
	}
	cells := make([]string, len(t.Columns))
	for header, c := range f.columns {
		switch v := row[header].(type) {
		case string:
			cells[t.index(c.name)] = v
		case float64:
			cells[t.index(c.name)] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	one := t.add(0, when, cells...)
	one.Sample, t.samples = sample, sample
	r.rows++
}

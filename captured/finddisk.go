package captured

import (
	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"fmt"
	"math"
	"strings"
)

// disks finds saturated and slow disks.
func (s *study) disks() {
	for _, t := range s.of(Disks) {
		names, by := group(t.measured(), "device")
		busiest := (*Row)(nil)
		for _, name := range names {
			r := typical(by[name], "util")
			if r == nil {
				continue
			}
			s.judgeDisk(r, name)
			if busiest == nil || r.Num("util") > busiest.Num("util") {
				busiest = r
			}
		}
		if busiest != nil {
			s.clear("disk", "busiest disk %s %s busy%s (%s, %s)", busiest.Word("device"),
				percent(busiest.Num("util")), awaitText(busiest), t.Tool, busiest.Place())
		}
	}
}

// await returns the mean time of a request in ns; NaN when it is not printed.
func await(r *Row) float64 {
	if v := r.Num("await"); v == v {
		if w := r.Num("wsvc"); w == w {
			v += w
		}
		return v * 1e6
	}
	reads, writes := zero(r.Num("reads")), zero(r.Num("writes"))
	ra, wa := r.Num("rawait"), r.Num("wawait")
	if reads+writes == 0 || ra != ra && wa != wa {
		return math.NaN()
	}
	return (zero(ra)*reads + zero(wa)*writes) / (reads + writes) * 1e6
}

// depth returns the mean number of requests in a queue or under way; NaN when unknown.
func depth(r *Row) float64 {
	if v := r.Num("queue"); v == v {
		return v
	}
	if v := r.Num("active"); v == v {
		return v + zero(r.Num("waiting"))
	}
	return math.NaN()
}

func awaitText(r *Row) string {
	if a := await(r); a == a {
		return ", " + phrase.Duration(a) + " a request"
	}
	return ""
}

func (s *study) judgeDisk(r *Row, name string) {
	util, wait, queue := r.Num("util")/100, await(r), depth(r)
	if s.find1("disk-saturated/"+name) != nil || strings.HasPrefix(name, "loop") {
		return
	}
	slow := wait >= threshold.DiskSlow
	if util < threshold.DiskBusyShare || queue == queue && queue < threshold.DiskQueueLong ||
		wait == wait && !slow && !(queue >= threshold.DiskQueueDeep) {
		return
	}
	severity, confidence := diagnose.High, 0.85
	if wait != wait || queue != queue {
		severity, confidence = diagnose.Medium, 0.6
	}
	f := s.find("disk-saturated", name, severity, confidence,
		diagnose.Culprit{Kind: "disk", Name: name}, fmt.Sprintf("%s is saturated: %s busy%s, "+
			"%s requests at once.", name, percent(100*util), awaitText(r), phrase.Digits(queue)))
	evidence(f, r, util, "1", "%s busy", percent(100*util))
	if wait == wait {
		evidence(f, r, wait, "ns", "%s per request", phrase.Duration(wait))
	}
	if queue == queue {
		evidence(f, r, queue, "request", "%s requests in the queue", phrase.Digits(queue))
	}
	reads, writes := zero(r.Num("reads")), zero(r.Num("writes"))
	if reads+writes > 0 {
		evidence(f, r, reads+writes, "request/s", "%s reads/s (%s) and %s writes/s (%s)",
			phrase.Count(reads), phrase.BytesRate(zero(r.Num("readbytes"))),
			phrase.Count(writes), phrase.BytesRate(zero(r.Num("writebytes"))))
	}
	s.nameIO(f, zero(r.Num("readbytes"))+zero(r.Num("writebytes")))
	f.Verify = "iostat -x 1 3"
}

package captured

import (
	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
	"fmt"
	"math"
	"strings"
)

// links finds links below the speed that their interfaces support.
func (s *study) links() {
	for _, t := range s.of(Links) {
		for _, r := range t.Rows {
			s.judgeLink(r)
		}
	}
}

func (s *study) judgeLink(r *Row) {
	speed, best := r.Num("speed"), r.Num("supported")
	device := r.Word("device")
	if device == "" {
		device = "the interface"
	}
	s.shown["link"] = s.shown["link"] || speed > 0
	half := strings.EqualFold(r.Word("duplex"), "half")
	if strings.EqualFold(r.Word("link"), "no") || !(speed > 0) || !(best > speed) && !half {
		if best == speed {
			s.clear("link", "%s runs at %s, its best mode (%s, %s)", device,
				phrase.LinkRate(speed), r.Table.Tool, r.Place())
		}
		return
	}
	severity, confidence := diagnose.Medium, 0.85
	if use := s.rateOf(device) * 8 / speed; use >= threshold.LinkFull {
		severity = diagnose.High
	}
	claim := fmt.Sprintf("%s runs at %s.", device, phrase.OutOf(speed, best))
	if half {
		claim = fmt.Sprintf(
			"%s runs half duplex at %s: both directions share the line and collide.", device,
			phrase.LinkRate(speed),
		)
	}
	if r.Word("partner") != "" && r.Num("partner") < best {
		claim = strings.TrimSuffix(claim, ".") + fmt.Sprintf("; its partner advertises at most %s.",
			phrase.LinkRate(r.Num("partner")))
	}
	f := s.find("link-below-mode", device, severity, confidence,
		diagnose.Culprit{Kind: "interface", Name: device, Interface: device}, claim)
	evidence(f, r, speed, string(measure.BitsPerSec), "%s negotiated %s and supports %s", device,
		phrase.LinkRate(speed), phrase.LinkRate(best))
	f.Evidence[0].ComparedWith, f.Evidence[0].ComparedAs = diagnose.Number(best), "best mode"
	for _, o := range r.Table.Rows {
		if o != r && o.Num("speed") == best {
			evidence(f, o, best, string(measure.BitsPerSec), "%s beside it runs at %s",
				o.Word("device"), phrase.LinkRate(best))
		}
	}
	caveat(
		f,
		"Causes are a cable with a broken pair, a bad plug, a forced speed or the port of the "+
			"partner.",
	)
	f.Verify = "ethtool " + phrase.Shell(device)
	if s.solaris() {
		f.Verify = "dladm show-linkprop -p speed " + phrase.Shell(device)
	}
}

// rateOf returns the larger rate of an interface in B/s, 0 when it was not captured.
func (s *study) rateOf(device string) float64 {
	best := 0.0
	for _, t := range s.of(Devices) {
		_, by := group(t.measured(), "device")
		for _, column := range []string{"rxbytes", "txbytes"} {
			if r := typical(by[device], column); r != nil {
				best = max(best, r.Num(column))
			}
		}
	}
	return best
}

// speedOf returns the speed of an interface; ok is false when no table shows it. Without a name
// the speed of the only link counts.
func (s *study) speedOf(device string) (float64, *Row) {
	var only *Row
	n := 0
	for _, t := range s.of(Links) {
		for _, r := range t.Rows {
			if v := r.Num("speed"); v > 0 {
				if r.Word("device") == device && device != "" {
					return v, r
				}
				if r.Word("device") == "" || device == "" {
					only, n = r, n+1
				}
			}
		}
	}
	if n == 1 {
		return only.Num("speed"), only
	}
	return math.NaN(), nil
}

func nominalSpeeds() []float64 {
	return []float64{10e6, 100e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 50e9, 100e9, 200e9, 400e9}
}

// nominal returns the nominal speed that a rate fills to LinkFull at least, and no more than its
// headers allow; NaN when it fills none.
func nominal(bits float64) float64 {
	for _, speed := range nominalSpeeds() {
		if bits >= threshold.LinkFull*speed && bits <= speed*1.01 {
			return speed
		}
	}
	return math.NaN()
}

// speedByUse returns the speed that a printed utilization implies: of one direction, or of the sum
// of both, as nicstat counts half duplex.
func speedByUse(rate, both, use float64) float64 {
	for _, bits := range []float64{rate, both} {
		for _, speed := range nominalSpeeds() {
			if math.Abs(bits/use/speed-1) < 0.03 {
				return speed
			}
		}
	}
	return rate / use
}

// traffic finds links near their speed.
func (s *study) traffic() {
	for _, t := range s.of(Devices) {
		names, by := group(t.measured(), "device")
		for _, name := range names {
			if isLoopback(name) {
				continue
			}
			way := "tx"
			if zero(mean(by[name], "rxbytes")) > zero(mean(by[name], "txbytes")) {
				way = "rx"
			}
			if r := typical(by[name], way+"bytes"); r != nil {
				s.judgeRate(r, name, way, r.Num(way+"bytes")*8, r.Num("util"))
			}
		}
	}
	for _, t := range s.of(Flows) {
		var most *Row
		for _, r := range t.Rows {
			if v := r.Num("rate"); v == v && !strings.HasPrefix(r.Word("from"), "total") &&
				(most == nil || v > most.Num("rate")) {
				most = r
			}
		}
		for _, r := range t.Rows {
			if most == nil || strings.HasPrefix(r.Word("from"), "total") &&
				r.Num("rate") > most.Num("rate") {
				most = r
			}
		}
		if most != nil {
			s.judgeRate(most, t.Subject, "tx", most.Num("rate"), measure.NaN)
		}
	}
	for _, t := range s.of(Throughput) {
		if r := typical(t.Rows, "rate"); r != nil {
			s.judgeRate(r, "", "tx", r.Num("rate"), measure.NaN)
		}
	}
}

// judgeRate compares a rate in bit/s with the speed of its link. used is the share in percent that
// the tool prints; NaN when it prints none.
func (s *study) judgeRate(r *Row, device, way string, rate, used float64) {
	speed, linkRow := s.speedOf(device)
	assumed := false
	use := rate / speed
	switch {
	case speed == speed:
	case used > 0:
		use = used / 100
		speed = speedByUse(rate, zero(r.Num("rxbytes")+r.Num("txbytes"))*8, use)
	case nominal(rate) == nominal(rate):
		speed, assumed = nominal(rate), true
		use = rate / speed
	default:
		s.clear("network", "%s %s (%s, %s)", orAny(device), phrase.BitRate(rate), r.Table.Tool,
			r.Place())
		return
	}
	s.shown["network"] = true
	full := use >= threshold.LinkFull &&
		(used != used || used == 0 || used >= 100*threshold.LinkFull)
	if !full || use > threshold.LinkBeyond || rate < threshold.LinkWorthwhile ||
		s.find1("interface-unused/"+device) != nil {
		if !full {
			s.clear("network", "%s at %s of its speed (%s, %s)", orAny(device), phrase.Percent(use),
				r.Table.Tool, r.Place())
		}
		return
	}
	s.fullLink(r, device, way, rate, speed, use, assumed, linkRow)
}

func orAny(device string) string {
	if device == "" {
		return "the link"
	}
	return device
}

// almostFull is the share of a link's speed from which on nothing else fits.
const almostFull = 0.93

func (s *study) fullLink(
	r *Row, device, way string, rate, speed, use float64, assumed bool, linkRow *Row,
) {
	id := "link-saturated/" + orAny(device)
	if s.find1(id) != nil {
		return
	}
	severity, confidence := diagnose.High, 0.9
	if use < almostFull {
		severity = diagnose.Medium
	}
	if assumed {
		confidence = 0.75
	}
	claim := fmt.Sprintf("%s is full: %s %s of %s", orAny(device), way, gigabits(rate),
		gigabits(speed))
	if from, to := r.Word("from"), r.Word("to"); from != "" && to != "" {
		claim += fmt.Sprintf(" from %s to %s", from, to)
	}
	top := s.topProcess()
	if top != nil {
		claim += fmt.Sprintf("; %s uses most CPU, %s", phrase.Clean(top.Word("command")),
			percent(top.Num("cpu")))
	}
	f := s.find("link-saturated", orAny(device), severity, confidence, diagnose.Culprit{
		Kind: "interface", Name: orAny(device), Interface: device, Local: r.Word("from"),
		Peer: r.Word("to")}, claim+".")
	evidence(f, r, rate, string(measure.BitsPerSec), "%s %s, %s of %s", way, phrase.BitRate(rate),
		phrase.Percent(use), gigabits(speed))
	if linkRow != nil {
		evidence(f, linkRow, speed, string(measure.BitsPerSec), "negotiated speed %s",
			phrase.LinkRate(speed))
	}
	if assumed {
		caveat(f, "The speed of the link is assumed: the rate is just below "+gigabits(speed)+
			". ethtool shows it.")
	}
	if top != nil {
		caveat(
			f, "The tables do not show which process sends: nethogs, ss -tinp or culprit flows do.",
		)
	}
	f.Verify = "sar -n DEV 1 3; ethtool " + phrase.Shell(orAny(device))
}

// gigabits returns a rate in the unit of links: "0.99 Gbit/s" from 0.9 Gbit/s on.
func gigabits(bits float64) string {
	if bits >= 0.895e9 {
		return phrase.Digits(math.Round(bits/1e7)/100) + " Gbit/s"
	}
	return phrase.BitRate(bits)
}

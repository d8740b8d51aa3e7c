package measure

// Unit says what a value counts. It is also the text that JSON and the page show.
type Unit string

// Units in use. Shares are ratios from 0 to 1, never percent. Times are nanoseconds. Pages, ticks, jiffies and sectors end
// at the parser.
const (
	Count       Unit = "1"     // a plain number: threads, entries
	Events      Unit = "event" // things that happened: interrupts, faults, switches
	Bytes       Unit = "B"
	BitsPerSec  Unit = "bit/s" // a speed as a level: link rate, delivery rate
	Packets     Unit = "packet"
	Operations  Unit = "op"
	Nanoseconds Unit = "ns"
	Ratio       Unit = "ratio"
	Hertz       Unit = "Hz"
	Samples     Unit = "sample" // of a profile
)

// PerSecond gives the unit of this unit's rate. Time per second is a ratio: a CPU that worked 0.3 s in each second has rate 0.3.
func (u Unit) PerSecond() Unit {
	switch u {
	case Nanoseconds:
		return Ratio
	case Count:
		return "1/s"
	}
	return u + "/s"
}

// Rates makes each amount what Rate gives of it.
func (u Unit) Rates(amounts []float64, over Span) {
	if over <= 0 {
		for i := range amounts {
			amounts[i] = NaN
		}
		return
	}
	per := over.Seconds()
	if u == Nanoseconds {
		per = float64(over)
	}
	for i, v := range amounts {
		amounts[i] = v / per
	}
}

// Rate gives amount (in u) per second over the span, in u.PerSecond(). NaN when the span is not positive.
func (u Unit) Rate(amount float64, over Span) float64 {
	if over <= 0 {
		return NaN
	}
	if u == Nanoseconds {
		return amount / float64(over)
	}
	return amount / over.Seconds()
}

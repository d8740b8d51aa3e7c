package measure

// Unit says what a value counts. JSON and the page show it as text.
type Unit string

// Units in use. Shares are ratios from 0 to 1, never percent. Times are nanoseconds. Parsers
// convert pages, ticks, jiffies and sectors.
const (
	Count       Unit = "1"     // a plain number: threads, entries
	Events      Unit = "event" // occurrences: interrupts, faults, switches
	Bytes       Unit = "B"
	BitsPerSec  Unit = "bit/s" // a speed as a level: link rate, delivery rate
	Packets     Unit = "packet"
	Operations  Unit = "op"
	Nanoseconds Unit = "ns"
	Ratio       Unit = "ratio"
	Hertz       Unit = "Hz"
	Samples     Unit = "sample" // of a profile
)

// PerSecond returns the unit of this unit's rate. Time per second is a ratio: a CPU that is busy
// 0.3 s in each second has the rate 0.3.
func (u Unit) PerSecond() Unit {
	switch u {
	case Nanoseconds:
		return Ratio
	case Count:
		return "1/s"
	}
	return u + "/s"
}

// Rates replaces each amount by its Rate.
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

// Rate returns amount, in unit u, per second over the span, in unit u.PerSecond(). NaN when the
// span is not positive.
func (u Unit) Rate(amount float64, over Span) float64 {
	if over <= 0 {
		return NaN
	}
	if u == Nanoseconds {
		return amount / float64(over)
	}
	return amount / over.Seconds()
}

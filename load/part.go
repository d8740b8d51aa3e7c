package load

import (
	"encoding/json"
	"errors"

	"culprit/measure"
)

// Part contains one end's numbers for one interval, or for a whole run.
type Part struct {
	N       int          `json:"n"` // from 1; 0: the whole
	From    measure.Span `json:"from_ns"`
	To      measure.Span `json:"to_ns"` // since the start of traffic at this end
	Traffic []Traffic    `json:"traffic"`
	Times   *Latencies   `json:"times,omitempty"` // of exchanges, at the end that sends requests
	// Late is the delay of the start of paced exchanges, without the wait for a response.
	Late   *Latencies `json:"late,omitempty"`
	Missed uint64     `json:"missed,omitempty"`
	CPU    Usage      `json:"cpu"`
}

// Traffic contains the numbers of one direction. Numbers that the kernel does not report are null.
type Traffic struct {
	Way Way `json:"way"`
	// Sends means that this end sends; only the sender knows the kernel's numbers below.
	Sends       bool   `json:"sends"`
	Bytes       uint64 `json:"bytes"`     // received, or sent to the kernel by the sender
	Exchanges   uint64 `json:"exchanges"` // that ended
	Retransmits Number `json:"retransmits"`
	Segments    Number `json:"segments"` // sent, with data
	// RTT is smoothed: at the end of the interval; of a run the mean of intervals.
	RTT      Number `json:"rtt_ns"`
	LeastRTT Number `json:"min_rtt_ns"`
	Cwnd     Number `json:"cwnd_bytes"` // sum of all connections, otherwise as RTT
	// Busy is the share of the time with data under way, the mean of connections.
	Busy   Number `json:"busy"`
	Rwnd   Number `json:"rwnd_limited"` // the part of it that the receiver's window stopped
	Sndbuf Number `json:"sndbuf_limited"`
	// UDP counts datagrams, or transactions without a response; nil: the test has none.
	UDP *Datagrams `json:"udp,omitempty"`
}

// Datagrams are the numbers of a direction over UDP, at the end that receives the stream or sends
// the requests; at the other end only Count is known.
type Datagrams struct {
	Count uint64 `json:"count"` // received, or sent by the sender
	Lost  Number `json:"lost"`  // whose number was skipped; of exchanges: without a response
	// Reordered are those that arrived after a higher number. They are not lost.
	Reordered Number `json:"reordered"`
	Jitter    Number `json:"jitter_ns"` // smoothed (RFC 3550), at the end; mean of the flows
}

// add adds a later part.
func (d *Datagrams) add(o *Datagrams) {
	if d == nil || o == nil {
		return
	}
	d.Count, d.Lost, d.Reordered = d.Count+o.Count, d.Lost+o.Lost, d.Reordered+o.Reordered
	d.Jitter = o.Jitter
}

// LostShare returns the share of datagrams, or transactions, that were lost. It may be below 0 in
// an interval in which datagrams of the one before arrived.
func (d *Datagrams) LostShare() Number {
	if d == nil {
		return unknown()
	}
	return d.Lost / (Number(d.Count) + d.Lost)
}

// Seconds returns the length of the part.
func (p *Part) Seconds() float64 { return (p.To - p.From).Seconds() }

// way returns the numbers of a direction; nil when it has no traffic.
func (p *Part) way(w Way) *Traffic {
	for i := range p.Traffic {
		if p.Traffic[i].Way == w {
			return &p.Traffic[i]
		}
	}
	return nil
}

func (p *Part) check() error {
	if p.N < 0 || p.N > MaxParts+1 || p.From < 0 || p.To < p.From || len(p.Traffic) > 2 ||
		len(p.CPU.Modes) > 64 {
		return errors.New("an invalid interval")
	}
	for _, l := range []*Latencies{p.Times, p.Late} {
		if l != nil && !l.valid() {
			return errors.New("an invalid distribution")
		}
	}
	return nil
}

// End contains one end's numbers for a whole run.
type End struct {
	Host       string `json:"host"`
	Machine    string `json:"machine"` // Machine.ID
	Address    string `json:"address"` // of this end of the connections
	Total      Part   `json:"total"`
	Device     string `json:"device,omitempty"` // interface through which packets leave
	Wire       []Wire `json:"wire"`
	Congestion string `json:"congestion,omitempty"` // congestion control of its senders
	// Report is the output of culprit diagnose --json; null: none.
	Report json.RawMessage `json:"diagnosis"`
	// Unknown contains the reasons for null by cpu, wire, diagnosis.
	Unknown map[string]string `json:"unknown"`
	Notes   []string          `json:"notes"`
}

func (e *End) check() error {
	if len(e.Wire) > 2 || len(e.Unknown) > 16 || len(e.Notes) > 64 {
		return errors.New("an invalid end")
	}
	return e.Total.check()
}

// fill sets the machine's part of a Usage.
func (u *Usage) fill(m Usage) {
	u.Machine, u.Of, u.Modes, u.Busiest, u.Share = m.Machine, m.Of, m.Modes, m.Busiest, m.Share
}

// add adds a part to the total. A number of the total is known when all its parts are.
func (p *Part) add(o *Part) {
	a, b := Number(p.Seconds()), Number(o.Seconds())
	mean := func(x *Number, y Number) {
		if a > 0 {
			y = (*x*a + y*b) / (a + b)
		}
		*x = y
	}
	if len(p.Traffic) == 0 {
		p.Traffic = append(p.Traffic, o.Traffic...)
		for i := range p.Traffic {
			if d := p.Traffic[i].UDP; d != nil {
				own := *d
				p.Traffic[i].UDP = &own
			}
		}
	} else {
		for i := range p.Traffic {
			t, u := &p.Traffic[i], &o.Traffic[i]
			t.UDP.add(u.UDP)
			t.Bytes, t.Exchanges = t.Bytes+u.Bytes, t.Exchanges+u.Exchanges
			t.Retransmits, t.Segments = t.Retransmits+u.Retransmits, t.Segments+u.Segments
			mean(&t.RTT, u.RTT)
			mean(&t.Cwnd, u.Cwnd)
			mean(&t.Busy, u.Busy)
			mean(&t.Rwnd, u.Rwnd)
			mean(&t.Sndbuf, u.Sndbuf)
			if !(t.LeastRTT <= u.LeastRTT) {
				t.LeastRTT = u.LeastRTT
			}
		}
	}
	mean(&p.CPU.Process, o.CPU.Process)
	mean(&p.CPU.Traffic, o.CPU.Traffic)
	mean(&p.CPU.Thread, o.CPU.Thread)
	p.To = o.To
}

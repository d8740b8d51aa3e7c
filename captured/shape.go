package captured

import (
	"math"
	"strings"
)

// shapeOf returns a table for a row without a header, recognized by the number of its columns,
// their types and sums; nil when the row could be of any tool.
func shapeOf(fields []string, r *reader) *Table {
	when, f := cutTime(fields)
	words := make([]byte, len(f)) // 'i' whole number, 'f' number with a fraction, 'w' word
	values := make([]float64, len(f))
	for i, s := range f {
		v, is := number(s)
		values[i] = v
		switch {
		case !is:
			words[i] = 'w'
		case strings.ContainsAny(s, ".,"):
			words[i] = 'f'
		default:
			words[i] = 'i'
		}
	}
	header := guess(string(words), values, f, when != "")
	if header == "" {
		return nil
	}
	t := headerOf(r.formats, strings.Fields(header))
	if t == nil {
		return nil
	}
	t.ByShape = true
	return t
}

// guess returns the header that fits a row; "" when none does.
func guess(types string, v []float64, f []string, timed bool) string {
	n := len(types)
	numbers := strings.Count(types, "i") + strings.Count(types, "f")
	fractions := strings.Count(types, "f")
	switch {
	case n == 16 && numbers == 16 && fractions == 0 && hundred(v[12:16], 3) &&
		v[3] >= 20000 && v[5] >= 1000:
		return "r b swpd free buff cache si so bi bo in cs us sy id wa"
	case n == 16 && numbers == 16 && fractions == 0 && hundred(v[12:16], 3):
		return "CPU minf mjf xcal intr ithr csw icsw migr smtx srw syscl usr sys wt idl"
	case n == 17 && numbers == 17 && fractions == 0 && hundred(v[12:17], 3):
		return "r b swpd free buff cache si so bi bo in cs us sy id wa st"
	case n == 18 && numbers == 18 && fractions == 0 && hundred(v[12:17], 3):
		return "r b swpd free buff cache si so bi bo in cs us sy id wa st gu"
	case n == 22 && numbers == 22 && fractions == 0 && hundred(v[19:22], 3):
		return "r b w swap free re mf pi po fr de sr d0 d1 d2 d3 in sy cs us sy id"
	case n == 17 && numbers == 17 && fractions == 0 && hundred(v[12:16], 3):
		return "CPU minf mjf xcal intr ithr csw icsw migr smtx srw syscl usr sys wt idl sze"
	case (n == 10 || n == 11) && fractions >= 8 && numbers >= n-1 && hundred(v[1:], 1.5):
		if n == 11 {
			return "CPU %usr %nice %sys %iowait %irq %soft %steal %guest %gnice %idle"
		}
		return "CPU %usr %nice %sys %iowait %irq %soft %steal %guest %idle"
	case n == 7 && fractions >= 5 && hundred(v[1:], 1.5) && (f[0] == "all" || types[0] == 'i'):
		return "CPU %user %nice %system %iowait %steal %idle"
	case n == 6 && fractions == 6 && hundred(v, 1.5):
		return "%user %nice %system %iowait %steal %idle"
	case n == 8 && numbers == 8 && fractions == 8 && timed && v[0] <= 100 && v[1] <= 100:
		return "%CPU %Mem %Disk %Net CPU Mem Disk Net"
	case n == 9 && types[0] == 'w' && numbers == 8 && fractions > 3 && nicstatRow(v):
		return "Int rKb/s wKb/s rPk/s wPk/s rAvs wAvs %Util Sat"
	case n == 9 && types[0] == 'w' && fractions == 8 && v[8] <= 100 && sarRow(v):
		return "IFACE rxpck/s txpck/s rxkB/s txkB/s rxcmp/s txcmp/s rxmcst/s %ifutil"
	case n == 8 && types[0] == 'w' && fractions == 7 && timed && sarRow(v):
		return "IFACE rxpck/s txpck/s rxkB/s txkB/s rxcmp/s txcmp/s rxmcst/s"
	case types[0] == 'w' && numbers == n-1 && fractions == n-1 && v[n-1] <= 101:
		return diskHeader(n)
	case types[n-1] == 'w' && n == 11 && numbers == 10 && v[9] <= 100 && v[8] <= 100:
		return "r/s w/s kr/s kw/s wait actv wsvc_t asvc_t %w %b device"
	case n >= 12 && f[2] != "" && (f[2] == "RT" || f[2] == "rt" || types[2] == 'i') &&
		types[0] == 'i' && types[1] == 'w' && types[3] == 'i' && types[7] == 'w' &&
		len(f[7]) == 1 && strings.Contains(f[10], ":") && v[8] >= 0 && v[9] >= 0:
		return "PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND"
	case n >= 11 && types[0] == 'w' && types[1] == 'i' && types[2] == 'f' && types[3] == 'f' &&
		types[4] == 'i' && types[5] == 'i' && types[7] == 'w':
		return "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND"
	case n == 15 && types[0] == 'i' && types[1] == 'w' && hundred(v[2:10], 3) &&
		strings.Contains(f[14], "/"):
		return "PID USERNAME USR SYS TRP TFL DFL LCK SLP LAT VCX ICX SCL SIG PROCESS/LWPID"
	case n == 10 && types[0] == 'i' && types[1] == 'w' && strings.Contains(f[9], "/") &&
		strings.HasSuffix(f[8], "%"):
		return "PID USERNAME SIZE RSS STATE PRI NICE TIME CPU PROCESS/NLWP"
	case n == 11 && types[0] == 'w' && numbers == 9 && types[10] == 'w' && fractions == 0:
		return "Iface MTU RX-OK RX-ERR RX-DRP RX-OVR TX-OK TX-ERR TX-DRP TX-OVR Flg"
	}
	return ""
}

// diskHeader returns the columns of iostat -x by their number.
func diskHeader(n int) string {
	switch n {
	case 23:
		return "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await " +
			"wareq-sz d/s dkB/s drqm/s %drqm d_await dareq-sz f/s f_await aqu-sz %util"
	case 21:
		return "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await " +
			"wareq-sz d/s dkB/s drqm/s %drqm d_await dareq-sz aqu-sz %util"
	case 14:
		return "Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await " +
			"w_await svctm %util"
	case 12:
		return "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await svctm %util"
	}
	return ""
}

// hundred reports whether percentages sum to 100.
func hundred(v []float64, tolerance float64) bool {
	sum := 0.0
	for _, x := range v {
		if !(x >= 0 && x <= 100.5) {
			return false
		}
		sum += x
	}
	return math.Abs(sum-100) <= tolerance
}

// nicstatRow reports whether packet rates times mean sizes are the byte rates: nicstat prints both.
func nicstatRow(v []float64) bool {
	for _, way := range []int{1, 2} {
		bytes, packets, size := v[way]*1024, v[way+2], v[way+4]
		if math.Abs(bytes-packets*size) > 0.05*bytes+200 {
			return false
		}
	}
	return v[7] <= 100.5
}

// sarRow reports whether bytes per packet are possible, as sar -n DEV prints both.
func sarRow(v []float64) bool {
	for _, way := range []int{1, 2} {
		packets, bytes := v[way], v[way+2]*1024
		if bytes > packets*66000+1100 || bytes < packets*10-1100 {
			return false
		}
	}
	return true
}

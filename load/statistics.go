package load

import "math"

// Spread is the mean and variation of a number over several runs.
type Spread struct {
	Runs int    `json:"runs"` // number of runs that have it
	Mean Number `json:"mean"`
	SD   Number `json:"standard_deviation"` // of the sample (n-1); null for one run
	// Low and High are the 95 % confidence interval of the mean; null below minRuns.
	Low  Number `json:"low_95"`
	High Number `json:"high_95"`
}

// minRuns is the lowest number of runs with a confidence interval: for two it is wider than
// thirteen times their difference.
const minRuns = 3

// spreadOf returns the Spread of the known numbers.
func spreadOf(values []Number) Spread {
	s := Spread{Mean: unknown(), SD: unknown(), Low: unknown(), High: unknown()}
	sum := 0.0
	for _, v := range values {
		if v.Known() {
			s.Runs++
			sum += float64(v)
		}
	}
	if s.Runs == 0 {
		return s
	}
	mean := sum / float64(s.Runs)
	s.Mean = Number(mean)
	if s.Runs < 2 {
		return s
	}
	squares := 0.0
	for _, v := range values {
		if v.Known() {
			squares += (float64(v) - mean) * (float64(v) - mean)
		}
	}
	sd := math.Sqrt(squares / float64(s.Runs-1))
	s.SD = Number(sd)
	if s.Runs >= minRuns {
		half := student(float64(s.Runs-1)) * sd / math.Sqrt(float64(s.Runs))
		s.Low, s.High = Number(mean-half), Number(mean+half)
	}
	return s
}

// Ratio compares two sets of runs.
type Ratio struct {
	Ratio Number `json:"ratio"` // mean of the second divided by mean of the first
	// Low and High are the 95 % confidence interval; null when a side has fewer than two runs.
	Low  Number `json:"low_95"`
	High Number `json:"high_95"`
	Sure bool   `json:"differs"` // 1 is outside that interval
}

// ratioOf compares the means of two sets. The interval is that of the logarithm of the ratio, with
// Welch's degrees of freedom, since variances may differ.
func ratioOf(a, b Spread) Ratio {
	r := Ratio{Ratio: unknown(), Low: unknown(), High: unknown()}
	if !(a.Mean > 0) || !(b.Mean > 0) {
		return r
	}
	r.Ratio = b.Mean / a.Mean
	if a.Runs < 2 || b.Runs < 2 {
		return r
	}
	va := math.Pow(float64(a.SD/a.Mean), 2) / float64(a.Runs)
	vb := math.Pow(float64(b.SD/b.Mean), 2) / float64(b.Runs)
	half := 0.0
	if va+vb > 0 {
		freedom := (va + vb) * (va + vb) / (va*va/float64(a.Runs-1) + vb*vb/float64(b.Runs-1))
		half = student(freedom) * math.Sqrt(va+vb)
	}
	r.Low, r.High = r.Ratio*Number(math.Exp(-half)), r.Ratio*Number(math.Exp(half))
	r.Sure = r.Low > 1 || r.High < 1
	return r
}

// student returns the two-sided 95 % quantile of Student's t distribution with the given degrees of
// freedom, at least 1.
func student(freedom float64) float64 {
	lo, hi := 0.0, 13.0 // 12.706 with one degree
	for range 60 {
		if mid := (lo + hi) / 2; beyond(mid, freedom) > 0.05 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// beyond returns the probability that |t| > x: the regularised incomplete beta function of
// freedom/(freedom+x²) with freedom/2 and 1/2.
func beyond(x, freedom float64) float64 { return beta(freedom/(freedom+x*x), freedom/2, 0.5) }

// beta returns the regularised incomplete beta function, by its continued fraction (Abramowitz and
// Stegun 26.5.8) with Lentz's method.
func beta(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2): // the fraction converges fast here
		return 1 - beta(1-x, b, a)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(a*math.Log(x)+b*math.Log(1-x)-la-lb+lab) / a
	const tiny = 1e-300
	away := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	f, c, d := 1.0, 1.0, 0.0
	for i := range 500 {
		m := float64(i / 2)
		var n float64
		switch {
		case i == 0:
			n = 1
		case i%2 == 0:
			n = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			n = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 / away(1+n*d)
		c = away(1 + n/c)
		f *= c * d
		if math.Abs(1-c*d) < 1e-13 {
			break
		}
	}
	return front * (f - 1)
}

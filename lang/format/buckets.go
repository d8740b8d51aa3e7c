package format

import (
	"math"
	"math/bits"
	"strconv"
)

// Buckets is the arithmetic of a distribution: the bucket of each value. The code in the kernel
// must agree with Bucket. The zero value is quantize's.
//
//	quantize     127 buckets: 63 is 0, 64+k contains 2^k to 2^(k+1)-1, 62-k the same below 0
//	lquantize    0 is below the base, 1+i contains base+i*step and up, the last contains values at
//	             or above the limit. Steps count from the base: the rest of the range after the
//	             last whole step belongs to the last bucket
//	llquantize   the middle one contains values nearer to 0 than factor^low. On both sides of it,
//	             for each magnitude from low to high: those of steps buckets of equal width in
//	             0 ... factor^(magnitude+1) that reach beyond factor^magnitude. The outermost ones
//	             contain values of factor^(high+1) and more
type Buckets struct {
	form   form
	base   int64 // lquantize
	step   int64
	levels int64
	factor uint64 // llquantize
	low    int
	high   int
	steps  uint64
}

type form uint8

const (
	power form = iota
	linear
	logLinear
)

// quantZero is quantize's bucket of 0, quantCount its number of buckets.
const (
	quantZero  = 63
	quantCount = 127
)

// A StepError is a mistake in the parameters of a distribution, in dtrace's words.
type StepError struct {
	Tag     string // D_LQUANT_STEPVAL
	Arg     int    // the argument after the value at fault, from 1; 0: their combination
	Message string
}

// Error returns the message.
func (e *StepError) Error() string { return e.Message }

// LquantizeBuckets returns the buckets of lquantize(value, base, limit, step); an omitted step is
// 1. It returns a StepError for invalid parameters.
func LquantizeBuckets(base, limit, step int64) (Buckets, *StepError) {
	switch {
	case base < math.MinInt32 || base > math.MaxInt32:
		return Buckets{}, &StepError{
			"D_LQUANT_BASEVAL",
			1,
			"lquantize( ) argument #1 must be a 32-bit quantity",
		}
	case limit < math.MinInt32 || limit > math.MaxInt32:
		return Buckets{}, &StepError{
			"D_LQUANT_LIMVAL",
			2,
			"lquantize( ) argument #2 must be a 32-bit quantity",
		}
	case limit <= base:
		return Buckets{}, &StepError{
			"D_LQUANT_MISMATCH",
			0,
			"lquantize( ) base (argument #1) must be less than limit (argument #2)",
		}
	case step <= 0:
		return Buckets{}, &StepError{
			"D_LQUANT_STEPTYPE",
			3,
			"lquantize( ) argument #3 must be a non-zero positive integer constant",
		}
	case step > math.MaxUint16:
		return Buckets{}, &StepError{
			"D_LQUANT_STEPVAL",
			3,
			"lquantize( ) argument #3 must be a 16-bit quantity",
		}
	}
	levels := (limit - base) / step
	switch {
	case levels == 0:
		return Buckets{}, &StepError{
			"D_LQUANT_STEPLARGE",
			0,
			"lquantize( ) step (argument #3) too large: must have at least one quantization level",
		}
	case levels > math.MaxUint16:
		return Buckets{}, &StepError{
			"D_LQUANT_STEPSMALL",
			0,
			"lquantize( ) step (argument #3) too small: " +
				"number of quantization levels must be a 16-bit quantity",
		}
	}
	return Buckets{form: linear, base: base, step: step, levels: levels}, nil
}

// LlquantizeBuckets returns the buckets of llquantize(value, factor, low, high, steps). It returns
// a StepError for invalid parameters.
func LlquantizeBuckets(factor, low, high, steps int64) (Buckets, *StepError) {
	fail := func(tag string, arg int, message string) (Buckets, *StepError) {
		return Buckets{}, &StepError{"D_LLQUANT_" + tag, arg, message}
	}
	switch {
	case factor < 2 || factor > math.MaxUint16:
		return fail(
			"FACTORVAL", 1,
			"llquantize( ) argument #1 must be an unsigned 16-bit quantity "+
				"greater than or equal to 2",
		)
	case low < 0 || low > math.MaxUint16:
		return fail("LMAGVAL", 2, "llquantize( ) argument #2 must be an unsigned 16-bit quantity")
	case high < 0 || high > math.MaxUint16:
		return fail("HMAGVAL", 3, "llquantize( ) argument #3 must be an unsigned 16-bit quantity")
	case high < low:
		return fail(
			"HMAGVAL", 3,
			"llquantize( ) argument #3 (high magnitude) must be at least "+
				"argument #2 (low magnitude)",
		)
	}
	if _, ok := powers(uint64(factor), int(high)+1); !ok {
		return fail(
			"HMAGVAL", 3,
			"llquantize( ) argument #3 (high magnitude) will cause overflow of 64 bits",
		)
	}
	switch {
	case steps <= 0:
		return fail(
			"STEPTYPE", 4, "llquantize( ) argument #4 must be a non-zero positive integer constant",
		)
	case steps > math.MaxUint16:
		return fail("STEPVAL", 4, "llquantize( ) argument #4 must be an unsigned 16-bit quantity")
	case steps < factor && factor%steps != 0:
		return fail(
			"STEPVAL", 4,
			"llquantize() argument #4 (steps) must evenly divide argument #1 (factor) "+
				"when steps<factor",
		)
	case steps > factor && steps%factor != 0:
		return fail(
			"STEPVAL", 4,
			"llquantize() argument #4 (steps) must be a multiple of argument #1 (factor) "+
				"when steps>factor",
		)
	case steps > factor && low == 0 && factor*factor%steps != 0:
		return fail(
			"STEPVAL", 4,
			"llquantize() argument #4 (steps) must evenly divide the square of "+
				"argument #1 (factor) when steps>factor and lmag==0",
		)
	}
	if p, _ := powers(uint64(factor), int(low)+1); steps > factor && low > 0 &&
		p%uint64(steps) != 0 {
		return fail(
			"STEPVAL", 4,
			"llquantize() argument #4 (steps) must evenly divide "+
				"pow(argument #1 (factor), lmag (argument #2) + 1) when steps>factor and lmag>0",
		)
	}
	return Buckets{
		form:   logLinear,
		factor: uint64(factor),
		low:    int(low),
		high:   int(high),
		steps:  uint64(steps),
	}, nil
}

// powers returns factor to the n; !ok: it exceeds 64 bits.
func powers(factor uint64, n int) (p uint64, ok bool) {
	p = 1
	for range n {
		hi, lo := bits.Mul64(p, factor)
		if hi != 0 {
			return 0, false
		}
		p = lo
	}
	return p, true
}

// each returns the number of buckets per magnitude of llquantize.
func (b Buckets) each() int { return int(b.steps - b.steps/b.factor) }

// zero returns the middle bucket of llquantize.
func (b Buckets) zero() int { return 1 + (b.high-b.low+1)*b.each() }

// Len returns the number of buckets.
func (b Buckets) Len() int {
	switch b.form {
	case linear:
		return int(b.levels) + 2
	case logLinear:
		return 2*b.zero() + 1
	}
	return quantCount
}

// Bucket returns the bucket of a value, from 0. Values are signed, whatever their type.
func (b Buckets) Bucket(v int64) int {
	switch b.form {
	case linear:
		if v < b.base {
			return 0
		}
		return int(min(uint64(v-b.base)/uint64(b.step), uint64(b.levels))) + 1
	case logLinear:
		return b.logBucket(v)
	}
	switch {
	case v == 0:
		return quantZero
	case v == math.MinInt64: // would be one bucket further out, which does not exist
		return 0
	case v < 0:
		return quantZero - bits.Len64(uint64(-v))
	}
	return quantZero + bits.Len64(uint64(v))
}

func (b Buckets) logBucket(v int64) int {
	u, side := uint64(v), 1
	if v < 0 {
		u, side = -u, -1
	}
	top, _ := powers(b.factor, b.low)
	if u < top {
		return b.zero()
	}
	for mag := b.low; mag <= b.high; mag++ {
		top *= b.factor
		if u >= top {
			continue
		}
		// an overflow is possible only when mag is 0, where the value is small
		at := u * b.steps / top
		if mag > 0 {
			at = u / (top / b.steps)
		}
		return b.zero() + side*((mag-b.low)*b.each()+int(at-b.steps/b.factor)+1)
	}
	return b.zero() + side*b.zero()
}

// Bounds returns the lowest and the highest value of a bucket. ok is false for a bucket without
// values: when llquantize has more steps than integers, some buckets contain only fractions.
func (b Buckets) Bounds(i int) (least, greatest int64, ok bool) {
	switch b.form {
	case linear:
		switch {
		case i <= 0:
			return math.MinInt64, b.base - 1, true
		case i > int(b.levels):
			return b.base + b.levels*b.step, math.MaxInt64, true
		}
		least = b.base + int64(i-1)*b.step
		return least, least + b.step - 1, true
	case logLinear:
		zero := b.zero()
		if i == zero {
			p, _ := powers(b.factor, b.low)
			return -signedMin(p - 1), signedMin(p - 1), true
		}
		near, far, ok := b.magnitude(max(i-zero, zero-i))
		if !ok {
			return 0, 0, false
		}
		if i > zero {
			return signedMin(near), signedMin(far), near <= math.MaxInt64
		}
		if near > 1<<63 {
			return 0, 0, false
		}
		least = math.MinInt64
		if far < 1<<63 {
			least = -int64(far)
		}
		return least, int64(-near), true
	}
	switch {
	case i < quantZero:
		k := quantZero - 1 - i
		least, greatest = -(2<<k - 1), -(1 << k)
		if i <= 0 {
			least = math.MinInt64
		}
		return least, greatest, true
	case i == quantZero:
		return 0, 0, true
	}
	k := i - quantZero - 1
	return 1 << k, 2<<k - 1, true
}

// signedMin returns u, at most the greatest signed number.
func signedMin(u uint64) int64 { return int64(min(u, math.MaxInt64)) }

// magnitude returns the bounds of the bucket of llquantize at distance n from the middle, without
// their sign.
func (b Buckets) magnitude(n int) (near, far uint64, ok bool) {
	mag := b.low + (n-1)/b.each()
	if mag > b.high {
		near, _ = powers(b.factor, b.high+1)
		return near, math.MaxUint64, true
	}
	at := uint64((n-1)%b.each()) + b.steps/b.factor
	top, _ := powers(b.factor, mag+1)
	bottom := top / b.factor
	if mag == 0 {
		near = (at*top + b.steps - 1) / b.steps
		far = ((at+1)*top+b.steps-1)/b.steps - 1
	} else {
		near = at * (top / b.steps)
		far = near + top/b.steps - 1
	}
	near = max(near, bottom)
	return near, far, near <= far
}

// label returns the name of a bucket in a picture; "" for one without values. below is true when
// the picture shows buckets below the middle one.
func (b Buckets) label(i int, below bool) string {
	switch b.form {
	case linear:
		switch {
		case i == 0:
			return "< " + strconv.FormatInt(b.base, 10)
		case i > int(b.levels):
			return ">= " + strconv.FormatInt(b.base+b.levels*b.step, 10)
		}
		return strconv.FormatInt(b.base+int64(i-1)*b.step, 10)
	case logLinear:
		zero := b.zero()
		if i == zero {
			p, _ := powers(b.factor, b.low)
			switch {
			case p == 1:
				return "0"
			case below:
				return "abs() < " + strconv.FormatUint(p, 10)
			}
			return "< " + strconv.FormatUint(p, 10)
		}
		near, _, ok := b.magnitude(max(i-zero, zero-i))
		if !ok {
			return ""
		}
		s := strconv.FormatUint(near, 10)
		switch {
		case i == 0:
			return "<= -" + s
		case i == b.Len()-1:
			return ">= " + s
		case i < zero:
			return "-" + s
		}
		return s
	}
	return strconv.FormatInt(b.quantValue(i), 10)
}

// quantValue returns the label of a bucket of quantize: its value nearest to 0.
func (b Buckets) quantValue(i int) int64 {
	switch {
	case i < quantZero:
		return -(1 << (quantZero - 1 - i))
	case i == quantZero:
		return 0
	}
	return 1 << (i - quantZero - 1)
}

package threshold

// Thresholds of rule http-slow: see httpServers.
const (
	HTTPSlow       = 0.5
	HTTPLong       = 10.0
	HTTPLeast      = 3.0
	HTTPErrors     = 0.5
	HTTPErrorShare = 0.2
	HTTPErrorMost  = 0.8
	HTTPPart       = 0.5
	HTTPTailShare  = 0.1
	HTTPTailRate   = 0.5
	HTTPTailWindow = 5.0
)

func httpServers() []Threshold {
	return []Threshold{
		edge("HTTPSlow", HTTPSlow, "s", 0.49, 0.51,
			"to the start of an answer, on average: people notice a few tenths of a second"),
		edge("HTTPLong", HTTPLong, "s", 9.8, 10.2,
			"clients of a slow server give up earlier; who waits longer wants to wait"),
		edge("HTTPLeast", HTTPLeast, "answers", 2.9, 3.1,
			"fewer may be a single large request"),
		edge("HTTPErrors", HTTPErrors, "errors/s", 0.49, 0.51,
			"a health check of something that is switched off fails less often"),
		edge("HTTPErrorShare", HTTPErrorShare, "share of the answers", 0.195, 0.205,
			"with the statuses 500 to 599; single ones are a faulty page"),
		edge("HTTPErrorMost", HTTPErrorMost, "share of the answers", 0.78, 0.82,
			"hardly anybody is served"),
		edge("HTTPPart", HTTPPart, "share of the time", 0.49, 0.51,
			"of an answer that its server itself waits for another server"),
		edge("HTTPTailShare", HTTPTailShare, "share of the answers", 0.098, 0.102,
			"that take HTTPSlow or longer: a page of ten requests waits for one of them"),
		edge("HTTPTailRate", HTTPTailRate, "answers/s", 0.49, 0.51,
			"that take HTTPSlow or longer: fewer may be a report that somebody reads"),
		untested("HTTPTailWindow", HTTPTailWindow, "s",
			"in which answers are counted: of five requests per second, one in five is slow",
			"a whole number of cells; other rates need another window"),
	}
}

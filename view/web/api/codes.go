package api

import (
	"net/http"
	"time"

	"culprit/measure"
)

// RequestTimeout is how long a whole request may take to arrive.
const RequestTimeout = 20 * time.Second

// Code is the word in an error reply that means one of measure's errors, with its HTTP status.
type Code struct {
	Word   string
	Status int
	Err    error
}

// Codes lists the code of each error of measure that a client can recognize.
//
// table: an error is no constant
var Codes = []Code{
	{"unsupported", http.StatusNotImplemented, measure.ErrUnsupported},
	{"denied", http.StatusForbidden, measure.ErrDenied},
	{"unclear", http.StatusNotFound, measure.ErrUnclear},
	{"too-large", http.StatusRequestEntityTooLarge, measure.ErrTooLarge},
}

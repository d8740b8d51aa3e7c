package collect

import "culprit/measure"

// Unsupported returns an error that is measure.ErrUnsupported: this kernel lacks what text says.
func Unsupported(text string) error { return &unsupportedError{text} }

type unsupportedError struct{ text string }

func (e *unsupportedError) Error() string        { return e.text }
func (e *unsupportedError) Is(target error) bool { return target == measure.ErrUnsupported }

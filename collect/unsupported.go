package collect

import "culprit/measure"

// Unsupported returns an error with the text. errors.Is reports it as measure.ErrUnsupported.
func Unsupported(text string) error { return &unsupportedError{text} }

type unsupportedError struct{ text string }

func (e *unsupportedError) Error() string        { return e.text }
func (e *unsupportedError) Is(target error) bool { return target == measure.ErrUnsupported }

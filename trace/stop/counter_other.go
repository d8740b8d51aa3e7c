//go:build !amd64 && !arm64

package stop

import "culprit/measure"

// programCounter fails with measure.ErrUnsupported.
func programCounter(int, *uint64) (uint64, error) { return 0, measure.ErrUnsupported }

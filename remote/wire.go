package remote

import "culprit/wire"

// decoder reads a payload.
type decoder struct{ wire.Decoder }

func newDecoder(b []byte) *decoder { return &decoder{wire.Decoder{Rest: b}} }

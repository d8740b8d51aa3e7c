fbt::FN:entry { self->t = timestamp; } fbt::FN:return /self->t/ { @["latency"] = quantize((timestamp-self->t)/1000); self->t = 0; }

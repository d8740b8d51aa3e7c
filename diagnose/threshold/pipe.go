package threshold

// Thresholds of rule pipe-wait: see pipes.
const (
	PipeWaiting = 0.5
	PipeShare   = 0.8
	PipeMoves   = 0.2
	PipeReader  = 0.5
	PipeMost    = 5
)

func pipes() []Threshold {
	return []Threshold{
		edge("PipeWaiting", PipeWaiting, "threads", 0.48, 0.52,
			"of a process that wait at any moment until somebody reads"),
		edge("PipeShare", PipeShare, "share of the readings", 0.75, 0.85,
			"in which a process waits; less is a pipeline with stages of equal speed"),
		edge("PipeMoves", PipeMoves, "share of the waiting threads", 0.18, 0.22,
			"that have run since the reading before; below it nothing is read"),
		edge("PipeReader", PipeReader, "CPUs", 0.48, 0.52,
			"of the reader, from which it works on what it has read"),
		edge("PipeMost", PipeMost, "findings", 5, 6, "further ones are of the same kind"),
	}
}

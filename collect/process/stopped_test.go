package process

import (
	"testing"

	"culprit/collect/collecttest"
)

// Processes that are stopped have a row, with their tracer where there is one.
func TestStopped(t *testing.T) {
	job := fakeProcess{pid: 7, comm: "job", state: "T", start: 600}
	traced := fakeProcess{pid: 8, comm: "traced", state: "t", start: 700}
	tracer := fakeProcess{pid: 9, comm: "strace", state: "S", start: 800}
	hidden := fakeProcess{pid: 10, comm: "hidden", state: "t", start: 900}
	m := newProcessMachine(t, merge(
		job.files("50 6 7", 1, 2, 3), traced.files("60 7 8", 3, 2, 1),
		tracer.files("70 8 9", 5, 6, 7), hidden.files("80 9 1", 5, 6, 8),
		map[string]string{
			"proc/7/status":  "Name:\tjob\nPid:\t7\nTracerPid:\t0\nUid:\t5\n",
			"proc/8/status":  "Name:\ttraced\nPid:\t8\nTracerPid:\t9\nUid:\t5\n",
			"proc/10/status": "Name:\thidden\nPid:\t10\nTracerPid:\t77\nUid:\t5\n",
		}))
	m.Read(true)
	collecttest.Expect(t, m.next(), "process.stopped", map[string]float64{
		"process.stopped|7|job|signal|0|":          1,
		"process.stopped|8|traced|tracer|9|strace": 1,
		"process.stopped|10|hidden|tracer|77|":     1,
	})
}

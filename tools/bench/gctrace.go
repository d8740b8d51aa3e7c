package main

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A heapTrace contains a Go program's reports of its garbage collections, with GODEBUG=gctrace=1.
type heapTrace struct {
	mu     sync.Mutex    // guards all below
	alive  int64         // bytes after the newest collection
	goal   int64         // bytes that the heap was to have at most when that one ended
	spent  time.Duration // CPU time of all collections
	number int           // of collections
}

// follow reads the program's standard error until it ends.
func (h *heapTrace) follow(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if alive, goal, spent, ok := parseCollection(lines.Text()); ok {
			h.mu.Lock()
			h.alive, h.goal = alive, goal
			h.spent += spent
			h.number++
			h.mu.Unlock()
		}
	}
	_, _ = io.Copy(io.Discard, stderr) // after a line that is too long
}

// parseCollection reads a line as this one, whose numbers package runtime documents at GODEBUG:
//
//	gc 9 @2.104s 0%: 0.03+4.1+0.02 ms clock, 0.03+0.1/3.9/0.2+0.02 ms cpu,
//	12->13->8 MB, 14 MB goal, 0 MB stacks, 0 MB globals, 1 P
func parseCollection(line string) (alive, goal int64, spent time.Duration, ok bool) {
	parts := strings.Split(line, ", ")
	if !strings.HasPrefix(line, "gc ") || len(parts) < 4 {
		return 0, 0, 0, false
	}
	cpu, isCPU := strings.CutSuffix(parts[1], " ms cpu")
	sizes, isSizes := strings.CutSuffix(parts[2], " MB")
	next, isGoal := strings.CutSuffix(parts[3], " MB goal")
	three := strings.Split(sizes, "->")
	if !isCPU || !isSizes || !isGoal || len(three) != 3 {
		return 0, 0, 0, false
	}
	for _, n := range strings.FieldsFunc(cpu, func(r rune) bool { return r == '+' || r == '/' }) {
		ms, err := strconv.ParseFloat(n, 64)
		if err != nil {
			return 0, 0, 0, false
		}
		spent += time.Duration(ms * float64(time.Millisecond))
	}
	live, err := strconv.ParseInt(three[2], 10, 64)
	if err != nil {
		return 0, 0, 0, false
	}
	end, err := strconv.ParseInt(next, 10, 64)
	if err != nil {
		return 0, 0, 0, false
	}
	return live << 20, end << 20, spent, true
}

// now returns the newest numbers.
func (h *heapTrace) now() (alive, goal int64, spent time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.alive, h.goal, h.spent
}

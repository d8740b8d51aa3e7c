package trace

import (
	"errors"
	"io"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/trace/probe"
)

// The memory of all scripts of a pool is bounded in sum, and comes back when one ends.
func TestMemoryPool(t *testing.T) {
	p := NewMemoryPool(100 << 20)
	release, err := p.take(60 << 20)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.take(40<<20 + 1)
	var full *MemoryPoolError
	if !errors.As(err, &full) || full.Used != 60<<20 || full.Limit != 100<<20 ||
		!strings.Contains(err.Error(), "takes 40 MB of kernel memory, and running scripts use "+
			"60 MB of 100 MB") {
		t.Errorf("%v", err)
	}
	other, err := p.take(40 << 20)
	if err != nil {
		t.Errorf("what just fits: %v", err)
	}
	release()
	release() // does nothing
	other()
	if _, err := p.take(100 << 20); err != nil {
		t.Errorf("after all have ended: %v", err)
	}
	if _, err := p.take(1); !strings.Contains(err.Error(), "use 100 MB of 100 MB") {
		t.Errorf("%v", err)
	}
	if _, err := (*MemoryPool)(nil).take(1 << 60); err != nil {
		t.Errorf("without a pool: %v", err)
	}
}

// Scripts with large buffers are refused before the kernel has their maps, whichever option makes
// them large.
func TestScriptsMemory(t *testing.T) {
	sourceOf(t, 0, "tick-1m { trace(1); }") // skips where scripts can't run
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	pool := NewMemoryPool(96 << 20)
	start := func(text string) (*Source, error) {
		return NewSource("test", Script{Text: text, Memory: pool}, 0, env, io.Discard)
	}
	small := `syscall::read:entry { @[execname] = count(); printf("%d", x[arg0]++); }`
	first, err := start(small)
	if err != nil {
		t.Fatal(err)
	}
	if pool.used < 1<<20 || pool.used > 32<<20 {
		t.Errorf("a usual script takes %d bytes", pool.used)
	}
	for _, option := range []string{"bufsize=1g", "aggsize=4g", "dynvarsize=4g"} {
		s, err := start("#pragma D option " + option + "\n" + small)
		var full *MemoryPoolError
		if !errors.As(err, &full) {
			t.Errorf("%s: %v", option, err)
		}
		if err == nil {
			s.session.Close()
		}
	}
	if pool.used == 0 {
		t.Error("a refused script releases the memory of another")
	}
	first.session.Close()
	if pool.used != 0 {
		t.Errorf("%d bytes are in use after the end", pool.used)
	}
}

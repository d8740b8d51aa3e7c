package lock

import (
	"flag"
	"testing"

	"culprit/collect"
	"culprit/collect/collecttest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func declared() []collect.Collector {
	return []collect.Collector{FileLocks{}, Semaphores{}}
}

func TestStats(t *testing.T) { collecttest.CheckStats(t, *update, declared()...) }
func TestClose(t *testing.T) { collecttest.CheckClose(t, declared()...) }

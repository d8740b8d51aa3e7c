package kernel

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

func TestUptimeAgreesWithProc(t *testing.T) {
	up1 := Uptime()
	b, err := os.ReadFile("/proc/uptime")
	up2 := Uptime()
	if err != nil {
		t.Fatal(err)
	}
	var s float64
	if _, err := fmt.Sscan(string(b), &s); err != nil {
		t.Fatal(err)
	}
	// /proc/uptime has hundredths of a second.
	if s < up1.Seconds()-0.011 || s > up2.Seconds() {
		t.Errorf("%v is not in %v..%v", s, up1.Seconds(), up2.Seconds())
	}
}

func TestTicksAndPages(t *testing.T) {
	if hz := TicksPerSecond(); hz != 100 && runtime.GOARCH != "alpha" {
		t.Errorf("USER_HZ %d", hz)
	}
	if PageSize() != os.Getpagesize() {
		t.Error(PageSize())
	}
}

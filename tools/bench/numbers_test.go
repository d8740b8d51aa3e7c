package main

import "testing"

func TestCountNumbers(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"    Time      Int   rKB/s   wKB/s   rPk/s   wPk/s    rAvs    wAvs %Util    Sat\n08:15:27       w1    0.00    0.00    0.02    0.02   79.60   79.60  0.00   0.00\n", 8},
		{"Time          Int     rKB/s     wKB/s    rPk/s    wPk/s    rAvs    wAvs  %Util   Sat\n08:15:09       lo      0.00      0.00      0.0      0.0       -       -      -  0.00\n", 8},
		{"Linux 6.18.0 (host) \t2026-11-23 \t_x86_64_\t(2 CPU)\n\n08:12:01     CPU    %usr   %nice\n08:12:02     all    1.00    0.00\n08:12:02       0    0.00    0.00\n" +
			"08:12:02       1    2.00    0.00\n\nAverage:     CPU    %usr   %nice\nAverage:     all    1.00    0.00\n", 6},
		{"Time     IRQ     Device             count/s    cpu0\n08:12:02 24      virtio0 input 0         12      12\n08:12:02 NMI                              1       -\n", 4 + 1}, // a name that ends in a number
		{"avg-cpu:  %user   %nice\n           1.00    0.00\n\nDevice            r/s     rkB/s\nvda              0.50     12.3K\n", 4},
		{"", 0},
	} {
		if got := countNumbers(c.text); got != c.want {
			t.Errorf("%d numbers, want %d, in\n%s", got, c.want, c.text)
		}
	}
}

package profile

import "testing"

const goroutineText = `goroutine 1 [running]:
main.spin(...)
	/srv/app/main.go:12
main.main()
	/srv/app/main.go:20 +0x25

goroutine 7 [chan receive, 2 minutes]:
main.(*pool).worker(0xc000012345, {0x1, 0x2})
	/srv/app/main.go:30 +0x45
created by main.main in goroutine 1
	/srv/app/main.go:18 +0x65

goroutine 8 gp=0xc000002380 m=nil [chan receive, locked to thread]:
main.(*pool).worker(0xc000012346, {0x1, 0x2})
	/srv/app/main.go:30 +0x45
created by main.main in goroutine 1
	/srv/app/main.go:18 +0x65
`

const goroutineDebug1 = "goroutine profile: total 3\n2 @ 0x43a1b6 0x40a5e5 0x4a2b33\n# labels: {\"a\":\"b\"}\n#\t0x40a5e4\truntime.chanrecv1+0x4\t/go/chan.go:3\n" +
	"#\t0x4a2b32\tmain.worker+0x32\t/srv/app/main.go:30\n\n1 @ 0x43a1b6 0x4a2c01\n#\t0x4a2c00\tmain.main+0x20\t/srv/app/main.go:20\n\n"

const pmcText = "@ CPU_CLK_UNHALTED [10 samples]\n\n70.00%  [7]        work @ /boot/kernel/kernel\n 57.14%  [4]         main\n  100.0%  [4]         _start\n 28.57%  [2]         other\n\n30.00%  [3]        other @ /boot/kernel/kernel\n 100.0%  [3]         main\n\n@ MISSES [4 samples]\n\n100.0%  [4]        work\n"

const stapText = " 0xffffffff81000000 : work+0x10/0x20 [app]\n 0xffffffff81000020 : main+0x10/0x20 [app]\n\t7\n 0xffffffff81000030 : other+0x10/0x20 [app]\n 0xffffffff81000020 : main+0x10/0x20 [app] (inexact)\n 0x4005 : 0x4005 [libx.so]\n\t3\n"

func TestGoroutines(t *testing.T) {
	for _, c := range []struct{ name, in, out string }{
		{"debug=2", goroutineText, "main.main;main.spin 1\nmain.(*pool).worker 2\n"},
		{"a crash", "panic: queue is full\n\n" + goroutineText + "\nexit status 2\n", "main.main;main.spin 1\nmain.(*pool).worker 2\n"},
		{"SIGQUIT", "SIGQUIT: quit\nPC=0x46d2f3 m=0 sigcode=0\n\n" + goroutineText, "main.main;main.spin 1\nmain.(*pool).worker 2\n"},
		{"debug=1", goroutineDebug1, "main.main 1\nmain.worker;runtime.chanrecv1 2\n"},
		{"pmcstat", pmcText, "_start;main;work 4\nmain;other 3\nother;work 2\nwork 1\n"},
		{"SystemTap", stapText, "[libx.so];main;other 3\nmain;work 7\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := fold(t, c.out, Options{})
			if got := fold(t, c.in, Options{}); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func FuzzGoroutines(f *testing.F) { fuzzText(f, Goroutines, goroutineText, goroutineDebug1) }
func FuzzPMCStat(f *testing.F)    { fuzzText(f, PMCStat, pmcText) }

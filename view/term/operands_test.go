package term

import (
	"fmt"
	"testing"
)

// Names end where the interval begins.
func TestSplitOperands(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "[] []"},
		{[]string{"eth0"}, "[eth0] []"},
		{[]string{"eth0", "1", "2"}, "[eth0] [1 2]"},
		{[]string{"eth0,lo", "wl*", ".5"}, "[eth0 lo wl*] [.5]"},
		{[]string{"1", "eth0"}, "[] [1 eth0]"},
		{[]string{"", "eth0"}, "[] [ eth0]"},
	} {
		t.Run(fmt.Sprint(tt.args), func(t *testing.T) {
			names, rest := splitOperands(tt.args)
			if got := fmt.Sprint(names, " ", rest); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

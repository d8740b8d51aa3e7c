package procfs

import (
	"slices"
	"testing"
)

func TestParseMounts(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Mount
	}{
		{"nothing", "", nil},
		{
			"one optional field",
			"27 1 254:0 /sub /mnt rw,relatime shared:1 - ext4 /dev/vda rw,discard\n",
			[]Mount{{
				ID: "27", Number: "254:0", Path: "/mnt", Source: "/dev/vda", Type: "ext4", Root: "/sub",
				Options: "rw,discard",
			}},
		},
		{
			"none and two, with escaped spaces, without a newline",
			"28 27 0:5 / /a\\040b rw - tmpfs no\\011ne size=4k\n" +
				"29 27 0:6 / /c rw shared:2 master:1 - proc proc rw",
			[]Mount{
				{
					ID: "28", Number: "0:5", Path: "/a b", Source: "no\tne", Type: "tmpfs", Root: "/",
					Options: "size=4k",
				},
				{
					ID: "29", Number: "0:6", Path: "/c", Source: "proc", Type: "proc", Root: "/",
					Options: "rw",
				},
			},
		},
		{"no type", "27 1 254:0 / / rw shared:1 -\n", nil},
		{"no separator", "27 1 254:0 / / rw ext4 /dev/vda rw\n", nil},
		{"a relative path", "27 1 254:0 / x rw - ext4 /dev/vda rw\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ParseMounts([]byte(tt.text)); !slices.Equal(got, tt.want) {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

package syntax

import "testing"

// A #! line, at any place, and a byte order mark at the start are ignored. Published scripts have
// #! below a licence.
func TestInterpreterLineAndByteOrderMarkAreIgnored(t *testing.T) {
	for _, text := range []string{
		"#!/usr/sbin/dtrace -s\nBEGIN { exit(0); }\n",
		"/* licence */\n#!/usr/sbin/dtrace -s\nBEGIN { exit(0); }\n",
		"\xef\xbb\xbfBEGIN { exit(0); }\n",
		"\xef\xbb\xbf#!/usr/sbin/dtrace -s\nBEGIN { exit(0); }\n",
		"BEGIN { exit(0); }\n#!/usr/sbin/dtrace -s\n",
		"BEGIN\n#!/usr/sbin/dtrace\n{ exit(0); }\n",
	} {
		tree, errs := Parse(text, Mode{})
		if tree == nil || len(tree.Items) != 1 || len(errs) != 0 {
			t.Errorf("%q: %v, %v", text, tree, errs)
		}
	}
}

package term

import (
	"slices"
	"strings"

	"culprit/profile"

	"github.com/spf13/cobra"
)

// byFlag adds --by.
func byFlag(c *cobra.Command, by *[]string) {
	c.Flags().StringSliceVar(
		by, "by", nil,
		"outermost frames, in this order: "+strings.Join(profile.RootFields(), ",")+
			"; threads of a pool are one (worker-*) unless --tids",
	)
	completeWith(c, "by", profile.RootFields())
}

// checkBy checks the values of --by, and --pids and --tids with it.
func checkBy(c *cobra.Command, by []string) error {
	if !c.Flags().Changed("by") {
		return nil
	}
	if len(by) == 0 {
		return usagef("--by takes fields: %s", strings.Join(profile.RootFields(), ","))
	}
	for i, field := range by {
		if !slices.Contains(profile.RootFields(), field) {
			return usagef(
				"--by %q is none of %s%s", field, strings.Join(profile.RootFields(), ", "),
				didYouMean(field, profile.RootFields()),
			)
		}
		if slices.Contains(by[:i], field) {
			return usagef("--by has %s twice", field)
		}
	}
	for flag, field := range map[string]string{
		"pids": profile.ByProcess, "tids": profile.ByThread,
	} {
		if c.Flags().Changed(flag) && !slices.Contains(by, field) {
			return usagef("--%s with --by needs %s among its fields", flag, field)
		}
	}
	return nil
}

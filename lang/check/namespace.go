package check

import (
	"fmt"
	"strings"
)

// numbered are the members of translators that are process IDs, each with the struct pid that
// contains them for every namespace.
//
// table: made once, never changed
var numbered = []struct{ member, first, pid string }{
	{"pr_lwpid", "T->pid", "T->thread_pid"},
	{"pr_pid", "T->tgid", "T->group_leader->thread_pid"},
	{"pr_ppid", "T->real_parent->tgid", "T->real_parent->group_leader->thread_pid"},
	{"pr_pgid", "T->signal->pids[2]->numbers[0].nr", "T->signal->pids[2]"},
	{"pr_sid", "T->signal->pids[3]->numbers[0].nr", "T->signal->pids[3]"},
}

// within returns the text of a library with the process IDs of namespace n; processes outside it
// have 0. A nil n changes nothing.
func (n *Namespace) within(text string) string {
	if n == nil {
		return text
	}
	for _, m := range numbered {
		own := fmt.Sprintf(
			"%[1]s == NULL || %[1]s->level < %[2]d || "+
				"%[1]s->numbers[%[2]d].ns->ns.inum != %[3]d ? 0 : %[1]s->numbers[%[2]d].nr",
			m.pid, n.Level, n.Inum,
		)
		text = strings.Replace(
			text, fmt.Sprintf("\t%s = %s;", m.member, m.first),
			fmt.Sprintf("\t%s = %s;", m.member, own), 1,
		)
	}
	return text
}

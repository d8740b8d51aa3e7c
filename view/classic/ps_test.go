package classic

import (
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// A process that began and ended between two readings has no row. Its CPU time is in a column of
// the process that waited for it; a note says so if the time is long.
func TestShortLivedChildrenHaveAColumn(t *testing.T) {
	ps := func(short string) *view.Table {
		return PS().Table(view.Options{"pid": {"1", "2"}}, viewtest.Frame(
			viewtest.Answer(
				t, "process.cpu by pid,process,mode", measure.Delta, true, "1 sh usr 0.01",
				"2 cc usr 0.5",
			),
			viewtest.Answer(
				t, "process.short by pid,process", measure.Delta, true, "1 sh "+short, "3 make 0.9",
			),
		))
	}
	tab := ps("0.7")
	viewtest.Expect(t, viewtest.Text(tab, "pid", "usr", "children"), "2 50 0\n1 1 70")
	viewtest.Expect(
		t, strings.Join(tab.Notes, "\n"),
		"the CPU time of processes too short-lived to have a row is %KIDS of their parent (-w shows it)",
	)
	viewtest.Expect(t, strings.Join(ps("0.01").Notes, "\n"), "")
}

// The column container has the container or unit of the control group, and nothing else of it.
func TestProcessesHaveTheirContainer(t *testing.T) {
	const id = "3f2a1b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708"
	tab := PS().Table(view.Options{"all": {""}}, viewtest.Frame(
		viewtest.Answer(t, "process.cpu by pid,process,mode", measure.Delta, true,
			"1 redis usr 0.4", "2 nginx usr 0.3", "3 make usr 0.2"),
		viewtest.Answer(t, "process.info by pid,process,user,cgroup,command", measure.Level, true,
			"1 redis root /docker/"+id+" redis-server 1",
			"2 nginx www /system.slice/nginx.service nginx 1",
			"3 make ci /batch/job7 make 1"),
	))
	viewtest.Expect(t, viewtest.Text(tab, "pid", "container"),
		"1 docker:3f2a1b4c5d6e\n2 nginx.service\n3 -")
}

// The line of states has the classic ones always, and others if there are any.
func TestTheLineOfStates(t *testing.T) {
	for _, tt := range []struct {
		name string
		rows []string
		want string
	}{
		{"nothing measured", nil, ""},
		{"the usual ones", []string{"S 50", "R 2"},
			"52 processes: 2 running, 50 sleeping, 0 in D, 0 zombies"},
		{"every one", []string{"R 2", "S 3", "D 5", "Z 7", "T 11", "t 13", "I 17", "X 19"},
			"77 processes: 2 running, 3 sleeping, 5 in D, 7 zombies, 24 stopped, 17 idle, 19 other"},
		{"an average", []string{"R 1.5", "S 2.25", "Z 0.25"},
			"4 processes: 1.5 running, 2.2 sleeping, 0 in D, 0.2 zombies"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := viewtest.Answer(t, "process.count by state", measure.Level, false, tt.rows...)
			viewtest.Expect(t, stateLine(a), tt.want)
			f := viewtest.Frame(a)
			viewtest.Expect(t, PS().Table(view.Options{}, f).Title, tt.want)
			viewtest.Expect(t, PS().Table(view.Options{"pid": {"1"}}, f).Title, "")
		})
	}
}

// states returns processes by CPU time: busy in S, idle in Z, in D with unknown CPU time, in R.
func states(t *testing.T) *view.Frame {
	return viewtest.Frame(
		viewtest.Answer(t, "process.cpu by pid,process,mode", measure.Delta, false,
			"1 busy usr 9", "2 zombie usr 0", "3 stuck usr -", "4 runner usr 0.5"),
		viewtest.Answer(t, "process.runwait by pid,process", measure.Delta, false, "1 busy 90"),
		viewtest.Answer(t, "process.state by pid,process,state", measure.Level, false,
			"1 busy S 1", "2 zombie Z 1", "3 stuck D 1", "4 runner R 1"),
	)
}

func TestAllShowsBlockedAndZombiesFirst(t *testing.T) {
	got := viewtest.Text(PS().Table(view.Options{"all": {""}}, states(t)), "process", "state")
	viewtest.Expect(t, got, "stuck D\nzombie Z\nbusy S\nrunner R")
}

func TestWithoutAllTheBusiestAreFirst(t *testing.T) {
	got := viewtest.Text(PS().Table(view.Options{}, states(t)), "process", "state")
	viewtest.Expect(t, got, "busy S\nrunner R\nstuck D")
}

// An average shows the state in which the process was longest, in whatever order they came.
func TestTheStateOfAnAverageIsTheLongest(t *testing.T) {
	for _, rows := range [][]string{
		{"1 a S 0.6", "1 a D 0.4"}, {"1 a D 0.4", "1 a S 0.6"},
	} {
		tab := PS().Table(view.Options{"all": {""}}, viewtest.Frame(
			viewtest.Answer(t, "process.cpu by pid,process,mode", measure.Delta, true, "1 a usr 1"),
			viewtest.Answer(t, "process.state by pid,process,state", measure.Level, false, rows...),
		))
		viewtest.Expect(t, viewtest.Text(tab, "process", "state"), "a S")
	}
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"culprit/diagnose"
	"culprit/diagnose/rules"
	"culprit/export/alert"
	"culprit/export/pyroscope"
	"culprit/kernel"
	"culprit/measure"
	"culprit/view/prom"
	"culprit/view/term"

	"golang.org/x/sys/unix"
)

// A notifier follows the findings of a server and sends their changes. It sends profiles, too.
type notifier struct {
	profiles []*pyroscope.Sender
	stream   *alert.Stream
	sender   *alert.Sender
	to       []alertSender
	log      bool // to standard error
}

// An alertSender sends changes to one receiver.
type alertSender interface {
	Run(ctx context.Context)
	Key() string
	Trouble() string
}

// newNotifier returns the notifier of o. It reads the files of secrets. The instance is that of
// remote write. The error is of an address or of a file.
func newNotifier(o term.Serving) (*notifier, error) {
	e := o.Export
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	if len(o.Targets) > 0 {
		host = cmp.Or(o.Targets[0].Instance, host)
	}
	n := &notifier{
		stream: alert.NewStream(kernel.ThreadTime),
		sender: &alert.Sender{Instance: host, Version: version},
		log:    e.LogFindings == "on" || e.LogFindings == "auto" && !isTerminal(os.Stderr),
	}
	for _, address := range e.Alertmanagers {
		s, err := alert.NewAlertmanager(address, n.stream, n.sender)
		if err != nil {
			return nil, err
		}
		n.to = append(n.to, s)
	}
	for _, address := range e.Webhooks {
		s, err := alert.NewWebhook(address, n.stream, n.sender)
		if err != nil {
			return nil, err
		}
		n.to = append(n.to, s)
	}
	for _, address := range e.Pyroscopes {
		s, err := pyroscope.New(address, host, version, kernel.ThreadTime)
		if err != nil {
			return nil, err
		}
		n.profiles = append(n.profiles, s)
	}
	return n, nil
}

// profilesSpent returns the CPU time of sending profiles.
func (n *notifier) profilesSpent() (sum measure.Span) {
	for _, s := range n.profiles {
		sum += s.Spent()
	}
	return sum
}

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// run follows the diagnoses and sends changes until ctx ends. Profiles are of m.
func (n *notifier) run(ctx context.Context, d alert.Diagnoses, m pyroscope.Machine) {
	var running sync.WaitGroup
	running.Go(func() { n.stream.Run(ctx, d, measure.Time(time.Now().UnixNano())) })
	for _, s := range n.to {
		running.Go(func() { s.Run(ctx) })
	}
	for _, s := range n.profiles {
		running.Go(func() { s.Run(ctx, m) })
	}
	if n.log {
		running.Go(func() { n.stream.Log(ctx, os.Stderr, n.sender) })
	}
	running.Wait()
}

// problems returns what is wrong with the senders.
func (n *notifier) problems() []measure.Problem {
	var all []measure.Problem
	add := func(key, text string) {
		if text != "" {
			all = append(all, measure.Problem{Key: key, Text: text})
		}
	}
	add("findings", n.stream.Trouble())
	for i, s := range n.to {
		add(fmt.Sprintf("%s %d", s.Key(), i), s.Trouble())
	}
	for i, s := range n.profiles {
		add(fmt.Sprintf("%s %d", s.Key(), i), s.Trouble())
	}
	return all
}

// prometheusAlerts is the findings as Prometheus's API has alerts. It implements prom.Alerts.
type prometheusAlerts struct {
	stream  *alert.Stream
	sender  *alert.Sender
	history *diagnose.History
}

// Alerts implements prom.Alerts. The value of an alert is the confidence of its finding.
func (p prometheusAlerts) Alerts() []prom.Alert {
	now, _ := p.stream.Now()
	all := make([]prom.Alert, len(now.Active))
	for i := range now.Active {
		a := &now.Active[i]
		all[i] = prom.Alert{
			Labels: p.sender.Labels(a), Annotations: a.Annotations(), State: "firing",
			ActiveAt: a.Since.AsTime(),
			Value:    strconv.FormatFloat(float64(a.Finding.Confidence), 'g', -1, 64),
		}
	}
	return all
}

// Rules implements prom.Alerts.
func (p prometheusAlerts) Rules() ([]prom.AlertingRule, time.Duration) {
	now, _ := p.stream.Now()
	all := rules.All()
	out := make([]prom.AlertingRule, len(all))
	for i, r := range all {
		out[i] = prom.AlertingRule{
			Name: r.ID, Keep: alert.Hold.Seconds(), LastError: now.Rules[r.ID], Last: now.At.AsTime(),
			Annotations: map[string]string{"checks": r.Checks},
			Took:        p.history.Cost().Seconds() / float64(len(all)),
		}
		if now.At == 0 {
			out[i].Last, out[i].LastError = time.Time{}, "there was no diagnosis yet"
		}
	}
	return out, diagnose.HistoryOver.AsDuration()
}

package drill

import (
	"context"
	"slices"

	"culprit/measure"
)

// addressStat lists the addresses of interfaces.
const addressStat measure.StatID = "net.device.address"

// value returns the value that the row has in a field of one of the things; ok is false if it has
// several or none.
func (a *asker) value(field string, about ...thing) (v string, ok bool) {
	for _, h := range a.held {
		if h.term.Field == field && fixes(h.term) &&
			(len(about) == 0 || slices.Contains(about, thingOf(h.stat, field))) {
			return h.term.Values[0], true
		}
	}
	return "", false
}

// without returns the held terms but those of the fields.
func (a *asker) without(fields ...string) (out []held) {
	for _, h := range a.held {
		if !slices.Contains(fields, h.term.Field) {
			out = append(out, h)
		}
	}
	return out
}

// oneOf returns the term that a field has one of the values.
func oneOf(field string, values []string) measure.Term {
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) == 1 {
		return equal(field, values[0])
	}
	values = values[:min(len(values), maxAddresses)]
	return measure.Term{Field: field, Op: measure.In, Values: values}
}

// rows looks the rows of a query up; none if the machine lacks the statistic.
func (a *asker) rows(
	ctx context.Context, id measure.StatID, by []string, where ...measure.Term,
) ([][]string, error) {
	if a.stat(id) == nil {
		return nil, nil
	}
	return a.lookup(ctx, measure.Query{Stat: id, By: by, Where: where})
}

// addressTerms returns the terms that select the connections of the row's interface, and the held
// terms beside them. The terms are nil if it has no address.
func (a *asker) addressTerms(ctx context.Context) ([]measure.Term, []held, error) {
	device, ok := a.value("device", iface)
	if !ok {
		return nil, nil, nil
	}
	where := []measure.Term{equal("device", device)}
	if ns, ok := a.value("netns"); ok {
		where = append(where, equal("netns", ns))
	}
	rows, err := a.rows(ctx, addressStat, []string{"address"}, where...)
	if err != nil || len(rows) == 0 {
		return nil, nil, err
	}
	var local []string
	for _, r := range rows {
		local = append(local, r[0])
	}
	return []measure.Term{oneOf("local", local)}, a.without("device"), nil
}

// linkTerms returns the terms that select the interface of the row's peer or client, and the held
// terms beside them: the interface that has the address, if that is on this machine, else the one
// through which this machine talks to it. The terms are nil if neither is known.
func (a *asker) linkTerms(ctx context.Context) ([]measure.Term, []held, error) {
	address, ok := a.value("peer")
	if !ok {
		if address, ok = a.value("client", client); !ok {
			return nil, nil, nil
		}
	}
	by := []string{"netns", "device"}
	rows, err := a.rows(ctx, addressStat, by, equal("address", address))
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 0 {
		if rows, err = a.through(ctx, address); err != nil {
			return nil, nil, err
		}
	}
	if len(rows) == 0 {
		return nil, nil, nil
	}
	var spaces, devices []string
	for _, r := range rows {
		spaces, devices = append(spaces, r[0]), append(devices, r[1])
	}
	rest := a.without("netns", "peer", "client", "device", "local")
	return []measure.Term{oneOf("netns", spaces), oneOf("device", devices)}, rest, nil
}

// through returns the interfaces, with their namespaces, by which this machine talks to an address.
func (a *asker) through(ctx context.Context, address string) (out [][]string, err error) {
	where := []measure.Term{equal("peer", address)}
	if ns, ok := a.value("netns"); ok {
		where = append(where, equal("netns", ns))
	}
	local, err := a.rows(ctx, "tcp.flow.bytes", []string{"netns", "local"}, where...)
	for _, l := range local[:min(len(local), maxAddresses)] {
		rows, err := a.rows(ctx, addressStat, []string{"netns", "device"},
			equal("netns", l[0]), equal("address", l[1]))
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, err
}

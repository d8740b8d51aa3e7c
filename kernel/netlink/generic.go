package netlink

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Family is a generic netlink family with the numbers that this kernel assigned.
type Family struct {
	ID      uint16
	Version uint8
	Groups  map[string]uint32 // multicast groups by name, for Conn.Join; not to be changed
}

// Family looks up a generic netlink family by name ("ethtool", "TASKSTATS") and caches the answer
// in the Conn. The kernel may load a module for it. errors.Is measure.ErrUnsupported: it has no
// such family.
func (c *Conn) Family(name string) (Family, error) {
	if f, ok := c.families[name]; ok {
		return f, nil
	}
	var q Request
	q.BeginGeneric(Family{ID: unix.GENL_ID_CTRL, Version: 1}, unix.CTRL_CMD_GETFAMILY, 0)
	q.AttrString(unix.CTRL_ATTR_FAMILY_NAME, name)
	var family Family
	err := c.Do(&q, func(_ uint16, payload []byte) error {
		var err error
		family, err = parseFamily(payload)
		return err
	})
	var refused *Error
	if errors.As(err, &refused) && refused.Errno == unix.ENOENT {
		refused.absent = true
	}
	if err == nil && family.ID == 0 {
		err = errMalformed
	}
	if err != nil {
		return Family{}, fmt.Errorf("find generic netlink family %s: %w", name, err)
	}
	if c.families == nil {
		c.families = map[string]Family{}
	}
	c.families[name] = family
	return family, nil
}

func parseFamily(payload []byte) (Family, error) {
	_, attrs, ok := Generic(payload)
	if !ok {
		return Family{}, errMalformed
	}
	f := Family{Groups: map[string]uint32{}}
	a := AttrsOf(attrs)
	for a.Next() {
		switch a.Type() {
		case unix.CTRL_ATTR_FAMILY_ID:
			f.ID = uint16(a.Uint())
		case unix.CTRL_ATTR_VERSION:
			f.Version = uint8(a.Uint())
		case unix.CTRL_ATTR_MCAST_GROUPS:
			for list := a.Nested(); list.Next(); {
				var name string
				var id uint32
				for g := list.Nested(); g.Next(); {
					switch g.Type() {
					case unix.CTRL_ATTR_MCAST_GRP_NAME:
						name = string(g.Text())
					case unix.CTRL_ATTR_MCAST_GRP_ID:
						id = uint32(g.Uint())
					}
				}
				if name != "" && id != 0 {
					f.Groups[name] = id
				}
			}
		}
	}
	return f, a.Err()
}

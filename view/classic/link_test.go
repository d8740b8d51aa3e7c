package classic

import (
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

func TestLinkMarks(t *testing.T) {
	f := viewtest.Frame(
		viewtest.Answer(
			t,
			"net.device.info by netns,device,index,kind,driver,mac,admin,state,duplex,autoneg,mtu,master,lower,rxqueues,txqueues,flags",
			measure.Level, false,
			"'' hme0 1 ethernet x 08:00:20:b0:7a:18 up up full on 1500 '' '' 1 1 '' 1",
			"'' qfe0 2 ethernet x 08:00:20:b0:7a:18 up up full on 1500 '' '' 1 1 '' 1",
			"'' bond0 3 bond x aa:00:00:00:00:01 up up full '' 1500 '' '' 1 1 '' 1",
			"'' eth1 4 ethernet x aa:00:00:00:00:01 up up half on 1500 bond0 '' 1 1 '' 1",
		),
		viewtest.Answer(
			t, "net.device.speed by netns,device", measure.Level, false, "'' hme0 1e8",
			"'' qfe0 1e9",
		),
		viewtest.Answer(
			t, "net.device.modes by netns,device,list,mode", measure.Level, false,
			"'' hme0 supported 1000baseT/Full 1e9", "'' hme0 supported 100baseT/Full 1e8",
			"'' qfe0 supported 1000baseT/Full 1e9", "'' qfe0 supported 10000baseT/Full 1e10",
			"'' qfe0 partner 1000baseT/Full 1e9",
		),
		viewtest.Answer(
			t, "net.device.address by netns,device,family,address,prefix,scope", measure.Level,
			false,
		),
		viewtest.Answer(
			t, "net.device.packets by netns,device,direction", measure.Delta, false,
			"'' hme0 rx 8000", "'' hme0 tx 500", "'' qfe0 rx 8600", "'' qfe0 tx 0",
		),
		viewtest.Answer(
			t, "net.device.uses by netns,device,use", measure.Level, false, "'' qfe0 address 1",
		),
		viewtest.Answer(t, "net.ring.size by netns,device,ring,bound", measure.Level, false),
	)
	viewtest.Expect(
		t,
		viewtest.Text(Link().Table(view.Options{}, f), "device", "Mbit/s", "best"),
		`bond0 - -
eth1 - - <- half duplex
hme0 100 1000 <- below its best mode; same MAC as qfe0
qfe0 1000 1000 <- same MAC as hme0; receives and never sends`,
	)
}

package measure

import "testing"

func TestPartInSight(t *testing.T) {
	if !AboutPartInSight(PartInSight+"why") || AboutPartInSight("why") || AboutPartInSight("") {
		t.Error("the note is not known again, or another is")
	}
}

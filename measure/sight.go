package measure

import "strings"

// PartInSight begins each note that says that not all processes of the machine can be seen; why
// follows.
const PartInSight = "not all processes of this machine can be seen: "

// AboutPartInSight reports whether a note says that not all processes can be seen.
func AboutPartInSight(note string) bool { return strings.HasPrefix(note, PartInSight) }

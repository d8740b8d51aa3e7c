package measure

import "strings"

// partInSight begins each note that says that not all processes of the machine can be seen.
const partInSight = "not all processes of this machine can be seen: "

// PartInSight returns the note that not all processes can be seen, and why.
func PartInSight(why string) string { return partInSight + why }

// AboutPartInSight reports whether a note says that not all processes can be seen.
func AboutPartInSight(note string) bool { return strings.HasPrefix(note, partInSight) }

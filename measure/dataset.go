package measure

// State says whether a dataset is being recorded.
type State uint8

// The states.
const (
	Recording State = iota + 1
	Suspended       // what it has stays; nothing is added
)

// String gives the word of the state: recording or suspended.
func (s State) String() string { return word(int(s), "", "recording", "suspended") }

// Dataset is one statistic that is recorded, in one breakdown.
type Dataset struct {
	ID      uint32 // 1 or more; never used again in one archive
	Query   Query  // what is recorded: statistic, fields, predicate, step; Over is zero
	Stat    Stat   // as it was when the dataset was made: what the numbers mean, also to a program that no longer measures it
	Created Time   // when it was made
	State   State
	Creator string `json:"Maker"` // who asked for it: default, command line, page
}

// Holding is what an archive has of a dataset.
type Stored struct {
	Over    Interval // from the start of the oldest to the end of the newest; zero when nothing is held
	Disk    int64    // bytes
	Memory  int64    // bytes
	Samples uint64   // values on disk in the finest resolution, so without those of the newest five minutes
	Rows    int      // in the newest tick
	Loss    []Loss   // told by the ticks in memory, the newest five minutes or less, by reason
}

// Change is one entry of the audit of datasets.
type Change struct {
	At      Time
	Actor   string   `json:"Who"`  // default, command line, page, clock
	Action  string   `json:"What"` // made, suspended, resumed, destroyed, discarded; of the clock: set forward, set back
	Dataset uint32   // 0: all that are recorded
	Query   string   `json:"Sentence"`
	Over    Interval // of a discard; of a clock: from the earlier of its two times to the later
}

// Usage is what it costs to record a dataset.
type Usage struct {
	CPU     float64 // share of one CPU, mean over the last minute: its part of reading, folding and keeping; NaN = not known yet
	Samples float64 // values kept a second, mean over the last minute
}

// Spent is what a part of a program takes.
type CostPart struct {
	Name string  // a few words
	CPU  float64 // share of one CPU, mean over the last minute
}

// Health is what a program that records says of itself.
type Health struct {
	Started   Time
	CPU       float64    // share of one CPU that the whole process takes, with what its programs in the kernel take of others, mean over the last minute; NaN = not known yet
	Costs     []CostPart // the same by its parts: their sum is CPU. First the datasets, last what is in no other part. nil = not known yet
	Memory    int64      // resident bytes
	Disk      int64      // bytes of the archive
	DiskLimit int64      // bytes that it may take; 0 = no limit
	CPULimit  float64    // share of one CPU that recording may take; 0 = no limit
	Refused   uint64     // samples that an engine elsewhere, to which is written, would not take, since the start
	Late      uint64     // ticks that were left out or came more than half a step late, since the start
	Problems  []Problem  // what is wrong now
}

// Trouble is something that is wrong now. Its key stays the same for as long as it lasts: the text may have counts and times.
type Problem struct{ Key, Text string }

// String returns the text.
func (t Problem) String() string { return t.Text }

package state

import "time"

const setbacksFile = "setbacks.json"

// Setback is why sync could not go on with the roll over of a node group. Times are AWS's.
type Setback struct {
	// Since is when it was met first, Tried when sync tried last.
	Since time.Time `json:"since"`
	Tried time.Time `json:"tried"`
	// Problem is a sentence.
	Problem string `json:"problem"`
}

func (d Dir) setbacks() file[map[string]Setback] {
	f := file[map[string]Setback]{dir: d, name: setbacksFile, indent: true, keeping: "keeping why a roll over waits", mend: "; remove it"}
	f.reading = "reading why a roll over waits, " + f.path()
	return f
}

// Setbacks are the remaining ones, by the step that failed; none if there is no file.
func (d Dir) Setbacks() (map[string]Setback, error) { return d.setbacks().read() }

// KeepSetbacks keeps them for the next pass.
func (d Dir) KeepSetbacks(all map[string]Setback) error { return d.setbacks().write(all) }

package state

import "slices"

const tornFile = "torn-down.json"

func (d Dir) tornDown() file[[]string] {
	f := file[[]string]{dir: d, name: tornFile, keeping: "keeping what was torn down", mend: "; remove it"}
	f.reading = "reading what was torn down, " + f.path()
	return f
}

// TornDown are the queues, and node groups as QUEUE/NAME, that a teardown has begun to remove;
// none if there is no file.
func (d Dir) TornDown() ([]string, error) { return d.tornDown().read() }

// KeepTornDown adds a name to them.
func (d Dir) KeepTornDown(name string) error {
	names, err := d.TornDown()
	if err != nil || slices.Contains(names, name) {
		return err
	}
	return d.tornDown().write(append(names, name))
}

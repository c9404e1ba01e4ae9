package state

import "time"

const fullFile = "full.json"

// full is an answer of EC2: the reservation had no room for so many nodes.
type full struct {
	Nodes int       `json:"nodes"`
	Until time.Time `json:"until"`
}

func (d Dir) full() file[map[string]full] {
	return file[map[string]full]{dir: d, name: fullFile, reading: "reading which reservations are full", keeping: "noting that a reservation is full"}
}

func (d Dir) readFull(now time.Time) (map[string]full, error) {
	found, err := d.full().read()
	for id, f := range found {
		if !f.Until.After(now) {
			delete(found, id)
		}
	}
	return found, err
}

// Full are the reservations that were full a short while ago, by id, each with the number of
// nodes that it had no room for.
func (d Dir) Full(now time.Time) (map[string]int, error) {
	all, err := d.readFull(now)
	nodes := map[string]int{}
	for id, f := range all {
		nodes[id] = f.Nodes
	}
	return nodes, err
}

// MarkFull notes that a reservation has no room for so many nodes. A note of another program at the
// same moment can be lost: that program finds out again.
func (d Dir) MarkFull(id string, nodes int, now, until time.Time) error {
	all, err := d.readFull(now)
	if err != nil || all == nil { // a broken file does not prevent a note
		all = map[string]full{}
	}
	if known, ok := all[id]; ok {
		nodes = min(nodes, known.Nodes)
	}
	all[id] = full{nodes, until}
	return d.full().write(all)
}

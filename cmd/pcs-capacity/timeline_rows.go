package main

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/timeline"
)

// timelineDocument is the JSON form of a timeline.
type timelineDocument struct {
	Region string `json:"region"`
	// Now is AWS's time; From and To are the ends of the picture.
	Now   time.Time      `json:"now"`
	From  time.Time      `json:"from"`
	To    time.Time      `json:"to"`
	Lanes []timelineLane `json:"lanes"`
	// Problems are reservations of the settings that EC2 would not describe.
	Problems []string `json:"problems"`
}

// timelineLane is one partition; Partition is "" for blocks that none uses.
type timelineLane struct {
	Partition string            `json:"partition"`
	Blocks    []timelineBlock   `json:"blocks"`
	Gaps      []capacity.Period `json:"gaps"`
}

// timelineBlock is one reservation. Jobs can run from the window's start until its
// fence; a window without an end has neither fence nor reclaim.
type timelineBlock struct {
	ID           string              `json:"id"`
	Kind         capacity.Kind       `json:"kind"`
	State        capacity.State      `json:"state"`
	InstanceType string              `json:"instance_type"`
	Count        int                 `json:"count"`
	AZID         string              `json:"az_id"`
	AZ           string              `json:"az"`
	Window       capacity.Window     `json:"window"`
	Extensions   []timelineExtension `json:"extensions"`
	// Slot and NodesIdle are those of listRow.
	Slot      string `json:"slot"`
	NodesIdle *int   `json:"nodes_idle"`
}

// timelineExtension is an extension that was bought, paid or not.
type timelineExtension struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	State    string    `json:"state"`
	Fee      string    `json:"fee"`
	Currency string    `json:"currency"`
}

// timelineRow is one line of the CSV form: what is block, extension or gap. A gap
// has no id; start and end are those of the block, the extension or the gap.
type timelineRow struct {
	Partition    string    `json:"partition"`
	What         string    `json:"what"`
	ID           string    `json:"id"`
	Kind         string    `json:"kind"`
	State        string    `json:"state"`
	InstanceType string    `json:"instance_type"`
	Count        *int      `json:"count"`
	AZID         string    `json:"az_id"`
	Start        time.Time `json:"start"`
	Fence        time.Time `json:"fence"`
	Reclaim      time.Time `json:"reclaim"`
	End          time.Time `json:"end"`
	Slot         string    `json:"slot"`
	NodesIdle    *int      `json:"nodes_idle"`
}

func newTimelineDocument(chart timeline.Chart, problems []string) timelineDocument {
	doc := timelineDocument{Region: chart.Region, Now: chart.Now, From: chart.From.UTC(), To: chart.To.UTC(),
		Lanes: []timelineLane{}, Problems: append([]string{}, problems...)}
	for _, lane := range chart.Lanes {
		out := timelineLane{
			Partition: lane.Partition,
			Blocks:    []timelineBlock{},
			Gaps:      append([]capacity.Period{}, lane.Gaps...),
		}
		for _, b := range lane.Blocks {
			r := b.Reservation
			extensions := []timelineExtension{}
			for _, e := range b.Extensions {
				extensions = append(extensions, timelineExtension{e.From, e.To, e.State, e.Fee.Amount(), e.Fee.Currency()})
			}
			out.Blocks = append(out.Blocks,
				timelineBlock{ID: r.ID, Kind: r.Kind, State: r.State, InstanceType: r.InstanceType, Count: r.Size(),
					AZID: r.AZID, AZ: r.AZ, Window: b.Window, Extensions: extensions,
					Slot: b.Slot, NodesIdle: b.NodesIdle})
		}
		doc.Lanes = append(doc.Lanes, out)
	}
	return doc
}

func (d timelineDocument) rows() []timelineRow {
	rows := []timelineRow{}
	for _, lane := range d.Lanes {
		for _, b := range lane.Blocks {
			block := timelineRow{
				Partition:    lane.Partition,
				Slot:         b.Slot,
				NodesIdle:    b.NodesIdle,
				What:         "block",
				ID:           b.ID,
				Kind:         string(b.Kind),
				State:        string(b.State),
				InstanceType: b.InstanceType,
				Count:        &b.Count,
				AZID:         b.AZID,
				Start:        b.Window.Start,
				Fence:        b.Window.Fence,
				Reclaim:      b.Window.Reclaim,
				End:          b.Window.End,
			}
			rows = append(rows, block)
			for _, e := range b.Extensions {
				extension := block
				extension.What, extension.State = "extension", e.State
				extension.Start, extension.Fence, extension.Reclaim, extension.End = e.From, time.Time{}, time.Time{}, e.To
				rows = append(rows, extension)
			}
		}
		for _, g := range lane.Gaps {
			rows = append(rows, timelineRow{Partition: lane.Partition, What: "gap", Start: g.From, End: g.To})
		}
	}
	return rows
}

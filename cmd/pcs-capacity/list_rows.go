package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// listDocument is the JSON form of a list.
type listDocument struct {
	// TakenAt is AWS's time.
	TakenAt time.Time            `json:"taken_at"`
	Regions []string             `json:"regions"`
	Summary listSummary          `json:"summary"`
	Missing []missingReservation `json:"missing"`
	// FailedRegions did not answer: what they have is not in the list.
	FailedRegions []market.RegionFailure `json:"failed_regions"`
	Reservations  []listRow              `json:"reservations"`
}

// listRow is one reservation.
type listRow struct {
	ID           string        `json:"id" col:"ID"`
	Kind         capacity.Kind `json:"kind"`
	InstanceType string        `json:"instance_type" col:"TYPE"`
	// Count is what was bought, also before a block opens; nil where EC2 does not say any
	// more, as of an expired block.
	Count     *int           `json:"count" col:"COUNT"`
	Available int            `json:"available" col:"FREE" drop:"10"`
	Region    string         `json:"region" col:"REGION" drop:"3"`
	AZID      string         `json:"az_id" col:"AZ ID" drop:"11"`
	AZ        string         `json:"az" col:"AZ" drop:"4"`
	Start     time.Time      `json:"start,omitzero" col:"START"`
	End       time.Time      `json:"end,omitzero" col:"END"`
	Length    string         `json:"-" col:"LASTS" drop:"5"`
	Seconds   *int           `json:"duration_seconds,omitempty"`
	State     capacity.State `json:"state" col:"STATE"`
	Used      int            `json:"used" col:"USED" drop:"6"`
	// NodesIdle is nil where Slurm does not say, or no partition has it.
	NodesIdle *int `json:"nodes_idle" col:"IDLE" drop:"8"`
	// Partition and Slot have it; "" where no partition does, or nobody knows the slot.
	Partition     string `json:"partition"`
	Slot          string `json:"slot"`
	UsedBy        string `json:"-" col:"USED BY" drop:"9"`
	Platform      string `json:"platform"`
	Tenancy       string `json:"tenancy"`
	MatchCriteria string `json:"match_criteria"`
	UltraServer   bool   `json:"ultraserver"`
	// Shared is nil when nobody knows whose account this is.
	Shared      *bool             `json:"shared"`
	OwnerID     string            `json:"owner_id"`
	SubnetWord  string            `json:"-" col:"SUBNET" drop:"7"`
	SubnetShown string            `json:"-" col:"SUBNET ID" drop:"1"`
	Subnets     []string          `json:"subnets"`
	Neighbours  []string          `json:"neighbour_subnets"`
	Tags        map[string]string `json:"tags"`
	// WaitsFor is the reservation that has the slot in its place.
	WaitsFor string `json:"waits_for,omitempty"`
	// CommittedUntil is of future-dated ODCRs only.
	CommittedUntil time.Time `json:"committed_until,omitzero"`
	// BlockID is EC2's id of the block, cb-…; of an UltraServer purchase the first one.
	BlockID string `json:"capacity_block_id,omitempty"`
	Marks   string `json:"-" col:"MARKS" drop:"2"`
}

func newListRow(r *capacity.Reservation, account string, use market.ZoneUse, own owned) listRow {
	row := listRow{
		ID:            r.ID,
		Kind:          r.Kind,
		State:         r.State,
		InstanceType:  r.InstanceType,
		Region:        r.Region,
		AZID:          r.AZID,
		AZ:            r.AZ,
		Available:     r.Available,
		Used:          r.Used(),
		Start:         r.Start,
		End:           r.End,
		Platform:      r.Platform,
		Tenancy:       r.Tenancy,
		MatchCriteria: r.MatchCriteria,
		UltraServer:   r.UltraServer,
		OwnerID:       r.OwnerID,
		Subnets:       use.Subnets,
		Neighbours:    use.Neighbours,
		SubnetWord:    subnetWord(use),
		SubnetShown:   subnetCell(use),
		Tags:          r.Tags,
	}
	if len(r.CapacityBlockIDs) > 0 {
		row.BlockID = r.CapacityBlockIDs[0]
	}
	row.CommittedUntil = r.CommittedUntil
	row.Partition, row.Slot = own.slotOf(r.ID)
	row.NodesIdle, row.UsedBy = own.idleIn(r.ID), own.usedBy(r.ID)
	for _, w := range own.waiting {
		if w.Reservation.ID == r.ID {
			row.WaitsFor = w.Behind
		}
	}
	if account != "" {
		shared := r.OwnerID != account
		row.Shared = &shared
	}
	if account == "" || *row.Shared {
		row.AZ = "" // the owner's name for the zone can be another zone here (R10)
	}
	if row.Tags == nil {
		row.Tags = map[string]string{}
	}
	if size := r.Size(); size > 0 || r.State.Live() {
		row.Count = &size
	}
	if !r.Start.IsZero() && !r.End.IsZero() {
		length := r.End.Sub(r.Start)
		seconds := int(length.Seconds())
		row.Seconds, row.Length = &seconds, capacity.FormatDuration(length)
	}
	row.Marks = row.marks(r.FutureODCR())
	return row
}

// marks are what a table says beside the columns.
func (r listRow) marks(future bool) string {
	var all []string
	if r.UltraServer {
		all = append(all, "UltraServer")
	}
	if future {
		all = append(all, "opens "+capacity.FormatUTC(r.Start))
	}
	if !r.CommittedUntil.IsZero() {
		all = append(all, "committed until "+capacity.FormatUTC(r.CommittedUntil))
	}
	if r.Shared != nil && *r.Shared {
		all = append(all, "shared by "+r.OwnerID)
	}
	return strings.Join(all, ", ")
}

// listSummary stands above the tables.
type listSummary struct {
	Blocks blockSummary `json:"blocks"`
	ODCRs  odcrSummary  `json:"odcrs"`
}

type blockSummary struct {
	Count int `json:"count"`
	// Live are open or may still open.
	Live          int      `json:"live"`
	InstanceTypes []string `json:"instance_types"`
	// Shortest and Longest are seconds from start to end.
	Shortest int `json:"shortest_seconds"`
	Longest  int `json:"longest_seconds"`
}

type odcrSummary struct {
	Count         int      `json:"count"`
	InstanceTypes []string `json:"instance_types"`
	Total         int      `json:"total"`
	Available     int      `json:"available"`
	// FreePercent is nil when there is nothing that could be free.
	FreePercent *int `json:"free_percent"`
}

func newListDocument(all []*capacity.Reservation, account string, subnets market.Subnets, own owned,
	now time.Time) listDocument {
	doc := listDocument{TakenAt: now.UTC().Truncate(time.Second), Reservations: make([]listRow, 0, len(all))}
	blockTypes, odcrTypes := map[string]bool{}, map[string]bool{}
	for _, reservation := range all {
		r := newListRow(reservation, account, subnets.In(reservation.AZID), own)
		doc.Reservations = append(doc.Reservations, r)
		if r.Kind.Bought() {
			blockTypes[r.InstanceType] = true
			doc.Summary.Blocks.add(r)
		} else {
			odcrTypes[r.InstanceType] = true
			doc.Summary.ODCRs.Count++
			doc.Summary.ODCRs.Total += value(r.Count)
			doc.Summary.ODCRs.Available += r.Available
		}
	}
	doc.Summary.Blocks.InstanceTypes, doc.Summary.ODCRs.InstanceTypes = names(blockTypes), names(odcrTypes)
	if s := &doc.Summary.ODCRs; s.Total > 0 {
		percent := 100 * s.Available / s.Total
		s.FreePercent = &percent
	}
	return doc
}

func (s *blockSummary) add(r listRow) {
	s.Count++
	if r.State.Live() {
		s.Live++
	}
	if r.Seconds != nil {
		if s.Shortest == 0 || *r.Seconds < s.Shortest {
			s.Shortest = *r.Seconds
		}
		s.Longest = max(s.Longest, *r.Seconds)
	}
}

func names(set map[string]bool) []string {
	all := make([]string, 0, len(set))
	for name := range set {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func (s blockSummary) String() string {
	if s.Count == 0 {
		return "Capacity Blocks: none"
	}
	length := capacity.FormatDuration(seconds(s.Longest))
	if s.Shortest != s.Longest {
		length = capacity.FormatDuration(seconds(s.Shortest)) + " to " + length
	}
	return fmt.Sprintf("Capacity Blocks: %d, %d of them open or to come; of %s", s.Count, s.Live, length)
}

func (s odcrSummary) String() string {
	if s.Count == 0 {
		return "On-Demand Capacity Reservations: none"
	}
	free := ""
	if s.FreePercent != nil {
		free = fmt.Sprintf(" (%d%%)", *s.FreePercent)
	}
	return fmt.Sprintf("On-Demand Capacity Reservations: %d; %d of %d instances free%s", s.Count, s.Available, s.Total,
		free)
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// show writes the document, or a summary and a table for each kind that was asked for.
func (d listDocument) show(t *terminal.Terminal, wants func(capacity.Kind) bool) error {
	if t.Format != terminal.Table {
		return t.Show(d, d.Reservations)
	}
	blocks := slices.DeleteFunc(slices.Clone(d.Reservations), func(r listRow) bool { return !r.Kind.Bought() })
	odcrs := slices.DeleteFunc(slices.Clone(d.Reservations), func(r listRow) bool { return r.Kind.Bought() })
	// With a region missing, none is only what the others have.
	partly := ""
	if len(d.FailedRegions) > 0 {
		partly = ", in the regions that answered"
	}
	if wants(capacity.CapacityBlock) {
		t.Tell("%s%s", d.Summary.Blocks, partly)
		if err := tableIfAny(t, blocks); err != nil {
			return err
		}
	}
	if wants(capacity.ODCR) {
		if wants(capacity.CapacityBlock) {
			fmt.Fprintln(t.Out)
		}
		t.Tell("%s%s", d.Summary.ODCRs, partly)
		return tableIfAny(t, odcrs)
	}
	return nil
}

func tableIfAny[T any](t *terminal.Terminal, rows []T) error {
	if len(rows) == 0 {
		return nil
	}
	return t.Rows(rows)
}

// value is a number that may not be known; 0 then.
func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// ListCmd lists reservations.
type ListCmd struct {
	IDs           []string `arg:"" optional:"" name:"id" predictor:"reservation" help:"Only these reservations, cr-…."`
	Blocks        bool     `help:"Only Capacity Blocks."`
	ODCR          bool     `name:"odcr" help:"Only On-Demand Capacity Reservations."`
	InstanceTypes []string `help:"Only these instance types." placeholder:"TYPE"`
	regionFlags
	GPUOnly       bool  `name:"gpu-only" help:"Only types that have GPUs or Neuron devices."`
	AvailableOnly bool  `help:"Only reservations with a free instance now."`
	ActiveOnly    bool  `help:"Only reservations that are active or scheduled."`
	OpenOnly      bool  `help:"Only reservations that are open now."`
	MinCapacity   count `help:"Only reservations of at least N instances, free or not; with --available-only N free ones." placeholder:"N"`
}

func (ListCmd) Help() string {
	return `Lists what this account owns and what others share with it. A block that has not opened
yet shows the size that was bought. SUBNET is a subnet of the configured cluster in that
zone; in parentheses, one of its VPC that the cluster does not use yet. USED BY is the
partition and slot in the settings that use the reservation. IDLE is how many of its nodes
are idle in Slurm.

Regions that do not answer and ids that EC2 does not know are named, and the exit status is 1.
Without filters, this includes reservations of the settings that EC2 does not know.`
}

// listDocument is the JSON form of a list.
type listDocument struct {
	TakenAt time.Time            `json:"taken_at"` // AWS's time
	Regions []string             `json:"regions"`
	Missing []missingReservation `json:"missing"`
	// FailedRegions did not answer: what they have is not in the list.
	FailedRegions []market.RegionFailure `json:"failed_regions"`
	Reservations  []listRow              `json:"reservations"`
}

// regionList holds the reservations of one region.
type regionList struct {
	found   []capacity.Reservation
	missing []capacity.Missing
}

// Run asks all regions and shows the answers.
func (c *ListCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	// A large list is garbage for a second. Collecting it less often saves a sixth of the time, for some 30 MB.
	defer debug.SetGCPercent(debug.SetGCPercent(400))

	progress := t.Slow("asking for regions")
	defer progress.Done()

	account := inBackground(func() (id string) { // "" if nobody knows
		id, _ = aws.Account(ctx)
		return id
	})
	subnets := inBackground(func() market.Subnets { return readSubnets(ctx, cfg, aws) })
	slurm := inBackground(func() idleNodes { return readIdle(ctx, cfg) })

	regions, err := c.choose(ctx, aws)
	if err != nil {
		return err
	}

	answers, failed, err := market.AskRegions(ctx, progress, aws, regions, c.ask)
	if err != nil {
		return err
	}

	var all regionList
	for _, a := range answers {
		all.found, all.missing = append(all.found, a.found...), append(all.missing, a.missing...)
	}

	home := aws.In(cfg.Region).Region()

	own := ownedOf(cfg, aws, inRegion(home, all.found), slurm())
	doc := listDocument{
		TakenAt:       aws.Now().UTC().Truncate(time.Second),
		Regions:       regions,
		FailedRegions: failed,
		Missing:       c.missing(cfg, home, regions, failed, all),
		Reservations:  []listRow{},
	}
	kept := c.filter(all.found)
	for _, r := range kept {
		doc.Reservations = append(doc.Reservations, newListRow(r, account(), subnets().Zone(r.AZID), own))
	}

	progress.Done()

	if err := subnets().Err; err != nil {
		t.Say("The cluster's subnets could not be read: %s", err)
	}

	if account() == "" {
		t.Say("AWS did not identify this account, so shared reservations are not marked.")
	}

	if err := c.show(t, doc); err != nil {
		return err
	}

	warnOfRegions(t, failed)

	for _, m := range doc.Missing {
		t.Say("%s", m)
	}

	own.say(t, true, kept...)

	if len(failed)+len(doc.Missing) > 0 {
		return errReported
	}

	return nil
}

// inBackground starts something whose result is wanted later.
func inBackground[T any](get func() T) func() T {
	get = sync.OnceValue(get)
	go get()
	return get
}

func (c *ListCmd) ask(ctx context.Context, aws *ec2.Client) (list regionList, err error) {
	if len(c.IDs) > 0 {
		list.found, list.missing, err = aws.Reservations(ctx, c.IDs)
	} else {
		query := ec2.ReservationQuery{InstanceTypes: c.InstanceTypes, Plain: true}
		if c.OpenOnly {
			query.States = []capacity.State{capacity.StateActive}
		}

		list.found, err = aws.FindReservations(ctx, query)
	}

	if err != nil || !c.GPUOnly {
		return list, err
	}

	var names []string
	for _, r := range list.found {
		names = append(names, r.InstanceType)
	}

	slices.Sort(names)
	types, err := aws.InstanceTypes(ctx, slices.Compact(names))
	list.found = slices.DeleteFunc(list.found, func(r capacity.Reservation) bool {
		about, known := types[r.InstanceType] // one that EC2 does not describe may have some
		return known && about.GPUs == 0
	})

	return list, err
}

// warnOfRegions names the regions that are missing in an answer.
func warnOfRegions(t *terminal.Terminal, failed []market.RegionFailure) {
	for _, f := range failed {
		t.Say("warning: %s is missing from this answer: %s", f.Region, f.Reason())
	}
}

// includesKind reports whether a kind is asked for; without a choice every kind is.
func (c *ListCmd) includesKind(k capacity.Kind) bool {
	return c.Blocks == c.ODCR || c.Blocks == k.IsBlock()
}

// filter returns the reservations to show: live ones first, then by start, region and id.
func (c *ListCmd) filter(all []capacity.Reservation) []capacity.Reservation {
	over := func(r capacity.Reservation) int {
		if r.State.IsLive() {
			return 0
		}
		return 1
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(r capacity.Reservation) bool { return !c.matches(r) })
	slices.SortFunc(kept, func(a, b capacity.Reservation) int {
		return cmp.Or(
			over(a)-over(b),
			a.Start.Compare(b.Start),
			strings.Compare(a.Region, b.Region),
			strings.Compare(a.ID, b.ID),
		)
	})

	return kept
}

func (c *ListCmd) matches(r capacity.Reservation) bool {
	size := r.Size()
	if c.AvailableOnly {
		size = r.Available
	}

	return c.includesKind(r.Kind) && size >= int(c.MinCapacity) && (!c.AvailableOnly || size > 0) &&
		(!c.OpenOnly || r.State == capacity.StateActive) && (!c.ActiveOnly || r.State.IsLive()) &&
		(len(c.IDs) == 0 || len(c.InstanceTypes) == 0 || slices.Contains(c.InstanceTypes, r.InstanceType))
}

// missingReservation is an id that EC2 does not know.
type missingReservation struct {
	ID        string `json:"id"`
	Partition string `json:"partition,omitempty"` // the one whose settings name the id; empty for an argument
	Code      string `json:"code,omitempty"`
	Message   string `json:"message"`
}

func (m missingReservation) String() string {
	if m.Partition != "" {
		return fmt.Sprintf("%s, which the settings name for partition %s: %s", m.ID, m.Partition, m.Message)
	}
	return fmt.Sprintf("%s: %s: %s", m.ID, m.Code, m.Message)
}

// missing returns the ids of the command line that no region knows: they are never hidden, and never hide the others
// (R8). Of a list of the whole region home they are also those of the settings; one that EC2 cut by type or state
// cannot tell.
func (c *ListCmd) missing(
	cfg *maybeConfig,
	home string,
	regions []string,
	failed []market.RegionFailure,
	all regionList,
) []missingReservation {
	named := map[string]bool{}
	for _, r := range all.found {
		named[r.ID] = true
	}

	missing := []missingReservation{}
	for _, m := range all.missing {
		if named[m.ID] {
			continue
		}

		named[m.ID] = true

		message := ec2.Message(m.Err)
		if len(failed) > 0 {
			message += "; it may be in a region that did not answer"
		}

		missing = append(missing, missingReservation{ID: m.ID, Code: ec2.Code(m.Err), Message: message})
	}

	if !slices.Contains(regions, home) || len(c.IDs)+len(c.InstanceTypes) > 0 || c.OpenOnly || c.GPUOnly ||
		slices.ContainsFunc(failed, func(f market.RegionFailure) bool { return f.Region == home }) {
		return missing
	}

	return append(missing, unknownIn(cfg.Config, home, all.found)...)
}

// unknownIn returns the ids of the settings that are not among all reservations of a region.
func unknownIn(cfg *config.Config, region string, all []capacity.Reservation) (missing []missingReservation) {
	for _, p := range cfg.Partitions {
		for _, g := range p.Groups {
			for _, id := range g.ReservationIDs {
				if !slices.ContainsFunc(all, func(r capacity.Reservation) bool { return r.ID == id }) {
					missing = append(
						missing,
						missingReservation{ID: id, Partition: p.Name, Message: "EC2 does not know it in " + region},
					)
				}
			}
		}
	}

	return missing
}

// listRow is one reservation.
type listRow struct {
	capacity.Reservation
	// Count is the number bought, also before a block opens; nil where EC2 does not say any more, as of an expired
	// block.
	Count *int `json:"count"`
	Used  int  `json:"used"`
	// DurationHours is the length from start to end; nil without an end.
	DurationHours *float64 `json:"duration_hours"`
	// UltraCluster: EC2 places the instances of every Capacity Block in an UltraCluster.
	UltraCluster bool `json:"ultracluster"`
	owner
	Shared *bool `json:"shared"` // nil when nobody knows whose account this is
	market.ZoneUse
}

const listColumns = "ID: ID; TYPE: InstanceType; COUNT: Count; FREE: Available drop 10; REGION: Region drop 3; " +
	"AZ ID: AZID drop 11; " +
	"AZ: AZ drop 4; START: Start; END: EndOrNone; LASTS: Lasts drop 5; STATE: State; USED: Used drop 6; " +
	"IDLE: NodesIdle drop 8; " +
	"USED BY: UsedBy drop 9; SUBNET: SubnetWord drop 7; SUBNET ID: SubnetID drop 1; MARKS: Marks drop 2"

func newListRow(r capacity.Reservation, account string, use market.ZoneUse, own owned) listRow {
	row := listRow{Reservation: r, Used: r.Used(), UltraCluster: r.Kind.IsBlock(), owner: own.of(r.ID), ZoneUse: use}
	if !r.Start.IsZero() && !r.End.IsZero() {
		hours := r.End.Sub(r.Start).Hours()
		row.DurationHours = &hours
	}

	if account != "" {
		shared := r.OwnerID != account
		row.Shared = &shared
	}

	if account == "" || *row.Shared {
		row.AZ = "" // the owner's name for the zone can be another zone here (R10)
	}

	if size := r.Size(); size > 0 || r.State.IsLive() {
		row.Count = &size
	}

	return row
}

// EndOrNone returns the end; an ODCR without one stays until it is cancelled.
func (r listRow) EndOrNone() any {
	if r.End.IsZero() {
		return "no end date"
	}

	return r.End
}

// Lasts returns the length from start to end.
func (r listRow) Lasts() string {
	if r.Start.IsZero() || r.End.IsZero() {
		return ""
	}
	return capacity.FormatDuration(r.End.Sub(r.Start))
}

// Marks returns what a table says beside the columns.
func (r listRow) Marks() string {
	var all []string
	if r.UltraServer {
		all = append(all, "UltraServer")
	}

	if !r.CommittedUntil.IsZero() {
		all = append(all, "committed until "+capacity.FormatUTC(r.CommittedUntil))
	}

	if r.Shared != nil && *r.Shared {
		all = append(all, "shared by "+r.OwnerID)
	}

	return strings.Join(all, ", ")
}

// summarize returns the line above a table of blocks or of ODCRs. With a region missing, none is only what the others
// have.
func summarize(rows []listRow, k capacity.Kind, missing bool) string {
	var live, free, total int
	for _, r := range rows {
		if r.State.IsLive() {
			live++
		}

		free += r.Available
		total += r.Size()
	}

	text := "On-Demand Capacity Reservations: "
	if k.IsBlock() {
		text = "Capacity Blocks: "
	}

	switch {
	case len(rows) == 0:
		text += "none"
	case k.IsBlock():
		text += fmt.Sprintf("%d, %d open or upcoming", len(rows), live)
	default:
		text += fmt.Sprintf("%d; %d of %d instances free", len(rows), free, total)
		if total > 0 {
			text += fmt.Sprintf(" (%d%%)", 100*free/total)
		}
	}

	if len(rows) > 0 {
		text += describeRange(rows)
	}

	if missing {
		text += ", in the regions that answered"
	}

	return text
}

// describeRange names the instance types, and the shortest and the longest duration.
func describeRange(rows []listRow) string {
	var (
		types   []string
		lengths []time.Duration
	)
	for _, r := range rows {
		types = append(types, r.InstanceType)
		if r.DurationHours != nil {
			lengths = append(lengths, r.End.Sub(r.Start))
		}
	}

	slices.Sort(types)

	text := "; " + strings.Join(slices.Compact(types), ", ")
	if len(lengths) == 0 {
		return text
	}

	shortest := capacity.FormatDuration(slices.Min(lengths))

	longest := capacity.FormatDuration(slices.Max(lengths))
	if slices.ContainsFunc(rows, func(r listRow) bool { return r.End.IsZero() }) {
		longest = "no end date"
	}

	if shortest == longest {
		return text + "; " + shortest
	}

	return text + "; " + shortest + " to " + longest
}

// show writes the document, or a summary and a table for each kind that was asked for.
func (c *ListCmd) show(t *terminal.Terminal, d listDocument) error {
	if t.Format != terminal.Table {
		return t.Show(d, d.Reservations, "")
	}

	for i, k := range []capacity.Kind{capacity.CapacityBlock, capacity.ODCR} {
		if !c.includesKind(k) {
			continue
		}

		if i > 0 && c.includesKind(capacity.CapacityBlock) {
			fmt.Fprintln(t.Out)
		}

		rows := slices.Clone(d.Reservations)
		rows = slices.DeleteFunc(rows, func(r listRow) bool { return r.Kind.IsBlock() != k.IsBlock() })
		t.Print("%s", summarize(rows, k, len(d.FailedRegions) > 0))

		if err := t.Rows(rows, listColumns); err != nil {
			return err
		}
	}

	return nil
}

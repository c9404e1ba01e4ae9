package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// ListCmd lists reservations.
type ListCmd struct {
	IDs           []string `arg:"" optional:"" name:"id" predictor:"reservation" help:"Only these reservations, cr-…."`
	Blocks        bool     `help:"Only Capacity Blocks."`
	ODCR          bool     `name:"odcr" help:"Only On-Demand Capacity Reservations."`
	InstanceTypes []string `help:"Only these instance types." placeholder:"TYPE"`
	asking
	GPUOnly       bool `name:"gpu-only" help:"Only types that have GPUs or Neuron devices."`
	AvailableOnly bool `help:"Only reservations with a free instance now."`
	ActiveOnly    bool `help:"Only reservations that are open now."`
	MinCapacity   int  `help:"Only reservations of at least N instances, free or not; with --available-only N free ones." placeholder:"N"`
}

// Help is shown below the flags.
func (ListCmd) Help() string {
	return `Lists what this account owns and what others share with it. A block that has not opened
yet shows the size that was bought. SUBNET is a subnet of the configured cluster in that
zone; in parentheses, one of its VPC that the cluster does not use yet. USED BY is the
partition and the slot of the settings that have a reservation, and IDLE how many of its
nodes Slurm has idle.

A region that does not answer, an id that EC2 does not know and, where no filter bounds the
list, a reservation of the settings that EC2 does not know are named; the exit status is 1.`
}

// regionList is what one region has.
type regionList struct {
	found   []capacity.Reservation
	missing []capacity.Missing
}

// Run asks all regions and shows the answers.
func (c *ListCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client) error {
	if c.MinCapacity < 0 {
		return usage("--min-capacity=%d: use at least 0", c.MinCapacity)
	}
	// A large list is garbage for a second. Collecting it less often saves a sixth of the
	// time, for some 30 MB.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	progress := t.Slow("asking for regions")
	defer progress.Done()
	account := inBackground(func() string { return accountOrUnknown(ctx, aws) })
	subnets := inBackground(func() market.Subnets { return readSubnets(ctx, cfg, aws) })
	slurm := inBackground(func() idleNodes { return readIdle(ctx, cfg) })
	regions, err := c.chosen(ctx, aws)
	if err != nil {
		return err
	}
	answers, failed, err := market.AskRegions(ctx, progress, aws, regions, c.ask)
	if err != nil {
		return err
	}
	use, owner := <-subnets, <-account
	own := ownedOf(cfg, aws, foundIn(answers), <-slurm)
	doc := newListDocument(c.kept(answers), owner, use, own, aws.Now())
	doc.Regions, doc.FailedRegions = regions, emptyIfNil(failed)
	doc.Missing = append(missingIDs(answers, len(failed) > 0), c.missingInSettings(cfg, aws, regions, answers, failed)...)
	progress.Done()
	if use.Err != nil {
		t.Say("The cluster's subnets are not known: %s", use.Err)
	}
	if owner == "" {
		t.Say("AWS did not say whose account this is, so shared reservations are not marked.")
	}
	if err := doc.show(t, c.wants); err != nil {
		return err
	}
	warnOfRegions(t, failed)
	for _, m := range doc.Missing {
		t.Say("%s", m)
	}
	own.say(t, doc.Reservations)
	if len(failed)+len(doc.Missing) > 0 {
		return errShown
	}
	return nil
}

// foundIn are the reservations of all answers.
func foundIn(answers []regionList) []capacity.Reservation {
	var all []capacity.Reservation
	for _, a := range answers {
		all = append(all, a.found...)
	}
	return all
}

// inBackground starts something whose result is wanted later.
func inBackground[T any](get func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- get() }()
	return result
}

// accountWait bounds the question of whose account this is: where AWS STS cannot be
// reached, as in a subnet without a way to it, the list does not wait for it.
const accountWait = 5 * time.Second

// accountOrUnknown is the caller's account; "" if nobody knows.
func accountOrUnknown(ctx context.Context, aws *ec2.Client) string {
	ctx, cancel := context.WithTimeout(ctx, accountWait)
	defer cancel()
	id, _ := aws.Account(ctx)
	return id
}

// ask asks one region.
func (c *ListCmd) ask(ctx context.Context, aws *ec2.Client) (regionList, error) {
	var list regionList
	var err error
	if len(c.IDs) > 0 {
		list.found, list.missing, err = aws.Reservations(ctx, c.IDs)
	} else {
		list.found, err = aws.List(ctx, ec2.ReservationQuery{InstanceTypes: c.InstanceTypes, ActiveOnly: c.ActiveOnly})
	}
	if err != nil || !c.GPUOnly {
		return list, err
	}
	list.found, err = withGPUs(ctx, aws, list.found)
	return list, err
}

// withGPUs keeps reservations of types with GPUs. A type that EC2 does not describe may have some.
func withGPUs(ctx context.Context, aws *ec2.Client, all []capacity.Reservation) ([]capacity.Reservation, error) {
	types, err := aws.InstanceTypes(ctx, typesOf(all))
	return slices.DeleteFunc(all, func(r capacity.Reservation) bool {
		about, known := types[r.InstanceType]
		return known && about.GPUs == 0
	}), err
}

func typesOf(all []capacity.Reservation) []string {
	seen := map[string]bool{}
	var types []string
	for _, r := range all {
		if !seen[r.InstanceType] {
			seen[r.InstanceType] = true
			types = append(types, r.InstanceType)
		}
	}
	slices.Sort(types)
	return types
}

// warnOfRegions names the regions that are missing in an answer.
func warnOfRegions(t *terminal.Terminal, failed []market.RegionFailure) {
	for _, f := range failed {
		t.Say("warning: %s is missing in this answer: %s", f.Region, f.Reason())
	}
}

// emptyIfNil makes a list that JSON shows as [] instead of null.
func emptyIfNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// wants reports whether a kind is asked for; without a choice every kind is.
func (c *ListCmd) wants(k capacity.Kind) bool {
	return c.Blocks == c.ODCR || c.Blocks == k.Bought()
}

// kept are the reservations to show: live ones first, then by start, region and id.
func (c *ListCmd) kept(answers []regionList) []*capacity.Reservation {
	var all []*capacity.Reservation
	for _, a := range answers {
		for i := range a.found {
			if r := &a.found[i]; c.keeps(r) {
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b *capacity.Reservation) int {
		switch {
		case a.State.Live() != b.State.Live():
			if a.State.Live() {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Region, b.Region), strings.Compare(a.ID, b.ID))
	})
	return all
}

func (c *ListCmd) keeps(r *capacity.Reservation) bool {
	size := r.Size()
	if c.AvailableOnly {
		size = r.Available
	}
	return c.wants(r.Kind) && size >= c.MinCapacity && (!c.AvailableOnly || size > 0) &&
		(!c.ActiveOnly || r.State == capacity.StateActive) &&
		(len(c.IDs) == 0 || len(c.InstanceTypes) == 0 || slices.Contains(c.InstanceTypes, r.InstanceType))
}

// missingReservation is an id that EC2 does not know.
type missingReservation struct {
	ID string `json:"id"`
	// Partition is the one whose settings name the id; empty for an argument.
	Partition string `json:"partition,omitempty"`
	Code      string `json:"code,omitempty"`
	Message   string `json:"message"`
}

func (m missingReservation) String() string {
	switch {
	case m.Partition != "":
		return fmt.Sprintf("%s, which the settings name for partition %s: %s", m.ID, m.Partition, m.Message)
	case m.Code != "":
		return fmt.Sprintf("%s: %s: %s", m.ID, m.Code, m.Message)
	}
	return fmt.Sprintf("%s: %s", m.ID, m.Message)
}

// missingIDs are the ids of the command line that no region knows. They are never
// hidden, and never hide the others (R8).
func missingIDs(answers []regionList, someFailed bool) []missingReservation {
	found, seen := map[string]bool{}, map[string]bool{}
	for _, a := range answers {
		for _, r := range a.found {
			found[r.ID] = true
		}
	}
	all := []missingReservation{}
	for _, a := range answers {
		for _, m := range a.missing {
			if found[m.ID] || seen[m.ID] {
				continue
			}
			seen[m.ID] = true
			message := ec2.Message(m.Err)
			if someFailed {
				message += "; it can be in a region that did not answer"
			}
			all = append(all, missingReservation{ID: m.ID, Code: ec2.Code(m.Err), Message: message})
		}
	}
	return all
}

// missingInSettings are reservations of the settings that EC2 left out of a list of the
// whole region. A list that EC2 cut by type or state cannot tell.
func (c *ListCmd) missingInSettings(cfg *maybeConfig, aws *ec2.Client, regions []string, answers []regionList,
	failed []market.RegionFailure) []missingReservation {
	home := aws.In(cfg.Region).Region()
	i := slices.Index(regions, home)
	if i < 0 || len(c.IDs)+len(c.InstanceTypes) > 0 || c.ActiveOnly || c.GPUOnly ||
		slices.ContainsFunc(failed, func(f market.RegionFailure) bool { return f.Region == home }) {
		return nil
	}
	known := map[string]bool{}
	for _, r := range answers[i].found {
		known[r.ID] = true
	}
	var all []missingReservation
	for _, p := range cfg.Partitions {
		for _, group := range p.Groups {
			for _, id := range group.ReservationIDs {
				if !known[id] {
					all = append(all, missingReservation{ID: id, Partition: p.Name, Message: "EC2 does not know it in " + home})
				}
			}
		}
	}
	return all
}

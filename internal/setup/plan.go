package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// plan says what is to be done, from what was read, or what prevents it. After each group of checks it stops if one has
// found a problem: what the next would find may follow from that.
func plan(in inspection) *Plan {
	p := &Plan{Cluster: in.Cluster, Reservation: in.reservation, Problems: slices.Clone(in.Problems)}

	if p.stops(checkRequest(in)) || p.stops(checkEntryFits(in)) {
		return p
	}

	slot, found := chooseSlot(in)
	if p.stops(found) {
		return p
	}

	want := decideWanted(in, slot)
	if p.stops(checkMatch(in, want), checkSubnets(in)) {
		return p
	}

	stops := p.stops(checkLaunch(in), checkEFA(in), checkAddresses(in, want), checkUsers(in, want),
		checkQuotas(in, want), checkAccounts(in), checkSpare(in))
	if !stops && !in.unattended {
		p.stops(checkSettings(in, want))
	}

	p.stops(checkEntry(in))

	p.addSteps(in, want)
	p.Slot = slot.Name
	p.trial = trial(in, want.template)

	return p
}

// stops adds findings, and reports whether a problem prevents the plan.
func (p *Plan) stops(all ...findings) bool {
	for _, found := range all {
		p.Add(found.Problems...)
	}

	return len(p.Mismatches()) > 0
}

// add completes steps about a subject, and adds them to the plan.
func (p *Plan) add(about capacity.Subject, steps ...Step) {
	for _, s := range steps {
		s.About = about
		s.Details = slices.DeleteFunc(append([]Detail{}, s.Details...), func(d Detail) bool { return d.Value == "" })
		s.Code = strings.ToLower(strings.ReplaceAll(string(s.Verb)+" "+s.What, " ", "-"))
		s.Text = string(s.Verb) + " " + s.What + " " + s.Name
		p.Actions = append(p.Actions, s)
	}
}

// addSteps adds the steps, and what prevents one of them.
func (p *Plan) addSteps(in inspection, want wanted) {
	about := capacity.Subject{Partition: in.request.Queue, Slot: want.slot.Name, Reservation: in.reservation.ID}
	done := &made{}

	var (
		files []Step
		found findings
	)
	if !in.unattended {
		files, found = fileSteps(in, want)
		p.stops(found)
	}

	if in.onDemand() {
		files = append(files, groupOfReservationsStep(in, done))
	}

	template := templateStep(in, want, done)
	p.stops(checkOwners(in, want))

	if in.OnEC2() {
		// The settings name the template, and slurm.conf has no node before them.
		p.add(about, append([]Step{template}, files...)...)
		return
	}

	// Wherever it stops, there is no queue without settings, which the filter and sync go by, and without a fence.
	group, compared := groupStep(want, template, done)
	p.add(about, append(files, template, group)...)

	if in.waits && !in.reservation.End.IsZero() {
		p.add(about, fenceStep(in, want, group.Verb))
	}

	queue := queueStep(in, want, done)
	p.add(about, queue)
	p.add(about, spareSteps(in, want, done)...)
	p.stops(checkUnused(want, compared), checkUnknown(in, want, group, queue))
}

// chooseSlot takes the slot that has the reservation already, else one without a node group, else
// one with an ended reservation.
func chooseSlot(in inspection) (chosen Slot, found findings) {
	for _, slot := range in.slots {
		if slot.Group != nil && !slot.Owned {
			found.notOurs(in, "compute node group", slot.Name, slot.Group.ARN)
		}
	}

	for _, fits := range []func(Slot) bool{
		func(s Slot) bool { return s.HasReservation(in.reservation.ID) },
		func(s Slot) bool { return s.Group == nil },
		func(s Slot) bool { live, _ := in.IsLive(s.ReservationID); return s.Owned && !live },
	} {
		i := slices.IndexFunc(in.slots, fits)
		if i < 0 {
			continue
		}

		chosen = in.slots[i]
		if g := chosen.Group; g != nil && g.Status == pcs.DeleteFailed {
			found.problem(capacity.NodeGroupFailed, capacity.DeleteAgain(in.request.Queue, g.Name)+", then this again",
				"PCS node group %s is %s: %s", g.Name, g.Status, g.Failures)
		}

		return chosen, found
	}

	var held []string
	for _, slot := range in.slots {
		until := "it is cancelled"
		if end := in.known[slot.ReservationID].End; !end.IsZero() {
			until = capacity.FormatUTC(end)
		}

		if slot.Owned {
			held = append(held, fmt.Sprintf("%s has %s until %s", slot.Name, slot.ReservationID, until))
		}
	}

	if len(held) > 0 {
		found.problem(capacity.SlotsTaken, "run this again after one of them has ended, or choose another --node-group",
			"both slots of node group %s are taken: %s", in.request.NodeGroup, strings.Join(held, ", "))
	}

	return chosen, found
}

func (f *findings) notOurs(in inspection, what, name, id string) {
	fix := fmt.Sprintf("choose another name, or hand it over by tagging %s with %s=%s", id, capacity.TagCluster,
		in.Cluster.Name)
	f.problem(capacity.NotOurs, fix, "%s %s exists, but does not carry our tag, so it is not changed", what, name)
}

// trial returns the launch of one node into each subnet in question.
func trial(in inspection, spec capacity.LaunchTemplateSpec) ec2.Trial {
	r := in.reservation
	t := ec2.Trial{
		Spec:            &spec,
		ImageID:         in.launch.Template.ImageID,
		InstanceProfile: in.like.InstanceProfile,
		Subnets:         subnetIDs(in.launchSubnets()),
		Launch: capacity.Launch{
			InstanceType:   r.InstanceType,
			ReservationID:  r.ID,
			Kind:           r.Kind,
			PlacementGroup: r.PlacementGroup,
		},
	}
	if in.OnEC2() {
		t.Launch.Tags = in.tags()
	}

	return t
}

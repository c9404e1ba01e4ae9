package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
)

// plan says what is to be done, from what was read, or what prevents it. After each group of checks it stops if one has
// found a problem: what the next would find may follow from that.
func plan(read inspection) *Plan {
	in := &read
	p := &Plan{Cluster: in.Cluster, Reservation: in.reservation}
	stop := func() bool { p.Problems = in.Problems; return in.hasProblems() }

	match := func() {
		in.decideWanted()
		in.checkMatch()
		in.checkSubnets()
	}
	for _, check := range []func(){in.checkRequest, in.checkEntryFits, in.chooseSlot, match} {
		check()

		if stop() {
			return p
		}
	}

	in.checkLaunch()

	if !in.unattended { // else nodes with these parts run
		in.Add(in.launch.Judge()...)
	}

	in.checkEFA()
	in.checkAddresses()
	in.checkUsers()
	in.checkQuotas()
	in.checkAccounts()
	in.checkEntry()

	var files []Step
	if !in.unattended {
		files = in.fileSteps()
	}

	template := in.templateStep()
	if in.OnEC2() {
		// The settings name the template, and slurm.conf has no node before them.
		p.Actions = append([]Step{template}, files...)
	} else {
		// Wherever it stops, there is no queue without settings, which the filter and sync go by, and without a fence.
		group, compared := in.groupStep(template)
		p.Actions = append(files, template, group)
		if in.waits && !in.reservation.End.IsZero() {
			p.Actions = append(p.Actions, in.fenceStep(group.Verb))
		}

		queue := in.queueStep()
		p.Actions = append(p.Actions, queue)

		in.checkUnused(compared)
		in.checkUnknown(group, queue)
	}

	p.Slot = in.slot.Name
	p.trial = in.trial()

	stop()

	return p
}

// chooseSlot takes the slot that has the reservation already, else one without a node group, else
// one with an ended reservation.
func (in *inspection) chooseSlot() {
	for _, slot := range in.Slots {
		if slot.Group != nil && !slot.Owned {
			in.notOurs("compute node group", slot.Name, slot.Group.ARN)
		}
	}

	for _, fits := range []func(site.Slot) bool{
		func(s site.Slot) bool { return s.HasReservation(in.reservation.ID) },
		func(s site.Slot) bool { return s.Group == nil },
		func(s site.Slot) bool { live, _ := in.IsLive(s.ReservationID); return s.Owned && !live },
	} {
		if i := slices.IndexFunc(in.Slots, fits); i >= 0 {
			in.slot = in.Slots[i]
			return
		}
	}

	var held []string
	for _, slot := range in.Slots {
		until := "it is cancelled"
		if end := in.Known[slot.ReservationID].End; !end.IsZero() {
			until = capacity.FormatUTC(end)
		}

		if slot.Owned {
			held = append(held, fmt.Sprintf("%s has %s until %s", slot.Name, slot.ReservationID, until))
		}
	}

	if len(held) > 0 {
		in.problem("slots-taken", "run this again after one of them has ended, or choose another --node-group",
			"both slots of node group %s are taken: %s", in.request.NodeGroup, strings.Join(held, ", "))
	}
}

func (in *inspection) notOurs(what, name, id string) {
	fix := fmt.Sprintf("choose another name, or hand it over by tagging %s with %s=%s", id, capacity.TagCluster,
		in.Cluster.Name)
	in.problem(capacity.NotOurs, fix, "%s %s exists, but does not carry our tag, so it is not changed", what, name)
}

// trial returns the launch of one node into each subnet in question.
func (in *inspection) trial() ec2.Trial {
	r := in.reservation
	t := ec2.Trial{
		Spec:            &in.template,
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

package setup

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
)

// trial is the launch of one node into each subnet in question.
func (in *inspection) trial(want *wanted) ec2.Trial {
	r := in.reservation
	t := ec2.Trial{
		Spec:            &want.template,
		ImageID:         in.ami(),
		InstanceProfile: in.profile(),
		Launch: capacity.Launch{
			InstanceType: r.InstanceType, ReservationID: r.ID, Kind: r.Kind, PlacementGroup: r.PlacementGroup,
		},
	}
	if in.onEC2() {
		t.Launch.Tags = in.tags()
	}
	for _, s := range in.launchSubnets() {
		t.Subnets = append(t.Subnets, s.ID)
	}
	return t
}

// try asks EC2 about the launch, unless a known problem prevents it: EC2 would only name that again.
func (s Setup) try(ctx context.Context, p *Plan) {
	if s.Unattended || len(p.Mismatches) > 0 || len(p.trial.Subnets) == 0 {
		return
	}
	tried, err := s.EC2.TryLaunches(ctx, p.trial)
	answers := site.Tried(p.Slot, tried, err)
	p.Mismatches = append(p.Mismatches, answers.Refusals...)
	if answers.Unasked != "" {
		p.Warnings = append(p.Warnings, answers.Unasked)
	}
	p.DryRun = answers.OK
}

package main

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
)

// asking is the part of a command that asks regions.
type asking struct {
	Regions []string `help:"Regions to ask, or all." placeholder:"REGION"`
}

// chosen are the regions to ask.
func (a asking) chosen(ctx context.Context, aws *ec2.Client) ([]string, error) {
	return market.ChooseRegions(ctx, aws, a.Regions)
}

// length is how long capacity is wanted.
type length struct {
	Duration span `required:"" short:"d" help:"How long, such as 7d or 36h."`
}

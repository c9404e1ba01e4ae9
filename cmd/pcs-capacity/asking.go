package main

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
)

// asking is the part of a command that asks regions.
type asking struct {
	Regions    []string `help:"Regions to ask, or all." placeholder:"REGION" xor:"regions"`
	AllRegions bool     `help:"Ask every region that the account has enabled." xor:"regions"`
	Timeout    span     `help:"Wait for AWS this long at most, such as 30s, and name the regions without an answer." placeholder:"DURATION"`
}

// chosen are the regions to ask.
func (a asking) chosen(ctx context.Context, aws *ec2.Client) ([]string, error) {
	given := a.Regions
	if a.AllRegions {
		given = []string{"all"}
	}
	return market.ChooseRegions(ctx, aws, given)
}

// bounded is the context of the questions.
func (a asking) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.Timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(a.Timeout))
}

// length is how long capacity is wanted.
type length struct {
	Duration span `required:"" short:"d" help:"How long, such as 7d or 36h." xor:"length"`
	Days     int  `required:"" help:"The same in days." placeholder:"N" xor:"length"`
}

// asked is the length, in either form.
func (l length) asked() (time.Duration, error) {
	if l.Duration == 0 && l.Days < 1 {
		return 0, usage("--days=%d: use at least 1", l.Days)
	}
	return time.Duration(l.Duration) + time.Duration(l.Days)*24*time.Hour, nil
}

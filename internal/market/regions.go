package market

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"golang.org/x/sync/errgroup"
)

// RegionFailure is a region that did not answer, and why.
type RegionFailure struct {
	Region  string `json:"region"`
	Code    string `json:"code,omitempty"` // EC2's, verbatim; "" without an answer
	Message string `json:"message"`
}

// Reason returns the code with the message.
func (f RegionFailure) Reason() string {
	if f.Code == "" {
		return f.Message
	}
	return f.Code + ": " + f.Message
}

// ChooseRegions returns the regions to ask: the given ones, for "all" every region of the account,
// for none the client's own.
func ChooseRegions(ctx context.Context, aws *ec2.Client, given []string) ([]string, error) {
	switch {
	case len(given) == 0:
		return []string{aws.Region()}, nil
	case slices.Contains(given, "all"):
		return aws.Regions(ctx)
	}

	given = slices.Clone(given)
	slices.Sort(given)

	return slices.Compact(given), nil
}

// atOnce bounds the regions asked at the same time. More answers would fill memory while the machine decodes them.
const atOnce = 8

// AskRegions asks regions at the same time and returns their answers, in the order of the regions.
// A region that fails leaves the zero value and a RegionFailure; it is an error only when all fail.
func AskRegions[T any](ctx context.Context, progress Progress, aws *ec2.Client, regions []string,
	ask func(context.Context, *ec2.Client) (T, error),
) ([]T, []RegionFailure, error) {
	answers := make([]T, len(regions))
	errs := make([]error, len(regions))

	var group errgroup.Group
	group.SetLimit(atOnce)

	var answered atomic.Int32

	noun := "regions"
	if len(regions) == 1 {
		noun = "region"
	}

	progress.Now(fmt.Sprintf("asking %d %s", len(regions), noun))

	for i, region := range regions {
		group.Go(func() error {
			answers[i], errs[i] = ask(ctx, aws.In(region))

			progress.Now(fmt.Sprintf("asked %d of %d %s", answered.Add(1), len(regions), noun))
			return nil
		})
	}

	_ = group.Wait() // the errors are in errs

	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, nil, ctx.Err()
	}

	failed := []RegionFailure{}
	for i, err := range errs {
		if err != nil {
			failed = append(failed, newRegionFailure(regions[i], err))
		}
	}

	switch len(failed) {
	case 0:
		return answers, failed, nil
	case 1:
		if len(regions) == 1 {
			return nil, failed, errs[0]
		}
	case len(regions):
		return nil, failed, fmt.Errorf("none of the %d regions could be asked:\n%w", len(regions), errors.Join(errs...))
	}

	return answers, failed, nil
}

// newRegionFailure has EC2's message with its remedy or, without an answer of EC2, the other error.
func newRegionFailure(region string, err error) RegionFailure {
	f := RegionFailure{region, ec2.Code(err), firstLine(err)}
	if f.Code != "" {
		f.Message = ec2.Message(err)
	}

	return f
}

// unionOfFailures adds the regions of more that are not in failed yet.
func unionOfFailures(failed, more []RegionFailure) []RegionFailure {
	for _, m := range more {
		if !slices.ContainsFunc(failed, func(f RegionFailure) bool { return f.Region == m.Region }) {
			failed = append(failed, m)
		}
	}

	return failed
}

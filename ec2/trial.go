package ec2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Trial is a launch of one node that EC2 is asked about, once for each subnet. Nothing is launched.
type Trial struct {
	Launch  capacity.Launch // without subnet, count and token
	Subnets []string        // the ids of the subnets that nodes may be launched into

	// Spec is a launch template that does not exist yet; nil for an existing one. EC2's dry run looks up no template
	// that does not exist, so the trial sends its content.
	Spec *capacity.LaunchTemplateSpec

	Inline          bool   // send the content of Launch.LaunchTemplate, as PCS does, which launches from a copy
	ImageID         string // with Inline, instead of the template's; "" keeps that
	InstanceProfile string // with Inline, instead of the template's; "" keeps that
}

// TrialResult is EC2's answer for one subnet.
type TrialResult struct {
	SubnetID      string
	Verdict       Verdict // free capacity is no part of it
	Code          string  // of EC2's refusal, verbatim
	Message       string  // EC2's refusal; if Denied, the action that is not allowed; if Silent, what went wrong
	Fix           string  // our advice about a refusal; "" for none
	NoReservation bool    // it was tried without the reservation, which is not open, or full
}

// Verdict classifies EC2's answer to a dry run.
type Verdict int

// The verdicts.
const (
	Accepts Verdict = iota // EC2 would launch
	Refuses                // EC2 would not
	Denied                 // the caller may not launch, so that EC2 did not look
	Silent                 // no answer, or none that says anything
)

// trialResult returns EC2's answer, without a subnet.
func trialResult(err error) TrialResult {
	switch outcome := Outcome(err); {
	case outcome == nil || outcome == capacity.ErrNoRoom: // no dry run tells of room
		return TrialResult{}
	case DeniedAction(err) != "":
		return TrialResult{Verdict: Denied, Message: DeniedAction(err)}
	case outcome == errUnclear || isThrottled(err):
		return TrialResult{Verdict: Silent, Message: Message(err)}
	}

	return TrialResult{Verdict: Refuses, Code: Code(err), Message: rawMessage(err), Fix: Advice(err)}
}

// TryLaunches asks EC2 by DryRun whether it would take the launches of a trial, side by side. The
// error is for a launch template that cannot be read.
func (c *Client) TryLaunches(ctx context.Context, t Trial) ([]TrialResult, error) {
	build, err := c.trialInput(ctx, t)
	if err != nil {
		return nil, err
	}

	answers := make([]TrialResult, len(t.Subnets))

	var all sync.WaitGroup
	for i, subnet := range t.Subnets {
		all.Go(func() { answers[i] = c.tryInSubnet(ctx, t, subnet, build) })
	}

	all.Wait()

	return answers, nil
}

// launchBuilder is the request of a launch, which may be changed.
type launchBuilder func(l capacity.Launch) (*ec2.RunInstancesInput, error)

func (c *Client) tryInSubnet(ctx context.Context, t Trial, subnet string, build launchBuilder) TrialResult {
	l := t.Launch

	l.SubnetID = subnet
	l.Count = 1

	err := c.tryOne(ctx, l, build)
	aside := l.ReservationID != "" && Outcome(err) == capacity.ErrNoRoom
	if aside {
		l.ReservationID = ""
		l.Kind = capacity.OnDemand
		l.PlacementGroup = ""

		err = c.tryOne(ctx, l, build)
		if Outcome(err, elsewhereCodes...) == capacity.ErrNoRoom { // types of blocks are perhaps not sold on demand
			err = nil
		}
	}

	answer := trialResult(err)
	answer.SubnetID, answer.NoReservation = subnet, aside

	return answer
}

func (c *Client) tryOne(ctx context.Context, l capacity.Launch, build launchBuilder) error {
	in, err := build(l)
	if err != nil {
		return err
	}

	in.DryRun = aws.Bool(true)
	_, err = c.api.RunInstances(ctx, in)

	return dryRunError(err, fmt.Sprintf("asking to launch %d × %s in %s", l.Count, l.InstanceType, c.region))
}

// trialInput returns how a launch of the trial is asked for.
func (c *Client) trialInput(ctx context.Context, t Trial) (launchBuilder, error) {
	data := &types.RequestLaunchTemplateData{}
	switch {
	case t.Spec != nil:
		var err error

		data, err = c.templateData(ctx, *t.Spec)
		if err != nil {
			return nil, err
		}
	case !t.Inline:
		return func(l capacity.Launch) (*ec2.RunInstancesInput, error) { return c.launchInput(ctx, l) }, nil
	default:
		template, _, err := c.resolveTemplate(ctx, t.Launch.LaunchTemplate)
		if err != nil {
			return nil, err
		}

		if template.LaunchTemplateData == nil {
			return nil, fmt.Errorf("reading launch template %s in %s: %w", t.Launch.LaunchTemplate, c.region,
				ErrNotDescribed)
		}

		if err := copyByName(template.LaunchTemplateData, data); err != nil {
			return nil, err
		}
	}

	return func(l capacity.Launch) (*ec2.RunInstancesInput, error) { return inlineInput(data, t, l) }, nil
}

// inlineInput returns a launch without a template, of what is in one.
func inlineInput(data *types.RequestLaunchTemplateData, t Trial, l capacity.Launch) (*ec2.RunInstancesInput, error) {
	in := &ec2.RunInstancesInput{}
	if err := copyByName(data, in); err != nil {
		return nil, err
	}

	in.MinCount, in.MaxCount = aws.Int32(1), aws.Int32(1)
	in.InstanceType = types.InstanceType(l.InstanceType)
	in.ImageId = aws.String(cmp.Or(t.ImageID, aws.ToString(in.ImageId)))
	if p := instanceProfile(t.InstanceProfile); p != nil {
		in.IamInstanceProfile = &types.IamInstanceProfileSpecification{Arn: p.Arn, Name: p.Name}
	}

	if setSubnet(in.NetworkInterfaces, l.SubnetID); len(in.NetworkInterfaces) == 0 {
		in.SubnetId = aws.String(l.SubnetID)
	}

	setTarget(in, l)

	for _, more := range tagged(l.Tags, types.ResourceTypeInstance, types.ResourceTypeVolume) {
		at := slices.IndexFunc(in.TagSpecifications,
			func(s types.TagSpecification) bool { return s.ResourceType == more.ResourceType })
		if at < 0 {
			in.TagSpecifications = append(in.TagSpecifications, more)
			continue
		}

		has := &in.TagSpecifications[at].Tags
		*has = slices.DeleteFunc(*has,
			func(tag types.Tag) bool { _, given := l.Tags[aws.ToString(tag.Key)]; return given })
		*has = append(*has, more.Tags...)
	}

	return in, nil
}

// ReadActions are the actions that TryRead knows.
var ReadActions = slices.Sorted(maps.Keys(new(api).dryRuns()))

// dryRuns calls the reads of EC2 with DryRun, by the action that IAM asks for.
func (a *api) dryRuns() map[string]func(context.Context) error {
	yes := aws.Bool(true)

	return map[string]func(context.Context) error{
		"ec2:DescribeCapacityBlockStatus": dryRun(a.DescribeCapacityBlockStatus,
			ec2.DescribeCapacityBlockStatusInput{DryRun: yes}),
		"ec2:DescribeCapacityBlocks": dryRun(a.DescribeCapacityBlocks, ec2.DescribeCapacityBlocksInput{DryRun: yes}),
		"ec2:DescribeCapacityReservations": dryRun(a.DescribeCapacityReservations,
			ec2.DescribeCapacityReservationsInput{DryRun: yes}),
		"ec2:DescribeImages": dryRun(a.DescribeImages,
			ec2.DescribeImagesInput{DryRun: yes, Owners: []string{"self"}}),
		"ec2:DescribeInstances": dryRun(a.DescribeInstances, ec2.DescribeInstancesInput{DryRun: yes}),
		"ec2:DescribeLaunchTemplateVersions": dryRun(a.DescribeLaunchTemplateVersions,
			ec2.DescribeLaunchTemplateVersionsInput{DryRun: yes, Versions: []string{latestVersion}}),
		"ec2:DescribeLaunchTemplates": dryRun(a.DescribeLaunchTemplates, ec2.DescribeLaunchTemplatesInput{DryRun: yes}),
		"ec2:DescribeSubnets":         dryRun(a.DescribeSubnets, ec2.DescribeSubnetsInput{DryRun: yes}),
	}
}

func dryRun[In, Out any](call call[In, Out], in In) func(context.Context) error {
	return func(ctx context.Context) error { _, err := call(ctx, &in); return err }
}

// TryRead asks EC2 whether the caller may call one of Reads, and reads nothing: nil means yes.
func (c *Client) TryRead(ctx context.Context, action string) error {
	return dryRunError(c.api.dryRuns()[action](ctx), "asking for "+action)
}

// TryTerminate asks EC2 whether the caller may end an instance, and ends nothing.
func (c *Client) TryTerminate(ctx context.Context, id string) error {
	_, err := c.api.TerminateInstances(ctx,
		&ec2.TerminateInstancesInput{InstanceIds: []string{id}, DryRun: aws.Bool(true)})

	return dryRunError(err, "asking to terminate "+id)
}

// DeniedAction returns the action of EC2 or PCS that the caller has no permission for; "" if err is something else.
func DeniedAction(err error) string {
	var d *awsconfig.Denied
	if errors.As(err, &d) {
		return d.Action
	}

	return ""
}

// DeniedCaller returns the caller of a denied call, as AWS names it; "" if it does not.
func DeniedCaller(err error) string {
	var d *awsconfig.Denied
	if errors.As(err, &d) {
		return d.Caller
	}

	return ""
}

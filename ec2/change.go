package ec2

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Change is a command, or a roll over, that changes the set-up of a PCS cluster. A launch template
// announces it to other hosts: EC2 makes only one of a name. The template has no image, so nothing
// launches from it.
type Change struct {
	// Cluster is the id, Mark the value of our tag.
	Cluster, Mark string
	// Owner is the owner of the settings. Only one change with the same owner and host runs at a
	// time, so an earlier one is dead.
	Owner, Host string
	PID         int
	// Since is when EC2 made the template.
	Since time.Time

	templateID string
}

// Template is the name of the launch template.
func (h Change) Template() string { return "pcs-capacity-" + h.Cluster + "-change" }

func (h Change) String() string {
	return fmt.Sprintf("process %d on host %s, since %s", h.PID, h.Host, capacity.FormatUTC(h.Since))
}

// EndCommand is the command that ends it by hand.
func (h Change) EndCommand(region string) string {
	return fmt.Sprintf("aws ec2 delete-launch-template --region %s --launch-template-name %s", region, h.Template())
}

func (h Change) tag() string { return fmt.Sprintf("%s %d %s", h.Owner, h.PID, h.Host) }

// by reports whether the same owner began both, on one host.
func (h Change) by(other Change) bool { return h.Owner == other.Owner && h.Host == other.Host }

// ErrChanged is the reason when another host changes the cluster's set-up.
var ErrChanged = errors.New("another host changes the cluster's set-up")

// BeginChange makes the launch template of a change; end deletes it. A template that a dead change
// of the same owner left is deleted first. Any other change keeps this one from beginning:
// ErrChanged.
func (c *Client) BeginChange(ctx context.Context, change Change) (end func(context.Context) error, err error) {
	var id string
	err = c.againWhile(ctx, notShown, func() (err error) {
		if id, err = c.createChange(ctx, change); !nameTaken(err) {
			return err
		}
		there, found, err := c.ChangeOf(ctx, change.Cluster)
		switch {
		case err != nil:
			return err
		case !found || there.Owner == "":
			return errNotShown
		case !there.by(change):
			return fmt.Errorf("%w: `setup`, `teardown` or a roll over of owner %s runs in %s as %s; wait until it ends, or, if it is dead, delete what it has left:\n  %s",
				ErrChanged, there.Owner, there.Mark, there, there.EndCommand(c.region))
		}
		if err := c.deleteTemplate(ctx, there.templateID); err != nil {
			return err
		}
		return errNotShown // made in the next round
	})
	switch {
	case notShown(err):
		return nil, fmt.Errorf("launch template %s is there, and does not say who changes the cluster: delete it with\n  %s", change.Template(), change.EndCommand(c.region))
	case err != nil:
		return nil, err
	}
	return func(ctx context.Context) error { return c.deleteTemplate(ctx, id) }, nil
}

// EndDeadChange deletes the template that a dead change of the same owner and host left, if any.
func (c *Client) EndDeadChange(ctx context.Context, change Change) error {
	there, found, err := c.ChangeOf(ctx, change.Cluster)
	if err != nil || !found || !there.by(change) {
		return err
	}
	return c.deleteTemplate(ctx, there.templateID)
}

// ChangeOf returns the change under way on a PCS cluster, by the cluster's id. The second value is
// false if there is none.
func (c *Client) ChangeOf(ctx context.Context, cluster string) (Change, bool, error) {
	change := Change{Cluster: cluster}
	out, err := c.api.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{change.Template()}})
	switch {
	case noTemplate(err) || err == nil && len(out.LaunchTemplates) == 0:
		return Change{}, false, nil
	case err != nil:
		return Change{}, false, fmt.Errorf("describing launch template %s in %s: %w", change.Template(), c.region, err)
	}
	t := out.LaunchTemplates[0]
	tags := tagMap(t.Tags)
	change.templateID, change.Since, change.Mark = aws.ToString(t.LaunchTemplateId), aws.ToTime(t.CreateTime), tags[capacity.TagCluster]
	_, _ = fmt.Sscan(tags[capacity.TagChange], &change.Owner, &change.PID, &change.Host) // tags may come later
	return change, true, nil
}

func (c *Client) createChange(ctx context.Context, change Change) (id string, err error) {
	out, err := c.api.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(change.Template()),
		LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: types.InstanceTypeT3Micro}, // EC2 demands some content
		TagSpecifications:  tagged(map[string]string{capacity.TagCluster: change.Mark, capacity.TagChange: change.tag()}, types.ResourceTypeLaunchTemplate),
	})
	if err == nil && out.LaunchTemplate == nil {
		err = ErrNotDescribed
	}
	if err != nil {
		return "", fmt.Errorf("creating launch template %s in %s: %w", change.Template(), c.region, err)
	}
	return aws.ToString(out.LaunchTemplate.LaunchTemplateId), nil
}

// deleteTemplate deletes a template that was there, if EC2 does not show it yet.
func (c *Client) deleteTemplate(ctx context.Context, id string) error {
	err := c.againWhile(ctx, noTemplate, func() error {
		_, err := c.api.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String(id)})
		return err
	})
	if err != nil && !noTemplate(err) {
		return fmt.Errorf("deleting launch template %s in %s: %w", id, c.region, err)
	}
	return nil
}

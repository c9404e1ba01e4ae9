package ec2

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// reservationPlatforms maps the platform of an AMI to the platform of a reservation where EC2's
// names differ: EC2 User Guide, "AMI billing information fields"; EC2 API Reference,
// CreateCapacityReservation. EC2 has none for "Windows BYOL".
var reservationPlatforms = map[string]string{
	"Red Hat BYOL Linux":               "Linux/UNIX", // the licence is not EC2's
	"Red Hat Enterprise Linux with HA": "RHEL with HA",

	"Red Hat Enterprise Linux with SQL Server Standard":          "RHEL with SQL Server Standard",
	"Red Hat Enterprise Linux with SQL Server Enterprise":        "RHEL with SQL Server Enterprise",
	"Red Hat Enterprise Linux with SQL Server Web":               "RHEL with SQL Server Web",
	"Red Hat Enterprise Linux with SQL Server Standard and HA":   "RHEL with HA and SQL Server Standard",
	"Red Hat Enterprise Linux with SQL Server Enterprise and HA": "RHEL with HA and SQL Server Enterprise",

	"SQL Server Standard":   "Linux with SQL Server Standard",
	"SQL Server Enterprise": "Linux with SQL Server Enterprise",
	"SQL Server Web":        "Linux with SQL Server Web",
}

// reservationPlatform is the platform of an AMI under EC2's name for reservations, mostly the same.
// It is "" for names that no reservation has in this version of the SDK: nobody knows which
// reservations would take such an image.
func reservationPlatform(details string) string {
	if name, ok := reservationPlatforms[details]; ok {
		return name
	}
	if !slices.Contains(types.CapacityReservationInstancePlatform("").Values(), types.CapacityReservationInstancePlatform(details)) {
		return ""
	}
	return details
}

// ImagePlatform returns the platform of the image of a launch template, ID[:VERSION] or
// NAME[:VERSION], and the version that this means now. Without permission, or without an image in
// the template, the platform is unknown and there is no error. A missing image is an error with
// EC2's code InvalidAMIID.NotFound; the version is returned even then.
func (c *Client) ImagePlatform(ctx context.Context, template string) (capacity.ImagePlatform, error) {
	t, err := c.launchable(ctx, template)
	if err != nil {
		return capacity.ImagePlatform{}, err
	}
	found := capacity.ImagePlatform{Template: t.pinned}
	if t.version.LaunchTemplateData == nil { // that is told
		return found, nil
	}
	image := aws.ToString(t.version.LaunchTemplateData.ImageId)
	if isParameter(image) {
		var id *string
		id, err = c.resolvedImage(ctx, t.version)
		image = aws.ToString(id)
	}
	if err == nil && image != "" {
		found.Platform, err = c.platform(ctx, image)
	}
	if notAllowed(err) {
		c.without(err, "what the image of launch template "+template+" runs is not known")
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("reading what launch template %s runs: %w", template, err)
	}
	return found, nil
}

// platform is the platform of an AMI, which never changes.
func (c *Client) platform(ctx context.Context, image string) (string, error) {
	c.mu.Lock()
	known, ok := c.platforms[image]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	described, err := c.Image(ctx, image)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	c.platforms[image] = described.Platform
	c.mu.Unlock()
	return described.Platform, nil
}

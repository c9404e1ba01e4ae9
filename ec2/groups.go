package ec2

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroups"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroups/types"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// GroupMembers returns the ids of the reservations in a Capacity Reservation group of AWS Resource
// Groups, by the group's name or ARN. Reservations that are still being added are left out. EC2
// itself only lists the groups of one reservation, which would take one call for each.
func (c *Client) GroupMembers(ctx context.Context, group string) ([]string, error) {
	api := resourcegroups.NewFromConfig(c.shared.Config, func(o *resourcegroups.Options) {
		o.Region = c.region
		o.APIOptions = append(o.APIOptions, awsconfig.Advise(Remedies))
	})
	var ids []string
	for pages := resourcegroups.NewListGroupResourcesPaginator(api, &resourcegroups.ListGroupResourcesInput{Group: aws.String(group)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing resource group %s in %s: %w", group, c.region, err)
		}
		for _, r := range page.Resources {
			if r.Identifier == nil || r.Status != nil && r.Status.Name == types.ResourceStatusValuePending {
				continue
			}
			// arn:aws:ec2:REGION:OWNER:capacity-reservation/ID
			if _, id, found := strings.Cut(aws.ToString(r.Identifier.ResourceArn), ":capacity-reservation/"); found {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

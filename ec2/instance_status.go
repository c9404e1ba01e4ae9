package ec2

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Impaired are the running instances of this region whose host is impaired, or that EC2 is about to stop, restart or
// retire: what EC2 says, by instance. Without permission it is nothing: see Untold.
func (c *Client) Impaired(ctx context.Context) (map[string]string, error) {
	said := map[string]string{}
	for _, which := range []types.Filter{filter("system-status.status", "impaired"),
		filter("event.code", "instance-retirement", "instance-stop", "instance-reboot", "system-reboot", "system-maintenance")} {
		in := &ec2.DescribeInstanceStatusInput{Filters: []types.Filter{which}}
		for page, err := range awsconfig.Pages(ctx, ec2.NewDescribeInstanceStatusPaginator(c.api, in)) {
			switch {
			case notAllowed(err):
				c.without(err, "which hosts in "+c.region+" are impaired, or about to be retired, is not known")
				return nil, nil
			case err != nil:
				return nil, fmt.Errorf("describing the status of instances in %s: %w", c.region, err)
			}
			for _, s := range page.InstanceStatuses {
				id := aws.ToString(s.InstanceId)
				if s.SystemStatus != nil && s.SystemStatus.Status == types.SummaryStatusImpaired {
					said[id] = "its host is impaired"
				}
				for _, e := range s.Events {
					said[id] = fmt.Sprintf("%s, not before %s: %s", e.Code, aws.ToTime(e.NotBefore).UTC().Format(time.RFC3339), aws.ToString(e.Description))
				}
			}
		}
	}
	return said, nil
}

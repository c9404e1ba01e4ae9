package ec2

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// MetadataTagsByDefault reports whether instances of this account see their tags in their metadata
// where a launch does not say.
func (c *Client) MetadataTagsByDefault(ctx context.Context) (bool, error) {
	out, err := c.api.GetInstanceMetadataDefaults(ctx, &ec2.GetInstanceMetadataDefaultsInput{})
	if err != nil {
		return false, fmt.Errorf("asking for the account's defaults of instance metadata in %s: %w", c.region, err)
	}
	return out.AccountLevel != nil && out.AccountLevel.InstanceMetadataTags == types.InstanceMetadataTagsStateEnabled, nil
}

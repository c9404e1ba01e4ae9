package ec2

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Account is the id, twelve digits, of the account that the credentials belong to. Many credentials
// carry it; for others it takes one call of AWS STS, which needs no permission, only a way to its
// endpoint.
func (c *Client) Account(ctx context.Context) (string, error) {
	credentials, err := c.shared.Config.Credentials.Retrieve(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the AWS credentials: %w", err)
	}
	if credentials.AccountID != "" {
		return credentials.AccountID, nil
	}
	caller, err := c.caller(ctx)
	return caller.AccountID, err
}

// caller is the principal of the credentials, by one call of AWS STS.
func (c *Client) caller(ctx context.Context) (arn.ARN, error) {
	out, err := sts.NewFromConfig(c.shared.Config).GetCallerIdentity(ctx, nil)
	if err != nil {
		return arn.ARN{}, fmt.Errorf("asking AWS STS who the caller is: %w", err)
	}
	caller, err := arn.Parse(aws.ToString(out.Arn))
	if err != nil {
		return caller, fmt.Errorf("reading the caller's ARN %q: %w", aws.ToString(out.Arn), err)
	}
	return caller, nil
}

// Caller names the credentials: by the ARN of their principal, or by their source where AWS STS does not answer.
func (c *Client) Caller(ctx context.Context) string {
	caller, err := c.caller(ctx)
	if err == nil {
		return caller.String()
	}
	if _, source, err := c.shared.Whose(ctx); err == nil && source != "" {
		return "the credentials of " + source
	}
	return "these credentials"
}

// MetadataTagsByDefault reports whether instances of this account see their tags in their metadata
// where a launch does not say.
func (c *Client) MetadataTagsByDefault(ctx context.Context) (bool, error) {
	out, err := c.api.GetInstanceMetadataDefaults(ctx, &ec2.GetInstanceMetadataDefaultsInput{})
	if err != nil {
		return false, fmt.Errorf("asking for the account's defaults of instance metadata in %s: %w", c.region, err)
	}
	return out.AccountLevel != nil && out.AccountLevel.InstanceMetadataTags == types.InstanceMetadataTagsStateEnabled, nil
}

// gaveUp is a line of an instance's console that says why it is no node: of our user data, or of slurmd.
var gaveUp = regexp.MustCompile(`(pcs-capacity: |slurmd: (fatal|error): )[[:print:]]{1,200}`)

// ConsoleSays is the last line on an instance's console that says why it is no node; "" if there is none.
func (c *Client) ConsoleSays(ctx context.Context, id string) (string, error) {
	out, err := c.api.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &id, Latest: aws.Bool(true)})
	if err != nil {
		return "", fmt.Errorf("reading the console of %s: %w", id, err)
	}
	text, err := base64.StdEncoding.DecodeString(aws.ToString(out.Output))
	if err != nil {
		return "", fmt.Errorf("reading the console of %s: %w", id, err)
	}
	last := ""
	for _, line := range gaveUp.FindAll(text, -1) {
		last = string(line)
	}
	return last, nil
}

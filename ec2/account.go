package ec2

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
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
	out, err := sts.NewFromConfig(c.shared.Config).GetCallerIdentity(ctx, nil)
	if err != nil {
		return "", fmt.Errorf("asking AWS STS for the account: %w", err)
	}
	return aws.ToString(out.Account), nil
}

// Scope names, without secrets, the credentials and endpoints behind this client's answers. Caches
// of answers are kept apart by it.
func (c *Client) Scope(ctx context.Context) (string, error) {
	credentials, err := c.shared.Config.Credentials.Retrieve(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the AWS credentials: %w", err)
	}
	sum := sha256.Sum256([]byte(credentials.AccessKeyID + " " + aws.ToString(c.shared.Config.BaseEndpoint)))
	return hex.EncodeToString(sum[:8]), nil
}

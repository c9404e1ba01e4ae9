// Package pcs talks to AWS Parallel Computing Service: clusters, compute node groups
// and queues. It speaks the words of package capacity; no type of the AWS SDK leaves
// it. What is to be made, and from what, is decided by its callers.
//
// A base name such as gpu stands for two compute node groups, the slots gpu-a and
// gpu-b: a node group holds one reservation at a time and an update replaces its
// instances, so the next block gets the slot that is free.
//
// Client reads, Provisioner changes. Only what carries our tag is changed (R9).
package pcs

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
)

// Options choose the account and region, as those of package ec2 do.
type Options struct{ Region, Profile string }

// Client talks to PCS in one region.
type Client struct {
	api    *pcs.Client
	region string
}

// New makes a client. It calls no AWS service, except for instance metadata when
// nothing else names the region.
func New(ctx context.Context, o Options) (*Client, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.Region), config.WithSharedConfigProfile(o.Profile))
	if err != nil {
		return nil, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		answer, err := imds.NewFromConfig(cfg).GetRegion(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("no AWS region is set, and instance metadata gives none (%w); set region in config.toml, --region or AWS_REGION", err)
		}
		cfg.Region = answer.Region
	}
	return &Client{api: pcs.NewFromConfig(cfg), region: cfg.Region}, nil
}

// Region is the region that the client works in.
func (c *Client) Region() string { return c.region }

var str = aws.ToString

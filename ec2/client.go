// Package ec2 talks to Amazon EC2: capacity reservations and blocks, what is for
// sale, launch templates and launches. It speaks the words of package capacity; no
// type of the AWS SDK leaves it.
//
// Reads are retried by the SDK's standard retryer. A purchase is sent once (R3).
package ec2

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// Options choose the account and region. The AWS SDK's own environment variables
// and files work too, AWS_ENDPOINT_URL among them.
type Options struct {
	// Region is where to work; "" takes it from the SDK's chain, then from the
	// metadata of the instance that this runs on.
	Region string
	// Profile is a profile of the shared AWS configuration; "" for the default.
	Profile string
}

// Client talks to EC2 in one region. It is safe for use by several goroutines.
type Client struct {
	shared *shared
	region string
	api    *ec2.Client
	scarce scarce

	mu sync.Mutex
	// zoneIDs maps the names of this account's Availability Zones to their ids.
	zoneIDs map[string]string
	// launchables are the launch templates that were read, by what names them.
	launchables map[string]launchable
	// launched is when an instance was launched, by AWS's clock, as far as this client
	// launched it or was told.
	launched map[string]time.Time
}

// shared is what the clients of all regions have together.
type shared struct {
	config aws.Config
	clock  clock
	// refill is the time after which EC2 allows one more scarce call.
	refill   time.Duration
	tellWait func(Wait)
	// settle is settleTime.
	settle time.Duration

	mu      sync.Mutex
	regions map[string]*Client
}

// New makes a client. It calls no AWS service, except for instance metadata when
// nothing else names the region.
func New(ctx context.Context, o Options) (*Client, error) {
	s := &shared{regions: map[string]*Client{}, refill: scarceRefill, settle: settleTime}
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithRegion(o.Region),
		config.WithSharedConfigProfile(o.Profile),
		config.WithAPIOptions(append(s.clock.middleware(), plainBody)),
	)
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
	cfg.Credentials = knownCredentials{cfg.Credentials}
	s.config = cfg
	return s.in(cfg.Region), nil
}

// Region is the region that the client works in.
func (c *Client) Region() string { return c.region }

// In is the same client for another region; "" is the client itself.
func (c *Client) In(region string) *Client {
	if region == "" {
		return c
	}
	return c.shared.in(region)
}

func (s *shared) in(region string) *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.regions[region]; ok {
		return c
	}
	c := &Client{
		shared: s,
		region: region,
		api:    ec2.NewFromConfig(s.config, noRetryAfter(noCapacity...), func(o *ec2.Options) { o.Region = region }),
		scarce: newScarce(s.refill),

		launchables: map[string]launchable{}, launched: map[string]time.Time{},
	}
	s.regions[region] = c
	return c
}

// Now is AWS's time: the machine's clock, corrected by Offset.
func (c *Client) Now() time.Time { return time.Now().Add(c.Offset()) }

// Offset is AWS's time minus the machine's, from the newest answer that had a Date
// header, whether the call went well or failed; 0 before the first answer. All
// regions share it.
func (c *Client) Offset() time.Duration { return c.shared.clock.offset() }

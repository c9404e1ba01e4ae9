// Package awsconfig reads the configuration of AWS once, for the clients of all its
// services: they have the same credentials, looked for once; the same clock; and deadlines,
// which the SDK has none of its own for.
package awsconfig

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go/logging"
)

// Options choose the account and region. The AWS SDK's own environment variables and
// files work too, AWS_ENDPOINT_URL among them.
type Options struct {
	// Region is where to work; "" takes it from the SDK's chain, then from the metadata of
	// the instance that this runs on.
	Region string
	// Profile is a profile of the shared AWS configuration; "" for the default.
	Profile string
	// Called is told of every call when it has ended, by several goroutines at once; nil logs
	// it with slog's default logger, at level debug.
	Called func(Call)
}

// Shared is what the clients of one program have in common. It is safe for use by several
// goroutines.
type Shared struct {
	// Config has the region, and everything that this package adds.
	Config aws.Config
	// RegionFromMetadata: nothing but the metadata of this instance named the region.
	RegionFromMetadata bool

	metadata *imds.Client
	clock    clock
	limits   *limits
}

// metadataTime is how long the metadata of the instance may take to answer, which takes
// milliseconds where there is any. Elsewhere the SDK would try for 3 s, and for each
// attempt of each call again.
const metadataTime = 1500 * time.Millisecond

// quiet has the SDK's own lines in the log of debugging, where nobody takes them for ours.
var quiet = logging.LoggerFunc(func(class logging.Classification, format string, args ...any) {
	slog.Debug("AWS SDK", "class", string(class), "line", fmt.Sprintf(format, args...))
})

// Load reads the configuration. It calls no AWS service, except for instance metadata
// when nothing else names the region.
func Load(ctx context.Context, o Options) (*Shared, error) {
	s := &Shared{limits: newLimits()}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.Region), config.WithSharedConfigProfile(o.Profile), config.WithLogger(quiet))
	if err != nil {
		return nil, unread(err)
	}
	s.metadata = imds.NewFromConfig(cfg)
	if cfg.Region == "" {
		ctx, cancel := context.WithTimeout(ctx, metadataTime)
		defer cancel()
		answer, err := s.metadata.GetRegion(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("no AWS region is set, and instance metadata gives none (%w); set region in config.toml, --region or AWS_REGION", err)
		}
		cfg.Region, s.RegionFromMetadata = answer.Region, true
	}
	cfg.Credentials = newCredentials(cfg.Credentials)
	if o.Called == nil {
		o.Called = tellDebug
	}
	cfg.APIOptions = append(cfg.APIOptions, nameTrouble, tellCalls(o.Called), s.clock.middleware, plainBody, s.limits.middleware, nameDenied)
	s.Config = cfg
	return s, nil
}

// Offset is AWS's time minus the machine's as it is now, from the newest answer of any service and
// region that had a Date header, whether the call went well or failed; 0 before the first
// answer.
func (s *Shared) Offset() time.Duration { return s.clock.offset() }

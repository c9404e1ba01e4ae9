// Package awsconfig reads the configuration of AWS once, for the clients of all its services: they share credentials,
// which are looked for once, a clock, and deadlines, which the SDK lacks.
//
// Packages ec2, ec2/groups and pcs build their clients on it. [Load] is where to begin; limits.go has the deadlines,
// errors.go the words for AWS's errors.
package awsconfig

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/smithy-go/logging"
)

// Options choose the account and region. The AWS SDK's own environment variables and
// files work too, AWS_ENDPOINT_URL among them.
type Options struct {
	// Region names the AWS region; "" takes it from the SDK's chain, then from the metadata of this instance.
	Region  string
	Profile string // a profile of the shared AWS configuration; "" for the default
	// OnCall is told of every call when it has ended, by several goroutines at once; nil logs
	// it with slog's default logger, at level debug.
	OnCall func(Call)
}

// Shared holds the state that the clients of one program share. It is safe for use by several goroutines.
type Shared struct {
	Config aws.Config // Config has the region, and everything that this package adds

	metadata *imds.Client
	clock    clock
	limits   *limits
}

// metadataTime bounds the wait for the metadata of the instance, which answers in milliseconds where there is
// any. Elsewhere the SDK would try for 3 s, and for each attempt of each call again.
const metadataTime = 1500 * time.Millisecond

// quiet has the SDK's own lines in the log of debugging, where nobody takes them for ours.
var quiet = logging.LoggerFunc(func(class logging.Classification, format string, args ...any) {
	slog.Debug("AWS SDK", "class", string(class), "line", fmt.Sprintf(format, args...))
})

// Load reads the configuration. It calls no AWS service, except for instance metadata
// when nothing else names the region.
func Load(ctx context.Context, o Options) (*Shared, error) {
	s := &Shared{limits: &limits{read: readTime, change: changeTime, silent: silentTime, until: map[string]time.Time{}}}

	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.Region), config.WithSharedConfigProfile(o.Profile),
		config.WithLogger(quiet))
	if err != nil {
		return nil, configError(err)
	}

	s.metadata = imds.NewFromConfig(cfg)
	if cfg.Region == "" {
		ctx, cancel := context.WithTimeout(ctx, metadataTime)
		defer cancel()

		answer, err := s.metadata.GetRegion(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf(
				"no AWS region is set, and instance metadata gives none (%w); set region in config.toml, --region or "+
					"AWS_REGION",
				err,
			)
		}

		cfg.Region = answer.Region
	}

	cfg.Credentials = newCredentials(cfg.Credentials)

	if o.OnCall == nil {
		o.OnCall = logDebug
	}

	cfg.APIOptions = append(cfg.APIOptions, wrapUnreachable, reportCalls(o.OnCall), s.clock.middleware, plainBody,
		s.limits.middleware, wrapDenied)
	s.Config = cfg

	return s, nil
}

// Offset returns AWS's time minus the machine's as it is now, from the newest answer of any service and region that had
// a Date header, whether the call went well or failed; 0 before the first answer.
func (s *Shared) Offset() time.Duration { return s.clock.offset() }

// noCredentialsTime must pass before credentials that could not be had are looked for again. It
// covers a pass of sync, and every command.
const noCredentialsTime = 30 * time.Second

// credentials come from the AWS SDK's chain, which is asked only once if it has none.
type credentials struct {
	chain    aws.CredentialsProvider
	metadata bool // the chain has come to its end, which is to ask the metadata of the instance

	mu    sync.Mutex
	none  *NoCredentials
	until time.Time
}

func newCredentials(chain aws.CredentialsProvider) *credentials {
	return &credentials{chain: chain, metadata: aws.IsCredentialsProvider(chain, (*ec2rolecreds.Provider)(nil))}
}

// Retrieve asks the chain. Its errors have no type of their own, and may hold the
// answers of other services: they are *NoCredentials here.
func (c *credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c.mu.Lock() // who asks meanwhile waits for the same answer
	defer c.mu.Unlock()

	if c.none != nil && time.Now().Before(c.until) {
		return aws.Credentials{}, c.none
	}

	look := ctx
	if c.metadata {
		var cancel context.CancelFunc

		look, cancel = context.WithTimeout(ctx, metadataTime)
		defer cancel()
	}

	found, err := c.chain.Retrieve(look)
	c.none = nil
	if err != nil {
		none := &NoCredentials{err, c.metadata}
		if ctx.Err() == nil { // the caller's own haste is no verdict
			c.none, c.until = none, time.Now().Add(noCredentialsTime)
		}

		return aws.Credentials{}, none
	}

	return found, nil
}

// Account returns the account of the credentials, "" if unknown, and their source in the SDK's words. No AWS
// service is asked; those of an instance profile do not say their account, and the metadata of the instance is asked
// once.
func (s *Shared) Account(ctx context.Context) (account, source string, err error) {
	found, err := s.Config.Credentials.Retrieve(ctx)
	if err != nil {
		return "", "", err
	}

	if found.AccountID == "" && found.Source == ec2rolecreds.ProviderName {
		found.AccountID = s.profileAccount(ctx)
	}

	return found.AccountID, found.Source, nil
}

// profileAccount returns the account of the machine's instance profile; "" if metadata does not say it.
func (s *Shared) profileAccount(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, metadataTime)
	defer cancel()

	info, err := s.metadata.GetIAMInfo(ctx, nil, func(o *imds.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		return ""
	}

	profile, err := arn.Parse(info.InstanceProfileArn)
	if err != nil {
		return ""
	}

	return profile.AccountID
}

// NoCredentials explains why no credentials were found.
type NoCredentials struct {
	err      error
	metadata bool // nothing names credentials, and the machine's instance metadata has none
}

func (n *NoCredentials) Error() string { return n.Text(error.Error) }

// Text returns the error as a sentence with its remedy. describe puts the error of named credentials into words.
func (n *NoCredentials) Text(describe func(error) string) string {
	why := ""
	if !n.metadata {
		why = " (" + describe(n.err) + ")"
	}

	return "there are no AWS credentials" + why + "; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and " +
		"AWS_SECRET_ACCESS_KEY, or use a host with an instance profile"
}

// Unwrap returns the error of the chain.
func (n *NoCredentials) Unwrap() error { return n.err }

// RetryableError tells the SDK that to ask again at once is no use: the chain has tried.
func (n *NoCredentials) RetryableError() bool { return false }

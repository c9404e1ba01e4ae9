// Package ec2 talks to Amazon EC2: capacity reservations and blocks, offerings, launch templates and launches. Its API
// uses the types of package capacity; no type of the AWS SDK leaves it.
//
// [New] makes the [Client] that commands, sync and the power hooks share. Begin reading with reservations.go (what is
// there), launch.go (RunInstances) and offerings.go (what is for sale); errors.go says what EC2's codes mean to callers.
//
// Calls are retried by the SDK's standard retryer, except for launches and purchases (R3), which are sent once.
package ec2

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Options choose the account and region.
type Options = awsconfig.Options

// Call is one call of AWS, as it is logged.
type Call = awsconfig.Call

// Client talks to EC2 in one region. Goroutines may share it.
type Client struct {
	shared         *shared
	region         string
	api            *api
	scarce         scarce
	blocksExpected atomic.Bool // see ExpectBlocks

	zones     sync.Mutex
	zoneIDs   map[string]string   // maps the names of this account's Availability Zones to their ids
	versions  cache[templateRead] // those of launch templates, by reference
	pinning   sync.Mutex
	types     cache[InstanceType] // the instance types, which do not change
	platforms cache[string]       // those of AMIs, by id
}

// cache keeps what was read, by name.
type cache[T any] struct{ all sync.Map }

func (c *cache[T]) get(name string) (T, bool) {
	known, ok := c.all.Load(name)
	if !ok {
		return *new(T), false
	}

	return known.(T), true
}

func (c *cache[T]) put(name string, what T) { c.all.Store(name, what) }

// shared is the state that the clients of all regions share.
type shared struct {
	*awsconfig.Shared
	refill time.Duration // the time after which EC2 allows one more scarce call
	onWait func(Wait)
	settle time.Duration // settleTime

	mu       sync.Mutex
	regions  map[string]*Client
	withheld []string // each once
}

// New makes a client. It calls no AWS service, except for instance metadata when nothing else names the region.
func New(ctx context.Context, o Options) (*Client, error) {
	aws, err := awsconfig.Load(ctx, o)
	if err != nil {
		return nil, err
	}

	return From(aws), nil
}

// From makes a client that shares credentials, clock and deadlines with the clients of other services.
func From(aws *awsconfig.Shared) *Client {
	s := &shared{Shared: aws, regions: map[string]*Client{}, refill: scarceRefill, settle: settleTime}
	return s.in(aws.Config.Region)
}

// Shared lets a client of another service use the same credentials without a second search for them.
func (c *Client) Shared() *awsconfig.Shared { return c.shared.Shared }

// Region returns the region that the client works in.
func (c *Client) Region() string { return c.region }

// In returns the client of another region; "" returns the client itself.
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
		api: newAPI(ec2.NewFromConfig(s.Config, withoutRetry(noCapacityCodes...), func(o *ec2.Options) {
			o.Region = region
			o.APIOptions = append(o.APIOptions, awsconfig.Advise(Remedies), awsconfig.WrapUndecided(noCapacityCodes...))
		})),
		scarce: newScarce(s.refill),
	}
	s.regions[region] = c

	return c
}

// Now returns AWS's time: the machine's clock, corrected by Offset.
func (c *Client) Now() time.Time { return time.Now().Add(c.Offset()) }

// Offset returns AWS's time minus the machine's, from the newest answer that had a Date header, whether the call went
// well or failed; 0 before the first answer. All regions share it.
func (c *Client) Offset() time.Duration { return c.shared.Shared.Offset() }

// Withheld returns what EC2 withheld for lack of permission since the last call of Withheld: sentences,
// each with the denied action and its cost. All regions share the list.
func (c *Client) Withheld() []string {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()

	untold := c.shared.withheld
	c.shared.withheld = nil

	return untold
}

// addWithheld notes a question that was not answered, and the cost.
func (c *Client) addWithheld(err error, unknown string) {
	words := unknown + ": " + stableText(err)

	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()

	if !slices.Contains(c.shared.withheld, words) {
		c.shared.withheld = append(c.shared.withheld, words)
	}
}

func tagMap(tags []types.Tag) map[string]string {
	if len(tags) == 0 {
		return nil
	}

	m := map[string]string{}
	for _, t := range tags {
		m[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}

	return m
}

// tagList sorts tags by key, so that equal requests are equal bytes, as a ClientToken demands.
func tagList(m map[string]string) []types.Tag {
	var tags []types.Tag
	for _, key := range slices.Sorted(maps.Keys(m)) {
		tags = append(tags, types.Tag{Key: aws.String(key), Value: aws.String(m[key])})
	}

	return tags
}

// tagged lists the tags for each kind of resource; nil without tags, since EC2 refuses an empty list.
func tagged(m map[string]string, kinds ...types.ResourceType) []types.TagSpecification {
	if len(m) == 0 {
		return nil
	}

	var specs []types.TagSpecification
	for _, kind := range kinds {
		specs = append(specs, types.TagSpecification{ResourceType: kind, Tags: tagList(m)})
	}

	return specs
}

// filterEscapes escapes the wildcards in the value of a filter: EC2 User Guide, "List and filter your resources".
var filterEscapes = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`)

// tagFilter matches resources with exactly one of these values for a tag.
func tagFilter(key string, values ...string) types.Filter {
	var exact []string
	for _, v := range values {
		exact = append(exact, filterEscapes.Replace(v))
	}

	return filter("tag:"+key, exact...)
}

// tagFilters match resources with all of these tags.
func tagFilters(tags map[string]string) (all []types.Filter) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, tagFilter(key, tags[key]))
	}
	return all
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// unique drops empty and repeated ids. An empty list must never reach EC2, which would take it for "all".
func unique(ids []string) []string {
	var out []string
	for _, id := range ids {
		if id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}

	return out
}

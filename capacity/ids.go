package capacity

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// matcher matches a form that it compiles on first use: the submit filter starts at each submission that Lua does not
// decide, and compiling all forms would take a tenth of its time.
func matcher(form string) func(text string) bool {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(form) })
	return func(text string) bool { return compiled().MatchString(text) }
}

// Whether a text can be an id or a name of EC2's. Ids are a prefix and 8 or 17 hexadecimal digits; those of Capacity
// Block offerings have other letters as well.
var (
	IsReservationID = matcher(`^cr-[0-9a-f]{8,17}$`)
	IsSubnetID      = matcher(`^subnet-[0-9a-f]{8,17}$`)
	IsOfferingID    = matcher(`^cb-[0-9A-Za-z]+$`)
	IsInstanceType  = matcher(`^[a-z][a-z0-9-]*\.[a-z0-9-]+$`)
)

// AWSPartition describes one of the isolated AWS clouds, each with its own credentials.
type AWSPartition struct {
	Name   string // in ARNs: aws, aws-cn
	Region string // home of the services without a region, and never far behind in features
	Domain string // of its endpoints and service principals
	region string // how the names of its regions begin
}

// awsPartitions comes from the AWS SDK: partitions.json of internal/endpoints/awsrulesfn. A region that begins like
// none of the others belongs to the last.
var awsPartitions = []AWSPartition{
	{"aws-cn", "cn-northwest-1", "amazonaws.com.cn", "cn-"},
	{"aws-eusc", "eusc-de-east-1", "amazonaws.eu", "eusc-"},
	{"aws-iso", "us-iso-east-1", "c2s.ic.gov", "us-iso-"},
	{"aws-iso-b", "us-isob-east-1", "sc2s.sgov.gov", "us-isob-"},
	{"aws-iso-e", "eu-isoe-west-1", "cloud.adc-e.uk", "eu-isoe-"},
	{"aws-iso-f", "us-isof-south-1", "csp.hci.ic.gov", "us-isof-"},
	{"aws-us-gov", "us-gov-west-1", "amazonaws.com", "us-gov-"},
	{"aws", "us-east-1", "amazonaws.com", ""},
}

// AWSPartitionOf returns the AWS partition of a region, by the region's name.
func AWSPartitionOf(region string) AWSPartition {
	i := slices.IndexFunc(awsPartitions, func(p AWSPartition) bool { return strings.HasPrefix(region, p.region) })
	return awsPartitions[i]
}

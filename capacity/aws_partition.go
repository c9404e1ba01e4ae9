package capacity

import (
	"regexp"
	"slices"
	"sync"
)

// AWSPartition is one of the separate clouds of AWS, which share no credentials.
type AWSPartition struct {
	Name   string // in ARNs: aws, aws-cn
	Region string // that has what belongs to no region, and is never far behind in features
	region string // what the names of its regions look like
}

// awsPartitions are those of the AWS SDK, in partitions.json of internal/endpoints/awsrulesfn.
// The first is that of regions which none of them has.
var awsPartitions = []AWSPartition{
	{"aws", "us-east-1", `^(us|eu|ap|sa|ca|me|af|il|mx)\-\w+\-\d+$`},
	{"aws-cn", "cn-northwest-1", `^cn\-\w+\-\d+$`},
	{"aws-eusc", "eusc-de-east-1", `^eusc\-(de)\-\w+\-\d+$`},
	{"aws-iso", "us-iso-east-1", `^us\-iso\-\w+\-\d+$`},
	{"aws-iso-b", "us-isob-east-1", `^us\-isob\-\w+\-\d+$`},
	{"aws-iso-e", "eu-isoe-west-1", `^eu\-isoe\-\w+\-\d+$`},
	{"aws-iso-f", "us-isof-south-1", `^us\-isof\-\w+\-\d+$`},
	{"aws-us-gov", "us-gov-west-1", `^us\-gov\-\w+\-\d+$`},
}

var awsRegions = sync.OnceValue(func() (of []*regexp.Regexp) {
	for _, p := range awsPartitions {
		of = append(of, regexp.MustCompile(p.region))
	}
	return of
})

// AWSPartitionOf is the partition of AWS that a region is in, by its name.
func AWSPartitionOf(region string) AWSPartition {
	i := slices.IndexFunc(awsRegions(), func(of *regexp.Regexp) bool { return of.MatchString(region) })
	return awsPartitions[max(i, 0)]
}

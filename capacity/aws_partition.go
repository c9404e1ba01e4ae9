package capacity

import (
	"regexp"
	"slices"
	"sync"
)

// AWSPartition is one of the isolated AWS clouds, each with its own credentials.
type AWSPartition struct {
	Name   string // in ARNs: aws, aws-cn
	Region string // home of the services without a region, and never far behind in features
	Domain string // of its endpoints and service principals
	region string // pattern of its region names
}

// awsPartitions comes from the AWS SDK: partitions.json of internal/endpoints/awsrulesfn. A region that matches no
// pattern belongs to the first partition.
var awsPartitions = []AWSPartition{
	{"aws", "us-east-1", "amazonaws.com", `^(us|eu|ap|sa|ca|me|af|il|mx)\-\w+\-\d+$`},
	{"aws-cn", "cn-northwest-1", "amazonaws.com.cn", `^cn\-\w+\-\d+$`},
	{"aws-eusc", "eusc-de-east-1", "amazonaws.eu", `^eusc\-(de)\-\w+\-\d+$`},
	{"aws-iso", "us-iso-east-1", "c2s.ic.gov", `^us\-iso\-\w+\-\d+$`},
	{"aws-iso-b", "us-isob-east-1", "sc2s.sgov.gov", `^us\-isob\-\w+\-\d+$`},
	{"aws-iso-e", "eu-isoe-west-1", "cloud.adc-e.uk", `^eu\-isoe\-\w+\-\d+$`},
	{"aws-iso-f", "us-isof-south-1", "csp.hci.ic.gov", `^us\-isof\-\w+\-\d+$`},
	{"aws-us-gov", "us-gov-west-1", "amazonaws.com", `^us\-gov\-\w+\-\d+$`},
}

var awsRegions = sync.OnceValue(func() (of []*regexp.Regexp) {
	for _, p := range awsPartitions {
		of = append(of, regexp.MustCompile(p.region))
	}
	return of
})

// AWSPartitionOf returns the AWS partition of a region, by the region's name.
func AWSPartitionOf(region string) AWSPartition {
	i := slices.IndexFunc(awsRegions(), func(of *regexp.Regexp) bool { return of.MatchString(region) })
	return awsPartitions[max(i, 0)]
}

package capacity

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Regular expressions are compiled on first use. The submit filter starts at each submission that Lua does not
// decide, and compiling them all would take a tenth of its time.
//
// EC2 ids are a prefix and 8 or 17 hexadecimal digits; offering ids have other letters as well.
var (
	reservationID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^cr-[0-9a-f]{8,17}$`) })
	subnetID      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`) })
	offeringID    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^cb-[0-9A-Za-z]+$`) })
	instanceType  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9-]+$`) })
)

// IsReservationID reports whether the text can be the id of a capacity reservation.
func IsReservationID(text string) bool { return reservationID().MatchString(text) }

// IsSubnetID reports whether the text can be the id of a subnet.
func IsSubnetID(text string) bool { return subnetID().MatchString(text) }

// IsOfferingID reports whether the text can be the id of a Capacity Block offering.
func IsOfferingID(text string) bool { return offeringID().MatchString(text) }

// IsInstanceType reports whether the text can be an instance type, such as p5.48xlarge.
func IsInstanceType(text string) bool { return instanceType().MatchString(text) }

// AWSPartition is one of the isolated AWS clouds, each with its own credentials.
type AWSPartition struct {
	Name   string // in ARNs: aws, aws-cn
	Region string // home of the services without a region, and never far behind in features
	Domain string // of its endpoints and service principals
	region string // how the names of its regions begin
}

// awsPartitions comes from the AWS SDK: partitions.json of internal/endpoints/awsrulesfn. A region that begins like none
// of the others belongs to the last.
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
	return awsPartitions[slices.IndexFunc(awsPartitions, func(p AWSPartition) bool { return strings.HasPrefix(region, p.region) })]
}

// The tags that we write on everything we create. They are the only mark of ours: a thing without TagCluster, or with
// another cluster's mark, is not ours to change (R9).
const (
	// TagCluster is our mark. Its value is the PCS cluster's name, or a ClusterMark for self-managed Slurm.
	TagCluster = "pcs-capacity:cluster"
	// TagReservation is the id of the reservation behind a node group or an instance.
	TagReservation = "pcs-capacity:reservation"
	// TagPartition is the Slurm partition.
	TagPartition = "pcs-capacity:partition"
	// TagNodes is the sorted hostlist of one launch call; if it is longer than a tag, it continues in TagNodes-2,
	// TagNodes-3, … (see LaunchedNodes). An instance's node is the element at its ami-launch-index, so an instance
	// can learn its own name.
	TagNodes = "pcs-capacity:nodes"
	// TagNode is the Slurm node name of an instance that was launched alone.
	TagNode = "pcs-capacity:node"
	// TagJob is the id of the job for which something was created; several ids form a hostlist: "7,8_[1-3]".
	TagJob = "pcs-capacity:job"
	// TagHold is on every ODCR of ours and says what it is for: see HoldJobs.
	TagHold = "pcs-capacity:hold"
	// TagToken is the ClientToken of that ODCR, which finds it again if the answer to the order was lost.
	TagToken = "pcs-capacity:token"
	// TagPurchase is the intent id of a purchase, which finds a block or a future-dated ODCR again if the answer to the
	// purchase was lost.
	TagPurchase = "pcs-capacity:purchase"
	// TagOffering is the id of the offering that was bought as a block, or describes the future-dated ODCR that was
	// ordered; it tells another machine that the purchase has been made. TagFee is the price, such as "12345.67 USD".
	TagOffering = "pcs-capacity:offering"
	TagFee      = "pcs-capacity:fee"
	// TagName is the name that AWS's console shows.
	TagName = "Name"
)

// ClusterMark is the mark of a self-managed cluster: "linux/0123456789abcdef". Another cluster of the account may
// have the same ClusterName, so the id tells them apart.
func ClusterMark(clusterName, id string) string { return clusterName + "/" + id }

// CutClusterMark splits a ClusterMark. id is "" in the mark of a PCS cluster, and in the self-managed marks of older
// versions, which were the ClusterName alone.
func CutClusterMark(mark string) (clusterName, id string) {
	clusterName, id, _ = strings.Cut(mark, "/") // Slurm uses ClusterName as a directory name: it has no slash
	return clusterName, id
}

// MaxTagValue is EC2's limit for the value of a tag, in characters.
const MaxTagValue = 256

// NodesTags are the tags of a launch for the nodes of several hostlists, in order, each within MaxTagValue.
func NodesTags(hostlists []string) map[string]string {
	tags := map[string]string{}
	for i, list := range hostlists {
		tags[nodesTag(i)] = list
	}
	return tags
}

// LaunchedNodes is the hostlist that NodesTags has split; "" if there is none.
func LaunchedNodes(tags map[string]string) string {
	hostlist := tags[TagNodes]
	for i := 1; tags[nodesTag(i)] != ""; i++ {
		hostlist += "," + tags[nodesTag(i)]
	}
	return hostlist
}

func nodesTag(i int) string {
	if i == 0 {
		return TagNodes
	}
	return TagNodes + "-" + strconv.Itoa(i+1)
}

// families are the instance families that EC2 sells as Capacity Blocks, with what AWS documents of them and no API
// tells everybody. EC2 User Guide, "Capacity Blocks"; for pcs: AWS PCS User Guide, "Capacity Blocks".
type family struct {
	name         string
	ultraServers bool // the family exists in UltraServers only
	pcs          bool // PCS documents Capacity Blocks of the family
}

var families = []family{
	{name: "p6-b300", pcs: true},
	{name: "p6-b200", pcs: true},
	{name: "p5en", pcs: true},
	{name: "p5e", pcs: true},
	{name: "p5", pcs: true},
	{name: "p4d", pcs: true},
	{name: "p4de"},
	{name: "trn1"},
	{name: "trn2"},
	{name: "trn2u", ultraServers: true},
	{name: "p6e-gb200", ultraServers: true},
	{name: "p6e-gb300", ultraServers: true},
}

// OnlyInUltraServers reports whether an instance type exists in UltraServers only. known is false for a family that
// is new: EC2 has to say what a block of it is.
func OnlyInUltraServers(instanceType string) (only, known bool) {
	name, _, _ := strings.Cut(instanceType, ".")
	if i := slices.IndexFunc(families, func(f family) bool { return f.name == name }); i >= 0 {
		return families[i].ultraServers, true
	}
	return false, false
}

// FamiliesOfPCS are the families that PCS documents for Capacity Blocks. Others have been seen to work.
func FamiliesOfPCS() []string {
	return list(families, func(f family) (string, bool) { return f.name, f.pcs })
}

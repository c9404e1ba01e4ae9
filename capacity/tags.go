package capacity

import (
	"strconv"
	"strings"
)

// The tags that we write on what we create, and the only mark by which we know it
// again: whatever lacks TagCluster with our cluster's mark is not ours to change (R9).
const (
	// TagCluster is our mark. Its value is the PCS cluster's name, or a ClusterMark for
	// self-managed Slurm.
	TagCluster = "pcs-capacity:cluster"
	// TagReservation is the id of the reservation behind a node group or an instance.
	TagReservation = "pcs-capacity:reservation"
	// TagPartition is the Slurm partition.
	TagPartition = "pcs-capacity:partition"
	// TagNodes is the sorted hostlist of one launch call, which goes on in TagNodes-2,
	// TagNodes-3, … where it is longer than a tag: see LaunchedNodes. The node of an instance
	// is the element at its ami-launch-index, so an instance can learn its own name.
	TagNodes = "pcs-capacity:nodes"
	// TagNode is the Slurm node name of an instance that was launched alone.
	TagNode = "pcs-capacity:node"
	// TagChange is on the launch template by which one host at a time changes the set-up of a PCS
	// cluster: owner, process and host.
	TagChange = "pcs-capacity:change"
	// TagJob is the id of the job that something was made for, or of several as a hostlist has
	// them: "7,8_[1-3]".
	TagJob = "pcs-capacity:job"
	// TagHold is on every On-Demand Capacity Reservation that we make, and says for what: see
	// HoldJobs.
	TagHold = "pcs-capacity:hold"
	// TagToken is the ClientToken of that reservation, by which it is found again when the answer
	// to its order was lost.
	TagToken = "pcs-capacity:token"
	// TagPurchase is the intent id of a purchase, by which a block, or an ODCR for later, is found again
	// when the answer to the purchase was lost.
	TagPurchase = "pcs-capacity:purchase"
	// TagOffering is the id of the offering under which a block was ordered, or what ODCR for
	// later was, by which another machine knows that it is bought already; TagFee is what it cost, such as "12345.67 USD".
	TagOffering = "pcs-capacity:offering"
	TagFee      = "pcs-capacity:fee"
	// TagName is the name that AWS's console shows.
	TagName = "Name"
)

// ClusterMark is the mark of a cluster of self-managed Slurm: "linux/0123456789abcdef".
// Another cluster of the account may have the same ClusterName, so the id tells them apart.
func ClusterMark(clusterName, id string) string { return clusterName + "/" + id }

// CutClusterMark takes a ClusterMark apart. id is "" in the mark of a PCS cluster, and in
// what older versions wrote for self-managed Slurm: ClusterName alone.
func CutClusterMark(mark string) (clusterName, id string) {
	clusterName, id, _ = strings.Cut(mark, "/") // ClusterName is a folder's name to Slurm: no slash
	return clusterName, id
}

// MaxTagValue is EC2's limit for the value of a tag, in characters.
const MaxTagValue = 256

// NodesTags are the tags of a launch for the nodes of several hostlists, in order, each
// short enough for the value of a tag.
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

package capacity

import (
	"strconv"
)

// The tags that we write on everything we create. They are the only mark of ours: a thing without TagCluster, or with
// another cluster's mark, is not ours to change (R9).
const (
	// TagCluster is our mark. Its value is the PCS cluster's name, or a ClusterMark for self-managed Slurm.
	TagCluster = "pcs-capacity:cluster"
	// TagReservation is the id of the reservation behind a node group or an instance.
	TagReservation = "pcs-capacity:reservation"
	// TagPartition is the Slurm partition.
	TagPartition = "pcs-capacity:partition"
	// TagNodeGroup is the compute node group of PCS that launches into an ODCR of ours.
	TagNodeGroup = "pcs-capacity:node-group"
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
	// TagPurchase is the intent id of a purchase, which finds the block again if the answer to the purchase was lost.
	TagPurchase = "pcs-capacity:purchase"
	// TagOffering is the id of the offering that was bought. It shows another machine that the purchase has been made.
	TagOffering = "pcs-capacity:offering"
	// TagFee is the price of the block, such as "12345.67 USD".
	TagFee = "pcs-capacity:fee"
	// TagName is the name that AWS's console shows.
	TagName = "Name"
)

// ClusterMark returns the mark of a self-managed cluster: "linux/0123456789abcdef". Another cluster of the account may
// have the same ClusterName, so the id tells them apart. Slurm uses ClusterName as a directory name: it has no slash.
func ClusterMark(clusterName, id string) string { return clusterName + "/" + id }

// TemplateName returns the name of the launch template that setup writes for a slot of a cluster.
func TemplateName(cluster, slot string) string { return "pcs-capacity-" + cluster + "-" + slot }

// MaxTagValue is EC2's limit for the value of a tag, in characters.
const MaxTagValue = 256

// NodesTags returns the tags of a launch for the nodes of several hostlists, in order, each within MaxTagValue.
func NodesTags(hostlists []string) map[string]string {
	tags := map[string]string{}
	for i, list := range hostlists {
		tags[nodesTag(i)] = list
	}

	return tags
}

// LaunchedNodes returns the hostlist that NodesTags has split; "" if there is none.
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

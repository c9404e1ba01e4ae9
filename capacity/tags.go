package capacity

// The tags that we write on what we create, and the only mark by which we know it
// again: whatever lacks TagCluster with our cluster's name is not ours to change (R9).
const (
	// TagCluster is our mark. Its value is the PCS cluster's name, or Slurm's
	// ClusterName for self-managed Slurm.
	TagCluster = "pcs-capacity:cluster"
	// TagReservation is the id of the reservation behind a node group or an instance.
	TagReservation = "pcs-capacity:reservation"
	// TagPartition is the Slurm partition.
	TagPartition = "pcs-capacity:partition"
	// TagNodes is the sorted hostlist of one launch call. The node of an instance is
	// the element at its ami-launch-index, so an instance can learn its own name.
	TagNodes = "pcs-capacity:nodes"
	// TagNode is the Slurm node name of one instance. It follows the launch.
	TagNode = "pcs-capacity:node"
	// TagLaunch is the ClientToken of the launch call, by which the call is known again
	// when its program was killed before it could use the answer.
	TagLaunch = "pcs-capacity:launch"
	// TagJob is the id of the job that something was made for.
	TagJob = "pcs-capacity:job"
	// TagPurchase is the intent id of a purchase, by which a block is found again
	// when the answer to the purchase was lost.
	TagPurchase = "pcs-capacity:purchase"
	// TagOffering is the id of the offering under which a block was ordered, by which
	// another machine knows that it is bought already; TagFee is what it cost, such as "12345.67 USD".
	TagOffering = "pcs-capacity:offering"
	TagFee      = "pcs-capacity:fee"
	// TagName is the name that AWS's console shows.
	TagName = "Name"
)

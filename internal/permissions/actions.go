package permissions

import (
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func like(key string, values ...string) Condition {
	return Condition{"StringLike": {key: values}}
}

var (
	// The mark of a PCS cluster, and of Slurm that one runs oneself.
	has   = like("aws:ResourceTag/"+capacity.TagCluster, ofCluster, capacity.ClusterMark(ofCluster, "*"))
	gives = like("aws:RequestTag/"+capacity.TagCluster, ofCluster, capacity.ClusterMark(ofCluster, "*"))

	// roles are given to instances, by EC2 alone, whose second name is that of the AWS partition.
	roles = like("iam:PassedToService", "ec2.amazonaws.com", "ec2."+ofDomain)
)

// Where actions are granted. A PCS cluster is not of our making, what we make in it is:
// PCS asks for both. Ids of clusters are pcs_ and ten characters.
var (
	anywhere = scope{sid: "Anywhere"}

	inClusters = scope{"InClusters", []string{"pcs:*:*:cluster/*"}, nil}
	clusters   = scope{"OfClusters", []string{"pcs:*:*:cluster/pcs_??????????"}, nil}
	ourParts   = scope{"OurParts", []string{"pcs:*:*:cluster/*/computenodegroup/*", "pcs:*:*:cluster/*/queue/*"}, has}
	newParts   = scope{"NewParts", []string{"pcs:*:*:cluster/*"}, gives}

	ourTemplates = scope{"OurTemplates", []string{"ec2:*:*:launch-template/*"}, has}
	newTemplates = scope{"NewTemplates", []string{"ec2:*:*:launch-template/*"}, gives}

	tagsOfTemplates = scope{"TagsOfTemplates", []string{"ec2:*:*:launch-template/*"}, like("ec2:CreateAction", "CreateLaunchTemplate")}

	ourInstances = scope{"OurInstances", []string{"ec2:*:*:instance/*"}, has}
	newInstances = scope{"NewInstances", []string{"ec2:*:*:instance/*"}, gives}
	ourHolds     = scope{"OurHolds", []string{"ec2:*:*:capacity-reservation/*"}, has}
	newHolds     = scope{"NewHolds", []string{"ec2:*:*:capacity-reservation/*"}, gives}
	tagsOfHolds  = scope{"TagsOfHolds", []string{"ec2:*:*:capacity-reservation/*"}, like("ec2:CreateAction", "CreateCapacityReservation")}
	launchedFrom = scope{"LaunchedFrom", []string{"ec2:*:*:volume/*", "ec2:*:*:network-interface/*", "ec2:*:*:subnet/*", "ec2:*:*:security-group/*",
		"ec2:*::image/*", "ec2:*::snapshot/*", "ec2:*:*:launch-template/*", "ec2:*:*:key-pair/*", "ec2:*:*:placement-group/*"}, nil}
	listed         = scope{"Listed", []string{"ec2:*:*:capacity-reservation/" + ofReservation}, nil}
	selected       = scope{"Selected", []string{"ec2:*:*:capacity-reservation/*"}, Condition{"StringEquals": {"aws:ResourceTag/" + ofTag: {ofValue}}}}
	tagsOfLaunches = scope{"TagsOfLaunches", []string{"ec2:*:*:*/*"}, like("ec2:CreateAction", "RunInstances")}
	tagsOfBlocks   = scope{"TagsOfBlocks", []string{"ec2:*:*:capacity-reservation/*"}, like("ec2:CreateAction", "PurchaseCapacityBlock")}

	callers  = scope{"Callers", []string{"iam::*:role/*", "iam::*:user/*"}, nil}
	profiles = scope{"Profiles", []string{"iam::*:instance-profile/*"}, nil}
	pcsRoles = scope{"RolesOfPCS", []string{"iam::*:role/AWSPCS*", "iam::*:role/aws-pcs/*"}, roles}
	ec2Roles = scope{"RolesOfNodes", []string{"iam::*:role/" + ofNodes}, roles}

	publicImages = scope{"PublicImages", []string{"ssm:*::parameter/aws/service/pcs/ami/*"}, nil}
	images       = scope{"Images", []string{"ssm:*:*:parameter/*"}, nil}
)

// makesGroups are the programs that have PCS make or change compute node groups, for
// which PCS asks a number of actions of its caller: AWS PCS User Guide, "Minimum
// permissions for AWS PCS", which grants them on everything.
var makesGroups = programs{Setup, ResumePCS}

// asksPCS are makesGroups, and who goes on without one.
var asksPCS = append(slices.Clone(makesGroups), RollingOver)

const forPCS = "PCS requires it"

// Actions are all that any program asks for, by service and name.
var Actions = []Action{
	{Name: "ec2:CancelCapacityReservation", Why: "giving back what is held", stops: programs{Holding, Reserve, Release, Check}, lessens: programs{Sync},
		grants: []grant{{nil, ourHolds}}},
	{Name: "ec2:CreateCapacityReservation", Why: "holding capacity", stops: programs{Holding, Reserve},
		grants: []grant{{nil, newHolds}}},
	{Name: "ec2:CreateFleet", Why: forPCS, lessens: programs{RollingOver}, stops: makesGroups},
	{Name: "ec2:CreateLaunchTemplate", Why: "the launch template of a node group", stops: programs{Setup}, lessens: programs{RollingOver},
		grants: []grant{{nil, newTemplates}}},
	{Name: "ec2:CreateLaunchTemplateVersion", Why: "a change of the launch template", stops: programs{Setup, ResumePCS}, lessens: programs{RollingOver},
		grants: []grant{{nil, ourTemplates}}},
	{Name: "ec2:CreateTags", Why: "our tag on what is made, with the nodes' names on instances; " + forPCS, lessens: programs{RollingOver},
		stops:  programs{Purchase, Reserve, Setup, Teardown, Resume, Holding, ResumePCS, Check},
		grants: []grant{{asksPCS, anywhere}, {programs{Teardown}, ourTemplates}, {programs{Teardown}, tagsOfTemplates}, {programs{Resume, Holding, Check}, tagsOfLaunches}, {programs{Purchase}, tagsOfBlocks}, {programs{Holding, Reserve}, tagsOfHolds}}},
	{Name: "ec2:DeleteLaunchTemplate", Why: "removing the launch template", stops: programs{Teardown},
		grants: []grant{{nil, ourTemplates}}},
	{Name: "ec2:DescribeAvailabilityZones", Why: "the zones of offerings", stops: programs{Offerings, Purchase}, lessens: programs{Fit}},
	{Name: "ec2:DescribeCapacityBlockExtensionHistory", Why: "extensions, and whether one was bought", stops: programs{Timeline, Extend}},
	{Name: "ec2:DescribeCapacityBlockExtensionOfferings", Why: "what an extension costs", stops: programs{Extend}},
	{Name: "ec2:DescribeCapacityBlockOfferings", Why: "what is for sale", stops: programs{Offerings, Purchase}, lessens: programs{Fit}},
	{Name: "ec2:DescribeCapacityBlockStatus", Why: "how many hosts of a block have failed",
		stops: programs{Setup, ResumePCS, Check}, lessens: programs{Fit, Timeline, Purchase, Extend, Teardown, Status, Sync, Resume, Holding, Wire}},
	{Name: "ec2:DescribeCapacityBlocks", Why: "which blocks are UltraServers",
		stops: programs{Setup, ResumePCS, Check}, lessens: programs{Fit, Timeline, Purchase, Extend, Teardown, Status, Sync, Resume, Holding, Wire}},
	{Name: "ec2:DescribeCapacityReservationTopology", Why: "where reservations are in the network", stops: programs{Topology}},
	{Name: "ec2:DescribeCapacityReservations", Why: "reservations: where, how many, from when to when",
		stops: programs{List, Fit, Timeline, Purchase, Extend, Reserve, Release, Setup, Resume, Holding, ResumePCS, Wire, Check}, lessens: programs{Teardown, Status, Sync}},
	{Name: "ec2:DescribeImages", Why: "whether the image exists and suits the type; what it runs", stops: programs{Setup, Check}, lessens: programs{Status, Sync, Holding, RollingOver}},
	{Name: "ec2:DescribeInstanceTopology", Why: "where instances are in the network", stops: programs{HostFile}},
	{Name: "ec2:DescribeInstanceTypeOfferings", Why: forPCS, lessens: programs{RollingOver}, stops: makesGroups},
	{Name: "ec2:DescribeInstanceTypes", Why: "GPUs, network cards, and which types have blocks", lessens: programs{Offerings, Fit, Check, RollingOver}, stops: append(slices.Clone(makesGroups), Wire)},
	{Name: "ec2:DescribeInstances", Why: "which instances a node, node group or reservation has", stops: programs{Setup, Teardown, Resume, Holding, Suspend, ResumePCS, Check, HostFile, Release}, lessens: programs{Status, Sync, RollingOver}},
	{Name: "ec2:DescribeKeyPairs", Why: "whether the template's key pair exists", stops: programs{Setup}, lessens: programs{RollingOver}},
	{Name: "ec2:DescribeLaunchTemplateVersions", Why: "the template to copy or to launch from", stops: programs{Setup, Teardown, ResumePCS, Check}, lessens: programs{Status, Sync, Resume, Holding, Wire, RollingOver}},
	{Name: "ec2:DescribeLaunchTemplates", Why: "the templates of node groups, and those that no settings name", lessens: programs{Sync, RollingOver}, stops: programs{Setup, Teardown, ResumePCS, Check}},
	{Name: "ec2:DescribePlacementGroups", Why: "whether the placement group of an ODCR exists", stops: programs{Setup}},
	{Name: "ec2:DescribeRegions", Why: "the regions of --regions all", stops: programs{List, Offerings, Fit}},
	{Name: "ec2:DescribeRouteTables", Why: "whether nodes have a way to AWS", lessens: programs{Setup, Check}},
	{Name: "ec2:DescribeSecurityGroups", Why: "whether the security groups are in the cluster's VPC, and what their rules let through", lessens: programs{RollingOver, Check}, stops: makesGroups},
	{Name: "ec2:DescribeSubnets", Why: "the zones that the cluster can use", lessens: programs{List, Offerings, Fit, Teardown, Status, Sync, RollingOver}, stops: programs{Purchase, Reserve, Setup, Resume, Holding, ResumePCS, Check}},
	{Name: "ec2:DescribeVpcEndpoints", Why: "whether nodes reach PCS where no route leads out of their VPC", lessens: programs{Setup, Check}},
	{Name: "ec2:DescribeVpcs", Why: forPCS, lessens: programs{RollingOver}, stops: makesGroups},
	{Name: "ec2:GetInstanceMetadataDefaults", Why: "whether instance metadata shows tags, for which EC2 refuses some tag keys", lessens: programs{Setup, Check}},
	{Name: "ec2:PurchaseCapacityBlock", Why: "buying a block", stops: programs{Purchase}},
	{Name: "ec2:PurchaseCapacityBlockExtension", Why: "buying an extension", stops: programs{Extend}},
	{Name: "ec2:RunInstances", Why: "launching nodes; " + forPCS, lessens: programs{RollingOver}, stops: programs{Setup, Resume, Holding, ResumePCS, Check},
		grants: []grant{{asksPCS, anywhere}, {programs{Resume, Holding, Check}, newInstances}, {programs{Resume, Holding, Check}, launchedFrom},
			{programs{Resume, Holding, Check}, listed}, {programs{Resume, Holding, Check}, selected}, {programs{Holding}, ourHolds}}},
	{Name: "ec2:TerminateInstances", Why: "ending the instances of nodes that are powered down, or go", stops: programs{Teardown, Suspend, Check, Release}, lessens: programs{Sync},
		grants: []grant{{nil, ourInstances}}},

	{Name: "iam:GetInstanceProfile", Why: "whether PCS takes the role of the instance profile; " + forPCS, lessens: programs{RollingOver, Check}, stops: makesGroups,
		grants: []grant{{nil, profiles}}},
	{Name: "iam:PassRole", Why: "giving nodes the role of their instance profile", lessens: programs{RollingOver}, stops: programs{Setup, Resume, Holding, ResumePCS, Check},
		grants: []grant{{asksPCS, pcsRoles}, {programs{Resume, Holding, Check}, ec2Roles}}},
	{Name: "iam:SimulatePrincipalPolicy", Why: "what the policies of the caller allow where no dry run tells, and whether the role of nodes may join a PCS cluster", lessens: programs{Check, Setup},
		grants: []grant{{nil, callers}}},

	{Name: "pcs:CreateComputeNodeGroup", Why: "the node group of a reservation", lessens: programs{RollingOver}, stops: programs{Setup},
		grants: []grant{{nil, newParts}}},
	{Name: "pcs:CreateQueue", Why: "the queue", stops: programs{Setup},
		grants: []grant{{nil, newParts}}},
	{Name: "pcs:DeleteComputeNodeGroup", Why: "removing a node group, also one that PCS could not create", lessens: programs{RollingOver}, stops: programs{Setup, Teardown},
		grants: []grant{{nil, clusters}, {nil, ourParts}}},
	{Name: "pcs:DeleteQueue", Why: "removing the queue", stops: programs{Teardown},
		grants: []grant{{nil, clusters}, {nil, ourParts}}},
	{Name: "pcs:GetCluster", Why: "the subnets and the version of the cluster that the settings name", lessens: programs{List, Offerings, Fit, Status, Sync, RollingOver}, stops: programs{Purchase, Setup, Teardown, ResumePCS, Wire, Check, HostFile},
		grants: []grant{{nil, inClusters}}},
	{Name: "pcs:GetComputeNodeGroup", Why: "what node groups there are, and what their nodes run at their boot", stops: programs{Setup, Teardown, ResumePCS, Wire, Check}, lessens: programs{Sync, RollingOver},
		grants: []grant{{nil, inClusters}}},
	{Name: "pcs:GetQueue", Why: "what queues there are", stops: programs{Setup, Teardown, Wire}, lessens: programs{RollingOver},
		grants: []grant{{nil, inClusters}}},
	{Name: "pcs:ListClusters", Why: "names of clusters to choose from", lessens: programs{Setup}},
	{Name: "pcs:ListComputeNodeGroups", Why: "what node groups there are", stops: programs{Setup, Teardown, ResumePCS, Wire, Check}, lessens: programs{Status, Sync, RollingOver},
		grants: []grant{{nil, inClusters}}},
	{Name: "pcs:ListQueues", Why: "what queues there are, and which no settings name", stops: programs{Setup, Teardown, Wire, Check}, lessens: programs{Sync, RollingOver},
		grants: []grant{{nil, inClusters}}},
	{Name: "pcs:ListTagsForResource", Why: "what is ours, and for which reservation", stops: programs{Setup, Teardown, ResumePCS, Wire, Check}, lessens: programs{Status, Sync, RollingOver},
		grants: []grant{{nil, inClusters}}},
	{Name: "pcs:TagResource", Why: "our tag on node groups and queues", lessens: programs{RollingOver}, stops: programs{Setup, Teardown},
		grants: []grant{{programs{Setup, RollingOver}, newParts}, {nil, ourParts}}},
	{Name: "pcs:UpdateCluster", Why: "the setting that switches cli_filter.lua on", stops: programs{Wire},
		grants: []grant{{nil, clusters}}},
	{Name: "pcs:UpdateComputeNodeGroup", Why: "reservation, size and template of a node group", stops: programs{Setup, ResumePCS}, lessens: programs{RollingOver},
		grants: []grant{{nil, clusters}, {nil, ourParts}}},
	{Name: "pcs:UpdateQueue", Why: "which node groups are in a queue", stops: programs{Setup, Teardown}, lessens: programs{RollingOver},
		grants: []grant{{nil, clusters}, {nil, ourParts}}},

	{Name: "resource-groups:ListGroupResources", Why: "the reservations of a resource group that the settings select",
		stops: programs{Setup, Resume, Holding, ResumePCS, Wire, Check}, lessens: programs{Status, Sync}},

	{Name: "ssm:GetParameter", Why: "the image that PCS publishes for GPUs, where `--ami pcs-dlami` asks for it", stops: programs{Setup},
		grants: []grant{{nil, publicImages}}},
	{Name: "ssm:GetParameters", Why: "an image that the launch template names as resolve:ssm:…", stops: programs{Resume, Holding, Check}, lessens: programs{Status, Sync},
		grants: []grant{{nil, images}}},
}

package capacity

// The codes of problems, beyond those of verdicts.
const (
	AWSUnanswered        Code = "aws-unanswered"
	SlurmUnanswered      Code = "slurm-unanswered"
	AccountingUnanswered Code = "accounting-unanswered"
	ReservationMissing   Code = "reservation-missing"
	ReservationUnnamed   Code = "reservation-unnamed"
	ReservationEnded     Code = "reservation-ended"
	NeverOpens           Code = "never-opens"
	SubnetNotKnown       Code = "subnet-not-known"
	SlotsNotKnown        Code = "slots-not-known"
	FenceNotKnown        Code = "fence-not-known"
	InstancesNotKnown    Code = "instances-not-known"
	HeldNotKnown         Code = "held-not-known"
	LeftoversNotKnown    Code = "leftovers-not-known"
	LeftoverMade         Code = "leftover"
	NoNodeGroup          Code = "no-node-group"
	RollOverDue          Code = "roll-over-due"
	RollOverFailed       Code = "roll-over-failed"
	SlotTaken            Code = "slot-taken"
	OtherOwner           Code = "other-owner"
	OlderVersion         Code = "older-version"
	NameTaken            Code = "name-taken"
	NoPartition          Code = "no-partition"
	NoNodes              Code = "no-nodes"
	NodesLost            Code = "nodes-lost"
	OutOfService         Code = "nodes-out"
	NodesUnused          Code = "nodes-unused"
	FeatureMissing       Code = "feature-missing"
	AllowAccounts        Code = "allow-accounts"
	AllowGroups          Code = "allow-groups"
	AccountsUnchecked    Code = "accounts-unchecked"
	WrongZone            Code = "az"
	WrongType            Code = "instance-type"
	WrongPlatform        Code = "platform"
	WrongPurchase        Code = "purchase-option"
	WrongTenancy         Code = "tenancy"
	OrphanFound          Code = "orphan"
	ForeignMark          Code = "foreign-mark"
	WrongInstance        Code = "wrong-instance"
	HostFailed           Code = "host-failed"
	HealthUnknown        Code = "health-unknown"
	HealthFailed         Code = "health-failed"
	HealthUnanswered     Code = "health-unanswered"
	LaunchFailed         Code = "launch-failed"
	NeverStarts          Code = "never-starts"
	LimitKept            Code = "limit-kept"
	ChangeFailed         Code = "change-failed"
	StateFile            Code = "state-file"
	AnotherRuns          Code = "another-runs"
	AnotherWatches       Code = "another-watches"
	SettingsBroken       Code = "settings-broken"
	HeartbeatLost        Code = "heartbeat-lost"
	DeliveryFailed       Code = "delivery-failed"
)

// Meaning is a code with who has to act on it and a line that says what it means.
type Meaning struct {
	Code     Code
	Severity Severity
	Text     string
}

// Codes are the codes of problems.
var Codes = []Meaning{
	{AWSUnanswered, Admin, "AWS did not answer a question, or refused it; what was known before is kept."},
	{SlurmUnanswered, Admin, "Slurm did not answer; fences, time limits and holds are as they were."},
	{AccountingUnanswered, Admin, "Slurm did not say what accounting limits; what was known before is kept, and no limit is raised past it."},
	{ReservationMissing, Admin, "EC2 leaves out a reservation that was live; it is kept for an hour."},
	{ReservationNotKnown, Admin, "EC2 does not describe a reservation of the settings."},
	{ReservationUnnamed, Admin, "The settings no longer name a live reservation; its fence stays."},
	{ReservationEnded, Note, "Reservations of the settings have ended."},
	{NeverOpens, Admin, "Reservations of the settings were not paid, or EC2 could not make them."},
	{SubnetNotKnown, Admin, "EC2 does not describe a subnet of the settings."},
	{SlotsNotKnown, Admin, "AWS did not say which slot has which reservation."},
	{FenceNotKnown, Admin, "EC2 did not describe a reservation that only a fence names; the fence stays."},
	{InstancesNotKnown, Admin, "AWS did not list the instances of the cluster, so none is ended."},
	{HeldNotKnown, Admin, "EC2 did not list the ODCRs that are held for jobs, so none is given back."},
	{LeftoversNotKnown, Note, "AWS did not list what setup has made."},
	{LeftoverMade, Admin, "A thing of setup in AWS is in no settings."},
	{NoNodeGroup, Admin, "The next block is in the settings, but has no compute node group."},
	{RollOverDue, Note, "The next block has no compute node group yet; the next pass makes it."},
	{RollOverFailed, Admin, "sync could not set up the next block, or remove the slot of an ended one."},
	{SlotTaken, Admin, "A reservation waits because another one has its slot."},
	{OtherOwner, Admin, "The cluster belongs to other settings, so nothing is changed."},
	{OlderVersion, Admin, "A Slurm reservation of an older version guards a slot that the settings do not have."},
	{NameTaken, Admin, "A Slurm reservation that is not ours has one of our names."},
	{NoPartition, Admin, "Slurm has no such partition."},
	{NoNodes, Admin, "Slurm has no nodes for a node group."},
	{NodesLost, Admin, "Slurm no longer shows nodes of a partition."},
	{OutOfService, Admin, "Slurm gives no job to nodes of an open reservation."},
	{NodesUnused, Note, "max_nodes keeps jobs off nodes of a compute node group."},
	{FeatureMissing, Admin, "Nodes of two slots lack the feature of their slot."},
	{AllowAccounts, Admin, "Slurm's AllowAccounts is not the allow_accounts of the partition."},
	{AllowGroups, Admin, "Slurm's AllowGroups is not the allow_groups of the partition."},
	{AccountsUnchecked, Admin, "Slurm does not check the accounts that users write, so allow_accounts has no effect."},
	{WrongZone, Admin, "A node group has no subnet in the Availability Zone of its reservation."},
	{WrongType, Admin, "A node group launches other instance types than its reservation has."},
	{WrongPlatform, Admin, "The image of a node group has another platform than its reservation."},
	{WrongPurchase, Admin, "A node group does not buy the kind of its reservation."},
	{WrongTenancy, Admin, "A reservation has another tenancy than nodes are launched with."},
	{OrphanFound, Note, "Instances that no node stands for hold places; sync ends them."},
	{ForeignMark, Admin, "Instances carry another cluster's mark, or an old one of this cluster."},
	{WrongInstance, Admin, "The instance of a node differs from the reservation of its slot."},
	{HostFailed, Admin, "Hosts of a reservation have failed."},
	{HealthUnknown, Admin, "A node gets jobs, and the health command has not said that it is healthy."},
	{HealthFailed, Admin, "A node has failed the health command and is drained."},
	{HealthUnanswered, Admin, "Slurm did not say what the health command found."},
	{LaunchFailed, Admin, "The last launch of nodes failed."},
	{NeverStarts, User, "A waiting job can never start as it is."},
	{LimitKept, Note, "Accounting keeps time limits of running jobs below the time to the fence."},
	{ChangeFailed, Admin, "A change failed; the next pass tries it again."},
	{StateFile, Admin, "A file in state_dir cannot be read or written."},
	{AnotherRuns, Admin, "Another program has a lock in state_dir."},
	{AnotherWatches, Admin, "Two services work with one state_dir."},
	{SettingsBroken, Admin, "The settings have an error; those of before stay in use."},
	{HeartbeatLost, Admin, "sync has not asked AWS with success for a while."},
	{DeliveryFailed, Admin, "Metrics or notices were not delivered."},
}

// Severity says who has to act on a problem with this code; of an unknown one, an administrator.
func (c Code) Severity() Severity {
	for _, m := range Codes {
		if m.Code == c {
			return m.Severity
		}
	}
	return Admin
}

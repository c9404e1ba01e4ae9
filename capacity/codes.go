package capacity

// Code is stable, for scripts, records and tests. It names the result of a job, a launch, a pass or a setup; Codes
// explains each.
type Code string

// Verdicts about a job.
const (
	OK                  Code = "ok"
	NotManaged          Code = "not-managed"
	BadComment          Code = "bad-comment"
	AccountNotAllowed   Code = "account-not-allowed"
	GroupNotAllowed     Code = "group-not-allowed"
	WrongPartition      Code = "wrong-partition"
	UnknownReservation  Code = "unknown-reservation"
	NoMatchingCapacity  Code = "no-matching-capacity"
	CannotHold          Code = "cannot-hold"
	NoReservation       Code = "no-reservation"
	ReservationNotKnown Code = "reservation-not-known"
	NotOpen             Code = "not-open"
	NoPlace             Code = "no-place"
	TooManyNodes        Code = "too-many-nodes"
	NodesNotUsable      Code = "nodes-not-usable"
	TooLong             Code = "too-long"
	Mismatched          Code = "mismatch"
)

// Launches that failed.
const (
	DifferentReservations Code = "different-reservations"
	JobGone               Code = "job-gone"
	NoTime                Code = "interrupted"
	SharedWithRefused     Code = "shared-with-refused"
	NoCommonZone          Code = "no-common-zone"
	NotBooted             Code = "not-booted"
	ReserveLimit          Code = "reserve-limit"
	FailedOtherwise       Code = "failed"
)

// Problems that a pass of sync, or status, finds.
const (
	AWSUnanswered        Code = "aws-unanswered"
	SlurmUnanswered      Code = "slurm-unanswered"
	SlurmUnread          Code = "slurm-unread"
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
	NameTaken            Code = "name-taken"
	NoPartition          Code = "no-partition"
	NoNodes              Code = "no-nodes"
	NodesLost            Code = "nodes-lost"
	OutOfService         Code = "nodes-out"
	NodesUnused          Code = "nodes-unused"
	NoLimitEnds          Code = "no-limit-ends"
	FeatureMissing       Code = "feature-missing"
	FenceActedOn         Code = "fence-acted-on"
	AllowAccounts        Code = "allow-accounts"
	AccountsUnchecked    Code = "accounts-unchecked"
	AllowGroups          Code = "allow-groups"
	OrphanFound          Code = "orphan"
	ForeignMark          Code = "foreign-mark"
	WrongInstance        Code = "wrong-instance"
	HostFailed           Code = "host-failed"
	LaunchFailed         Code = "launch-failed"
	NeverStarts          Code = "never-starts"
	ChangeFailed         Code = "change-failed"
	StateFile            Code = "state-file"
	AnotherRuns          Code = "another-runs"
	SettingsBroken       Code = "settings-broken"
	HeartbeatLost        Code = "heartbeat-lost"
	DeliveryFailed       Code = "delivery-failed"
)

// Events that notices report.
const (
	HasOpened     Code = "opened"
	HasClosed     Code = "closed"
	FenceNear     Code = "fence-near"
	PaymentFailed Code = "payment-failed"
	NodesIdle     Code = "idle"
	NoSuccessor   Code = "no-successor"
	IsSetUp       Code = "set-up"
	IsTest        Code = "test"
)

// Reasons why a reservation does not fit a node group, or setup and teardown cannot go on.
const (
	WrongZone          Code = "az"
	ZoneNotKnown       Code = "az-unknown"
	WrongType          Code = "instance-type"
	WrongPlatform      Code = "platform"
	WrongPurchase      Code = "purchase-option"
	WrongTenancy       Code = "tenancy"
	WrongSize          Code = "size"
	NoInstances        Code = "no-instances"
	HasEnded           Code = "expired"
	PaymentPending     Code = "payment-pending"
	WrongState         Code = "state"
	ReservationUnknown Code = "reservation-unknown"
	ReservationInUse   Code = "reservation-in-use"
	NoCluster          Code = "cluster"
	ClusterStatus      Code = "cluster-status"
	SlurmTooOld        Code = "slurm-version"
	BadName            Code = "name"
	NotOurs            Code = "not-ours"
	OtherQueue         Code = "other-queue"
	SlotsTaken         Code = "slots-taken"
	NodesInUse         Code = "in-use"
	QuotaNodeGroups    Code = "quota-node-groups"
	QuotaQueues        Code = "quota-queues"
	ClusterSize        Code = "cluster-size"
	UnknownSettings    Code = "unknown-settings"
	LikeUnknown        Code = "like"
	BadUserData        Code = "user-data"
	BadImage           Code = "image"
	WrongArchitecture  Code = "architecture"
	NoDrivers          Code = "drivers"
	TagKey             Code = "tag-key"
	LaunchRefused      Code = "launch-refused"
	RootVolumeTooSmall Code = "root-volume"
	InstanceProfile    Code = "instance-profile"
	KeyPair            Code = "key-pair"
	PlacementGroup     Code = "placement-group"
	SecurityGroups     Code = "security-groups"
	RuleMissing        Code = "security-group-rule"
	NoWayOut           Code = "no-way-out"
	Protected          Code = "termination-protection"
	NoSubnets          Code = "subnets"
	SubnetUnknown      Code = "subnet-unknown"
	SubnetVPC          Code = "subnet-vpc"
	Addresses          Code = "addresses"
	TypeWithoutEFA     Code = "efa"
	ConfServer         Code = "conf-server"
	WrongProvider      Code = "provider"
	NotSelected        Code = "select"
	BadSettings        Code = "settings"
	ConfigFile         Code = "config-file"
	ConfigCluster      Code = "config-cluster"
	ConfigRegion       Code = "config-region"
	PartitionFile      Code = "partition-file"
	NodeGroupName      Code = "node-group-name"
	ConfigFolder       Code = "config-folder"
	StateDir           Code = "state-dir"
	SlurmRights        Code = "slurm-rights"
	SlurmctldSilent    Code = "slurmctld"
	FilterMissing      Code = "filter"
	ScriptMissing      Code = "cli_filter"
	SlurmSilent        Code = "slurm"
	NodesHaveInstances Code = "instances"
	JobsRun            Code = "jobs-run"
)

// Where is a bit set of the places where a code appears.
type Where int

// The places.
const (
	AtSubmission Where = 1 << iota // the filter accepts or refuses a job
	AtLaunch                       // a launch is refused
	AtPass                         // sync and status show it
	AtSetup                        // setup, teardown or check shows it
	AsNotice                       // [notify] delivers it
)

// Meaning is the page of a code.
type Meaning struct {
	Code  Code
	Where Where
	// Severity says who has to act.
	Severity Severity
	// Text says what the code means, Do what to do about it. Example is a sentence with this code, "" if there is none.
	Text, Do, Example string
	// More is a section of docs/, "" for none.
	More string
	// Slurm is the Slurm error constant with which job_submit.lua refuses a job; "" if the filter never refuses with
	// this code.
	Slurm string
}

// WaitForPass is what to do about a question that the next pass of sync asks again.
const WaitForPass = "Wait for the next pass."

// Codes lists every code. The tables in docs/ and the pages of `pcs-capacity explain CODE` are made from it.
var Codes = []Meaning{
	{Code: OK, Where: AtSubmission | AtLaunch, Severity: Note,
		Text: "The job fits, perhaps with a limit or a constraint that the filter chose.",
		Do:   "Nothing."},
	{Code: NotManaged, Where: AtSubmission, Severity: Note,
		Text: "No partition of the job is in the settings; the job goes through unchanged.",
		Do:   "Nothing. To have the partition managed, add it to the settings."},
	{Code: BadComment, Where: AtSubmission | AtLaunch, Severity: User,
		Text:    "A key in `--comment` has a value that cannot be right, or was written while the job runs.",
		Do:      "Write the key as the sentence says.",
		Example: `capacity="often" in --comment cannot be right; write capacity=reserve, capacity=reuse or capacity=any`,
		More:    "submitting-jobs.md#keys-in---comment", Slurm: "ERROR"},
	{Code: AccountNotAllowed, Where: AtSubmission | AtLaunch, Severity: User,
		Text:    "The account is not in `allow_accounts` of the partition.",
		Do:      "Submit with an `--account` that is. An administrator can add others there and to Slurm's AllowAccounts, or give the user an account with `sacctmgr add user`.",
		Example: `account "vision" may not use the reservations of partition gpu; allowed: nlp`,
		Slurm:   "ESLURM_INVALID_ACCOUNT"},
	{Code: GroupNotAllowed, Where: AtSubmission, Severity: User,
		Text:    "The user is in none of the Unix groups in `allow_groups` of the partition.",
		Do:      "Ask an administrator for membership, or use another partition.",
		Example: "only members of group nlp may use partition gpu, and you are in none of them; ask an administrator, or use another partition",
		Slurm:   "ERROR"},
	{Code: WrongPartition, Where: AtSubmission | AtLaunch, Severity: User,
		Text:    "The reservation that the job names belongs to another partition, or a job of several nodes names one whose nodes are in no block.",
		Do:      "Submit to the partition that the sentence names, or leave out the one that it names.",
		Example: "reservation cr-0 belongs to partition train, not to gpu; submit with --partition=train",
		Slurm:   "ERROR"},
	{Code: UnknownReservation, Where: AtSubmission | AtLaunch, Severity: User,
		Text:    "The partition has no such reservation.",
		Do:      "Name one that the sentence lists, or none.",
		Example: "partition gpu has no reservation cr-9; it has cr-0",
		Slurm:   "ERROR"},
	{Code: NoMatchingCapacity, Where: AtSubmission | AtLaunch, Severity: User,
		Text:    "Nothing in the partition has the instance type or the subnet that `--comment` names.",
		Do:      "Take that key out, or name a value that the sentence lists.",
		Example: "partition gpu has nothing that matches instance_type=p4d.24xlarge in --comment; it has cr-0 p5.48xlarge use2-az1",
		Slurm:   "ERROR"},
	{Code: CannotHold, Where: AtSubmission | AtLaunch, Severity: User,
		Text:    "The job has `capacity=reserve`, and nothing is held for jobs of its partition.",
		Do:      "Take that key out. An administrator can allow it.",
		Example: "partition gpu holds no capacity for jobs: [reserve] is off in the settings; leave capacity=reserve out",
		More:    "holding.md", Slurm: "ERROR"},
	{Code: NoReservation, Where: AtSubmission | AtLaunch, Severity: Admin,
		Text:    "All reservations of the partition have ended or failed.",
		Do:      "Buy or add the next reservation, and run `setup`.",
		Example: "no reservation of partition gpu is open or scheduled: jobs on cr-0 had to end by 2026-11-21 11:20 UTC; ask an administrator for the next block",
		Slurm:   "ERROR"},
	{Code: ReservationNotKnown, Where: AtSubmission | AtLaunch | AtPass, Severity: Admin,
		Text:    "EC2 does not describe a reservation of the settings.",
		Do:      "Check its id, the region, and whether its owner still shares it.",
		Example: "EC2 does not describe reservation cr-0: InvalidCapacityReservationId.NotFound; check its id and the region"},
	{Code: NotOpen, Where: AtLaunch, Severity: Note,
		Text:    "The reservation is not active: not yet, no longer, or another one has its nodes.",
		Do:      "Wait: the job starts when the reservation opens or gets its nodes. If it has ended, see `no-reservation`.",
		Example: "reservation cr-0 is scheduled and opens at 2026-11-21 11:30 UTC"},
	{Code: NoPlace, Where: AtLaunch, Severity: Note,
		Text:    "The reservation is too small for the job; another one of the same nodes is large enough.",
		Do:      "Wait for the larger one, or ask for fewer nodes.",
		Example: "reservation cr-0 has 2 places, and the job needs 4"},
	{Code: TooManyNodes, Where: AtSubmission | AtLaunch, Severity: User,
		Text:    "The job needs more nodes, or more GPUs on a node, than the largest reservation has.",
		Do:      "Ask for as many as the sentence says.",
		Example: "the job asks for 5 nodes, but the largest reservation of partition gpu that it may use has 4; use --nodes=4",
		Slurm:   "ESLURM_INVALID_NODE_COUNT"},
	{Code: NodesNotUsable, Where: AtSubmission, Severity: User,
		Text:    "The job names nodes (`--nodelist`) for which its reservation has no instance, or leaves too few (`--exclude`).",
		Do:      "Name or exclude other nodes, as the sentence says.",
		Example: "the job needs 4 nodes of the 4 of partition gpu, and --exclude leaves 3; leave out fewer",
		Slurm:   "ERROR"},
	{Code: TooLong, Where: AtSubmission | AtLaunch, Severity: User,
		Text:    "The time limit crosses the fence.",
		Do:      "Use the limit that the sentence gives, or leave `--time` out.",
		Example: "the job needs 2-02:00:00, but jobs on cr-0 in partition gpu must end by 2026-11-21 11:20 UTC. Use --time=23:20:00 or less",
		Slurm:   "ESLURM_INVALID_TIME_LIMIT"},
	{Code: Mismatched, Where: AtSubmission | AtLaunch, Severity: Admin,
		Text:    "Reservation and node group differ in zone, instance type, platform, tenancy or purchase option.",
		Do:      "Run `pcs-capacity check`: it names the difference and its fix.",
		Example: "reservation cr-0 is in use2-az1, but node group gpu has only subnet-0a in use2-az2; use a subnet in use2-az1",
		Slurm:   "ERROR"},
	{Code: DifferentReservations, Where: AtLaunch, Severity: Note,
		Text:    "Jobs that share the nodes ask for different reservations.",
		Do:      "Nothing: the others are requeued. If it comes again, ask for whole nodes (`--exclusive`).",
		Example: "the jobs that share these nodes ask for different reservations"},
	{Code: JobGone, Where: AtLaunch, Severity: Note,
		Text:    "The job ended before its nodes were launched.",
		Do:      "Nothing.",
		Example: "job 7 ended before its nodes were launched"},
	{Code: NoTime, Where: AtLaunch, Severity: Note,
		Text:    "The hook was ended, or ran out of time, before it could launch.",
		Do:      "Nothing: Slurm tries again. If it comes again, see in `resume.log` where the time goes.",
		Example: "there was no time left to launch"},
	{Code: SharedWithRefused, Where: AtLaunch, Severity: Note,
		Text:    "A job on the same nodes is refused, and nothing is launched for them.",
		Do:      "Nothing: Slurm tries the others again, without it. A job that cannot be requeued has to be submitted again.",
		Example: "job 7, which shares these nodes, is refused"},
	{Code: NoCommonZone, Where: AtLaunch, Severity: Admin,
		Text:    "A job that gets an ODCR needs nodes of several node groups, and they have no zone in common.",
		Do:      "Give the node groups subnets in one zone.",
		Example: "the node groups of the job have no zone in common, where it could be launched as a whole"},
	{Code: NotBooted, Where: AtLaunch, Severity: Admin,
		Text:    "The instance was launched, and the node did not come up within ResumeTimeout.",
		Do:      "See the instance's console output: user data, way to slurmctld, munge. If it only needs more time, raise ResumeTimeout.",
		Example: "the instance did not register with Slurm within ResumeTimeout; its image, its slurm.conf or its network may be broken"},
	{Code: ReserveLimit, Where: AtLaunch, Severity: Admin,
		Text:    "The settings allow no more to be held at once.",
		Do:      "Nothing: the job is tried again. To hold more, raise `max_instances` or `max_usd_per_hour` of `[reserve]`.",
		Example: "9 instances with these 4, and max_instances of [reserve] is 8"},
	{Code: FailedOtherwise, Where: AtLaunch, Severity: Admin,
		Text:    "The launch failed for another reason, which the message has.",
		Do:      "See `resume.log` and `suspend.log`.",
		Example: "RunInstances: request canceled, context deadline exceeded"},
	{Code: AWSUnanswered, Where: AtPass, Severity: Admin,
		Text:    "AWS did not answer a question, or refused it. Nothing is deleted or moved.",
		Do:      "Look up AWS's code; without one, see whether this host reaches AWS.",
		Example: "finding the reservations of node group gpu by tag: 503 Service Unavailable; what was known before is kept",
		More:    "errors.md"},
	{Code: SlurmUnanswered, Where: AtPass, Severity: Admin,
		Text:    "Slurm did not answer; fences, time limits and holds are as they were.",
		Do:      "See whether slurmctld runs; the next pass goes on.",
		Example: "asking Slurm: Unable to contact slurm controller; fences and time limits are as they were"},
	{Code: SlurmUnread, Where: AtPass, Severity: Admin,
		Text:    "Slurm shows a job, partition or reservation in a form that is not known. A job is left as it is; all others are decided on.",
		Do:      "See what `squeue` or `scontrol show` prints of it, and report it with Slurm's version.",
		Example: "job 7 cannot be read (squeue's NumNodes: \"1K\" is not a number): its time limit and holds stay as they are"},
	{Code: NoLimitEnds, Where: AtPass, Severity: Admin,
		Text:    "Slurm lets jobs run over their time limits without end, so no limit ends a job at the fence.",
		Do:      "Set OverTimeLimit to a number of minutes: fences are earlier by so much.",
		Example: "OverTimeLimit=UNLIMITED: no time limit ends a job, so that jobs run on until EC2 takes their nodes"},
	{Code: AccountingUnanswered, Where: AtPass, Severity: Admin,
		Text:    "Slurm did not show what QOS and associations allow and have used; no limit is raised past what was known.",
		Do:      "See whether slurmdbd runs; the next pass asks again.",
		Example: "sacctmgr: Problem talking to the database; no time limit is raised where accounting limits what jobs use"},
	{Code: ReservationMissing, Where: AtPass, Severity: Admin,
		Text:    "EC2 leaves out a reservation that was live; it is kept for an hour.",
		Do:      "Check its id and region, and whether its owner still shares it.",
		Example: "EC2 has not described reservation cr-1 since 2027-01-01 13:30 UTC: InvalidCapacityReservationId.NotFound; what was known of it is kept until 2027-01-01 14:30 UTC"},
	{Code: ReservationUnnamed, Where: AtPass, Severity: Admin,
		Text:    "A live reservation was taken out of the settings; its fence stays.",
		Do:      "Put it back, or delete the fence as the sentence says.",
		Example: "the settings no longer name reservation cr-1 for slot gpu; its fence stays until it ends at 2027-01-02 11:30 UTC, or until `scontrol delete ReservationName=pcs-capacity-fence-gpu.cr-1.0123abcd`"},
	{Code: ReservationEnded, Where: AtPass, Severity: Note,
		Text:    "Reservations of the settings have ended.",
		Do:      "Nothing. They can leave the settings.",
		Example: "partition gpu: these reservations have ended; the settings need them no more: cr-9 (expired)"},
	{Code: NeverOpens, Where: AtPass, Severity: Admin,
		Text:    "The payment of reservations failed, or EC2 could not make them.",
		Do:      "Take them out of the settings; see `pcs-capacity list`.",
		Example: "partition gpu: these reservations never open; take them out of the settings: cr-9 (payment-failed)"},
	{Code: SubnetNotKnown, Where: AtPass, Severity: Admin,
		Text:    "EC2 does not describe a subnet of the settings.",
		Do:      "Correct `subnet_ids`.",
		Example: "EC2 does not describe subnet subnet-0a: InvalidSubnetID.NotFound; check its id and the region"},
	{Code: SlotsNotKnown, Where: AtPass, Severity: Admin,
		Text:    "PCS or EC2 did not show which nodes have which reservation.",
		Do:      WaitForPass,
		Example: "asking EC2 which slots the reservations have: 503 Service Unavailable; they may be taken for others than before"},
	{Code: FenceNotKnown, Where: AtPass, Severity: Admin,
		Text:    "EC2 did not describe a reservation that only a fence names. The fence stays.",
		Do:      WaitForPass,
		Example: "describing cr-1, which fences are named after: 503 Service Unavailable; the fences stay"},
	{Code: InstancesNotKnown, Where: AtPass, Severity: Admin,
		Text:    "EC2 did not list the instances of this cluster, so no instance is ended.",
		Do:      WaitForPass,
		Example: "looking for instances that belong to no node: 503 Service Unavailable"},
	{Code: HeldNotKnown, Where: AtPass, Severity: Admin,
		Text:    "EC2 did not list the ODCRs that are held for jobs, so none is given back. Each ends by itself, within an hour of its end.",
		Do:      WaitForPass,
		Example: "looking for what is held for nothing: 503 Service Unavailable"},
	{Code: LeftoversNotKnown, Where: AtPass, Severity: Note,
		Text:    "AWS did not list what `setup` made, or the policy lacks an action.",
		Do:      "Wait for the next pass, or add the action to the policy.",
		Example: "looking for what the settings do not name: pcs:ListQueues is not allowed"},
	{Code: LeftoverMade, Where: AtPass, Severity: Admin,
		Text:    "Compute node groups, queues or launch templates of `setup` are in no settings: jobs may run there that nothing fences.",
		Do:      "Put the file in `conf.d` back, or run the command of the sentence.",
		Example: "queue gpu carries the tag of pcs-capacity, and the settings do not name it, so sync does not manage it; add it to the settings again, or remove it with `pcs-capacity teardown --queue gpu`"},
	{Code: NoNodeGroup, Where: AtPass, Severity: Admin,
		Text:    "The next block is in the settings, but PCS has no compute node group for it.",
		Do:      "Run the `setup` of the sentence.",
		Example: "reservation cr-2 has no compute node group yet; run `pcs-capacity setup --reservation cr-2 --queue gpu --node-group gpu`"},
	{Code: RollOverDue, Where: AtPass, Severity: Note,
		Text:    "The next block has no compute node group yet; with `roll_over`, the next pass of `sync` makes it.",
		Do:      "Nothing. If it stays, see whether the service runs.",
		Example: "reservation cr-2 has no compute node group in partition gpu yet; sync makes it"},
	{Code: RollOverFailed, Where: AtPass | AsNotice, Severity: Admin,
		Text:    "`sync` could not set up the next block, or remove the node group of an ended one. All else goes on.",
		Do:      "Remove the cause, which the sentence has; `sync` tries again.",
		Example: "setting up cr-2 in partition gpu: ServiceQuotaExceededException; sync tries it again every 5m",
		More:    "operations.md#roll-over"},
	{Code: SlotTaken, Where: AtPass, Severity: Admin,
		Text:    "Two blocks overlap, and their nodes take one at a time.",
		Do:      "Nothing if the later one can wait; else do as the sentence says, before it opens.",
		Example: "reservation cr-3 waits for cr-1, which has slot gpu-a (until 2027-01-02 11:30 UTC); give it a node group of its own to use both at once"},
	{Code: OtherOwner, Where: AtPass, Severity: Admin,
		Text:    "Other settings, or another `state_dir`, made a Slurm reservation. It is left alone, and keeps jobs off its nodes.",
		Do:      "Use one settings file with one `state_dir` for a cluster. Where nobody uses the others any more, delete it as the sentence says.",
		Example: "other settings made Slurm reservation pcs-capacity-fence-gpu.cr-1.0123abcd, which keeps jobs off gpu-[1-4]; it is left alone: use those settings, or, if nobody does, `scontrol delete ReservationName=pcs-capacity-fence-gpu.cr-1.0123abcd`"},
	{Code: NameTaken, Where: AtPass, Severity: Admin,
		Text:    "A Slurm reservation that pcs-capacity did not make has one of its names.",
		Do:      "Rename or delete it.",
		Example: "Slurm reservation pcs-capacity-fence-gpu has a name of pcs-capacity's but was not made by it (flags SPEC_NODES, users root); it is left alone: rename or delete it"},
	{Code: NoPartition, Where: AtPass, Severity: Admin,
		Text:    "Slurm has no partition of this name.",
		Do:      "Add it (`hooks install`; on PCS `setup`), or take it out of the settings.",
		Example: "Slurm has no partition gpu; add it, or take it out of the settings"},
	{Code: NoNodes, Where: AtPass, Severity: Admin,
		Text:    "Slurm has no nodes for a node group of the settings.",
		Do:      "Run `pcs-capacity hooks install` on the controller, or list the nodes in slurm.conf.",
		Example: "Slurm has no nodes gpu-1, gpu-2, … for node group gpu; run `pcs-capacity hooks install` on its controller"},
	{Code: NodesLost, Where: AtPass, Severity: Admin,
		Text:    "Slurm no longer shows nodes of a partition. Somebody has set them to FUTURE, or Slurm has: before 25.05.7 and 25.11.3 it loses nodes that power down while slurmctld restarts.",
		Do:      "Restart slurmctld; update such a Slurm before.",
		Example: "Slurm no longer shows nodes gpu-[2-3] of partition gpu, so that no job gets them: they are FUTURE, as `scontrol update state=FUTURE` sets them, and Slurm before 25.05.7 and 25.11.3 by itself; restart slurmctld"},
	{Code: OutOfService, Where: AtPass, Severity: Admin,
		Text:    "Nodes of an open reservation are drained, down or failed.",
		Do:      "Remove the cause, then give the nodes back as the sentence says.",
		Example: "cr-1 is open and paid, and no job gets nodes gpu-2 (drain: NVLink); when that is mended: `scontrol update nodename=gpu-2 state=resume`"},
	{Code: NodesUnused, Where: AtPass, Severity: Note,
		Text:    "A PCS compute node group is larger than `max_nodes`. Jobs are kept off the nodes beyond it, which are paid for.",
		Do:      "Raise `max_nodes` to use them.",
		Example: "slot gpu-a has 4 nodes, of which max_nodes lets jobs use 2: none starts on gpu-a-[3-4]; set max_nodes = 4 in the settings to use them"},
	{Code: FenceActedOn, Where: AtPass, Severity: Admin,
		Text:    "Nodes boot under an active fence: something takes nodes in maintenance for broken. A note at first, because it may be a repair.",
		Do:      "See what launches them; with `provider = \"none\"` fences are without maintenance.",
		More:    "guest.md",
		Example: "nodes gpu-a-[1-2] boot under the fence of slot gpu-a, where nothing may start: something takes nodes in maintenance down and launches them anew, and jobs that run there end; see what launches them; with provider = \"none\" fences are without maintenance, which some launchers act on"},
	{Code: FeatureMissing, Where: AtPass, Severity: Admin,
		Text:    "The node group has `slots = 2`, and its nodes lack the feature that tells the two halves apart.",
		Do:      "Run `pcs-capacity hooks install`, or add the feature in slurm.conf.",
		Example: "nodes gpu-a-[1-4] lack Features=gpu-a in slurm.conf, so that jobs cannot be kept in the slot of their reservation; add it"},
	{Code: AllowAccounts, Where: AtPass | AtSetup, Severity: Admin,
		Text:    "Slurm's AllowAccounts is not the `allow_accounts` of the partition.",
		Do:      "Add AllowAccounts as the sentence says.",
		Example: "partition gpu: allow_accounts is nlp, but Slurm's AllowAccounts is ALL; add AllowAccounts=nlp to its line in slurm.conf",
		More:    "security.md#who-may-use-a-partition"},
	{Code: AccountsUnchecked, Where: AtPass, Severity: Admin,
		Text:    "Slurm does not check the account that a user writes, so `allow_accounts` has no effect.",
		Do:      "Set AccountingStorageEnforce=associations.",
		Example: "allow_accounts has no effect, because Slurm takes any account that a user writes; set AccountingStorageEnforce=associations",
		More:    "security.md#who-may-use-a-partition"},
	{Code: AllowGroups, Where: AtPass, Severity: Admin,
		Text:    "Slurm's AllowGroups is not the `allow_groups` of the partition.",
		Do:      "Run `pcs-capacity hooks install`, or write AllowGroups into the partition's line.",
		Example: "partition gpu: allow_groups is nlp, but Slurm's AllowGroups is ALL; add AllowGroups=nlp to its line in slurm.conf"},
	{Code: OrphanFound, Where: AtPass, Severity: Note,
		Text:    "Instances that no node stands for hold places.",
		Do:      "Nothing: `sync` ends them. If it comes again, see `suspend.log`.",
		Example: "instance i-2 (gone-7) holds a place in cr-1: Slurm has no such node; sync ends what it sees so twice"},
	{Code: ForeignMark, Where: AtPass, Severity: Admin,
		Text:    "Instances carry another cluster's tag, or an old one of this cluster. Nothing ends them.",
		Do:      "End them yourself if nobody needs them.",
		Example: "instance i-3 (gpu-1) has the mark ml-0123abcd, this cluster's is ml-fedc4321; nothing here ends it"},
	{Code: WrongInstance, Where: AtPass, Severity: Admin,
		Text:    "The Prolog found an instance that differs from the reservation of its node.",
		Do:      "Power the node down: `scontrol update nodename=NODE state=power_down`.",
		Example: "node gpu-1: its instance i-7 is a p4d.24xlarge, but reservation cr-1 is for p5.48xlarge; find out what launched it, and power the node down"},
	{Code: HostFailed, Where: AtPass | AsNotice, Severity: Admin,
		Text:    "One more host of a block has failed, or a node has failed the health command each time.",
		Do:      "Open a case with AWS Support.",
		Example: "partition gpu: 1 of 4 hosts of cr-0 have failed, 3 are usable; open a case with AWS Support",
		More:    "operations.md#when-something-fails"},
	{Code: LaunchFailed, Where: AtPass, Severity: Admin,
		Text:    "The last launch of these nodes failed within the hour. A user problem where the job asks for what it cannot have.",
		Do:      "Look up the code in the sentence: `pcs-capacity explain CODE`, or AWS's.",
		Example: "partition gpu: nodes gpu-[1-2] were not launched at 2026-11-20 11:00 UTC: InsufficientInstanceCapacity: no place",
		More:    "reasons.md#of-launches"},
	{Code: NeverStarts, Where: AtPass | AsNotice, Severity: User,
		Text:    "A waiting job can never start as it is. Its `AdminComment` says so as well.",
		Do:      "Its owner changes it as the sentence says, or cancels it.",
		Example: "job 7 can never start: the job asks for 5 nodes, but the largest reservation of partition gpu that it may use has 4; use --nodes=4"},
	{Code: ChangeFailed, Where: AtPass, Severity: Admin,
		Text:    "Slurm or AWS refused a change of `sync`; the sentence has its words.",
		Do:      "Wait: the next pass tries it again. If it stays, do as the words say.",
		Example: "slot gpu: placed the fence pcs-capacity-fence-gpu.cr-1.0123abcd: scontrol: Access/permission denied"},
	{Code: StateFile, Where: AtPass, Severity: Admin,
		Text:    "A file in `state_dir` cannot be read or written.",
		Do:      "See its owner and the disk. The file that the sentence names can be deleted.",
		Example: "reading the cluster's id: permission denied"},
	{Code: AnotherRuns, Where: AtPass, Severity: Admin,
		Text:    "Another program has a lock in `state_dir/private`.",
		Do:      "Wait until the process in the sentence ends, or end it.",
		Example: "another pass runs: process 4711 on ctl has /var/lib/pcs-capacity/private/pass.lock; wait until it ends, or end it"},
	{Code: SettingsBroken, Where: AtPass, Severity: Admin,
		Text:    "The settings have an error; those of before stay in use.",
		Do:      "Correct the file; the next pass reads it.",
		Example: `/etc/pcs-capacity/config.toml:1: unknown key "regoin"; did you mean "region"?; the settings of before stay in use`},
	{Code: HeartbeatLost, Where: AtPass | AsNotice, Severity: Admin,
		Text:    "AWS has not answered `sync` for longer than `stale_after`, or the service does not run.",
		Do:      "See `journalctl -u pcs-capacity-sync`, and whether this host reaches AWS.",
		Example: "sync last saw AWS 25m ago; keep `pcs-capacity sync --watch` running",
		More:    "errors.md"},
	{Code: DeliveryFailed, Where: AtPass, Severity: Admin,
		Text:    "The metrics file cannot be written, or `[notify]` did not deliver.",
		Do:      "Remove the cause; the next pass tries again.",
		Example: "[notify] webhook at hooks.example.com answers 500 Internal Server Error"},
	{Code: IsTest, Where: AsNotice, Severity: Note,
		Text:    "Somebody has run `pcs-capacity notify test`.",
		Do:      "Nothing.",
		Example: "a test of [notify] on host login-1"},
	{Code: HasOpened, Where: AsNotice, Severity: Note,
		Text:    "A reservation has opened.",
		Do:      "Nothing: waiting jobs start. If none does, `pcs-capacity explain PARTITION`.",
		Example: "cr-1 is open: 4 x p5.48xlarge for slot gpu, free of jobs by 2026-11-21 11:20 UTC"},
	{Code: HasClosed, Where: AsNotice, Severity: Note,
		Text:    "A reservation that had opened is over.",
		Do:      "Take it out of the settings.",
		Example: "cr-1 of slot gpu is over (expired)",
		More:    "operations.md#in-the-life-of-a-block"},
	{Code: FenceNear, Where: AsNotice, Severity: Note,
		Text:    "An hour is left before a fence; again after an extension.",
		Do:      "Let jobs save their work. If they need longer, extend the block soon: EC2 takes that until 1 hour before its end.",
		Example: "jobs on cr-1 must end by 2026-11-21 11:20 UTC, in 1h",
		More:    "buying.md"},
	{Code: PaymentFailed, Where: AsNotice, Severity: Admin,
		Text:    "A block will not open, because it was not paid.",
		Do:      "Settle it with AWS Billing, then buy another one; take this one out of the settings.",
		Example: "the payment of cr-1 for slot gpu has failed: it will not open"},
	{Code: NodesIdle, Where: AsNotice, Severity: Note,
		Text:    "Nodes of an open block have had no job for `idle_after`.",
		Do:      "See with `pcs-capacity explain PARTITION` which jobs wait, and why.",
		Example: "2 nodes of slot gpu, which are paid for in cr-1, have had no job since 2026-11-20 11:00 UTC"},
	{Code: NoSuccessor, Where: AsNotice, Severity: Admin,
		Text:    "No block follows, and the last fence is less than `successor` away.",
		Do:      "Buy the next one, or extend this one.",
		Example: "slot gpu has no block after cr-1, whose last job must be gone by 2026-11-21 11:20 UTC",
		More:    "buying.md"},
	{Code: IsSetUp, Where: AsNotice, Severity: Note,
		Text:    "With `roll_over`: the next block has its node group, and its nodes are in the queue.",
		Do:      "Nothing.",
		Example: "cr-2 is set up: slot gpu-b has it from 2026-11-21 11:30 UTC"},
	{Code: WrongZone, Where: AtPass | AtSetup, Severity: Admin,
		Text:    "A node group has no subnet in the Availability Zone of its reservation.",
		Do:      "Use a subnet in that zone.",
		Example: "reservation cr-0 is in use2-az1, but node group gpu has only subnet-0a in use2-az2; use a subnet in use2-az1"},
	{Code: ZoneNotKnown, Where: AtSetup, Severity: Admin,
		Text:    "EC2 does not show yet in which Availability Zone the reservation is.",
		Do:      "Run the command again once EC2 shows a zone.",
		Example: "EC2 does not say yet in which Availability Zone reservation cr-0 is, so no subnet can be checked; run this again once EC2 shows a zone for it"},
	{Code: WrongType, Where: AtPass | AtSetup, Severity: Admin,
		Text:    "A node group launches other instance types than its reservation has.",
		Do:      "Use the instance type of the reservation, or another reservation.",
		Example: "reservation cr-0 is for p5.48xlarge, but node group gpu launches p4d.24xlarge; use instance type p5.48xlarge, or another reservation"},
	{Code: WrongPlatform, Where: AtPass | AtSetup, Severity: Admin,
		Text:    "The image of a node group has another platform than its reservation.",
		Do:      "Use an image for that platform, or another reservation.",
		Example: "reservation cr-0 is for platform Linux/UNIX, but the image of node group gpu is for Red Hat Enterprise Linux; use an image for Linux/UNIX, or another reservation"},
	{Code: WrongPurchase, Where: AtPass | AtSetup, Severity: Admin,
		Text:    "A node group does not buy the kind of its reservation.",
		Do:      "Set `purchase_option` as the fix says.",
		Example: `reservation cr-0 is of kind capacity-block, but node group gpu buys odcr; set purchase_option = "capacity-block"`},
	{Code: WrongTenancy, Where: AtPass | AtSetup, Severity: Admin,
		Text:    "A reservation has another tenancy than nodes are launched with.",
		Do:      "Use a reservation of default tenancy.",
		Example: "reservation cr-0 has tenancy dedicated, but node groups launch with default tenancy; use a reservation of default tenancy"},
	{Code: NoInstances, Where: AtPass | AtSetup, Severity: Admin,
		Text:    "EC2 shows an open reservation with a size of 0: jobs that need it are refused.",
		Do:      "See it in EC2, or use another reservation.",
		Example: "reservation cr-0 is open and has no instances; see it in EC2, or use another reservation"},
	{Code: WrongSize, Where: AtSetup, Severity: Admin,
		Text:    "A node group would have more nodes than its reservation has instances.",
		Do:      "Use fewer nodes, or another reservation.",
		Example: "reservation cr-0 has 4 instances, but node group gpu would have up to 8 nodes; use at most 4 nodes"},
	{Code: HasEnded, Where: AtSetup, Severity: Admin,
		Text:    "The reservation has ended.",
		Do:      "Choose one that has not ended.",
		Example: "reservation cr-0 is cancelled; choose a reservation that is scheduled or active"},
	{Code: PaymentPending, Where: AtSetup, Severity: Admin,
		Text:    "The payment of the reservation is still pending.",
		Do:      "Run the command again once its state is scheduled; EC2 bills within 5 minutes to 12 hours.",
		Example: "the payment of reservation cr-0 is still pending; run this again once its state is scheduled; EC2 bills within 5 minutes to 12 hours"},
	{Code: WrongState, Where: AtSetup, Severity: Admin,
		Text:    "The reservation cannot be used in its state.",
		Do:      "Choose one that is scheduled or active, or wait.",
		Example: "reservation cr-0 is in state assessing; run this again once its state is scheduled or active"},
	{Code: ReservationUnknown, Where: AtSetup, Severity: Admin,
		Text:    "EC2 has no such reservation in this region.",
		Do:      "Check its id and `--region`.",
		Example: `EC2 has no reservation "cr-9" in us-east-2 (InvalidCapacityReservationId.NotFound)`},
	{Code: ReservationInUse, Where: AtSetup, Severity: Admin,
		Text:    "Instances of the reservation are used already.",
		Do:      "End them, or choose another reservation.",
		Example: "2 of the 4 instances of reservation cr-0 are used already: node group cpu; give --max-nodes 2 or less"},
	{Code: NoCluster, Where: AtSetup, Severity: Admin,
		Text:    "No PCS cluster is given, or none has that name.",
		Do:      "Give `--cluster` with a name that the fix lists.",
		Example: "no cluster is given; use one of ml"},
	{Code: ClusterStatus, Where: AtSetup, Severity: Admin,
		Text:    "The PCS cluster cannot be changed in its state.",
		Do:      "Wait until it is ACTIVE.",
		Example: "cluster ml is UPDATING; run this again once it is ACTIVE"},
	{Code: SlurmTooOld, Where: AtSetup, Severity: Admin,
		Text:    "PCS needs Slurm 24.05 for Capacity Blocks.",
		Do:      "Use a cluster with a newer Slurm.",
		Example: "cluster ml has Slurm 23.11, but PCS needs 24.05 for Capacity Blocks; use a cluster with a newer Slurm"},
	{Code: BadName, Where: AtSetup, Severity: Admin,
		Text:    "A queue or node group cannot have this name.",
		Do:      "Choose another one.",
		Example: `"gpu!" cannot name a PCS queue: it has 3 to 25 letters, digits and hyphens, and starts with a letter; choose another --queue`},
	{Code: NotOurs, Where: AtSetup, Severity: Admin,
		Text:    "A thing in AWS has the name, but not our tag, so it is not changed.",
		Do:      "Choose another name, or tag it.",
		Example: "queue gpu exists, but does not carry our tag, so it is not changed"},
	{Code: OtherQueue, Where: AtSetup, Severity: Admin,
		Text:    "A compute node group belongs to another queue, or is in one as well.",
		Do:      "Give `--queue` with that one, or take the node group out of it first.",
		Example: "compute node group gpu-a was made for queue train; give --queue train"},
	{Code: SlotsTaken, Where: AtSetup, Severity: Admin,
		Text:    "Both compute node groups, `-a` and `-b`, are taken.",
		Do:      "Run the command again after a reservation has ended, or choose another `--node-group`.",
		Example: "both slots of node group gpu are taken: gpu-a has cr-0 until 2026-11-25 11:30 UTC, gpu-b has cr-1 until 2026-12-02 11:30 UTC"},
	{Code: NodesInUse, Where: AtSetup, Severity: Admin,
		Text:    "The change would replace instances under their jobs.",
		Do:      "Wait until the reservation has ended, or until the nodes are down.",
		Example: "node group gpu-a has 4 instances, which this change would replace under their jobs: image"},
	{Code: QuotaNodeGroups, Where: AtSetup, Severity: Admin,
		Text:    "PCS allows no more compute node groups in the cluster.",
		Do:      "Delete one whose block has ended.",
		Example: "cluster ml has 10 compute node groups, and PCS allows no more than 10"},
	{Code: QuotaQueues, Where: AtSetup, Severity: Admin,
		Text:    "PCS allows no more queues in the cluster.",
		Do:      "Use one of them, or delete one.",
		Example: "cluster ml has 10 queues, and PCS allows no more than 10"},
	{Code: ClusterSize, Where: AtSetup, Severity: Admin,
		Text:    "The nodes of all node groups together are more than the size of the cluster allows.",
		Do:      "Give a smaller `--max-nodes`, lower the maximum of another node group, or use a larger cluster.",
		Example: "cluster ml is SMALL and may have 32 nodes; with 8 in gpu-a the maxima of its node groups add up to 40; give --max-nodes 0 or less, lower the maximum of another node group, or use a larger cluster"},
	{Code: UnknownSettings, Where: AtSetup, Severity: Admin,
		Text:    "PCS has settings that this version does not know; the change could lose them.",
		Do:      "Change the thing in PCS.",
		Example: "queue gpu has settings that this version of pcs-capacity does not know, and this change could lose them: x"},
	{Code: LikeUnknown, Where: AtSetup, Severity: Admin,
		Text:    "There is nothing to copy from under the name of `--like`.",
		Do:      "Give `--like` with a name that the fix lists, or the values themselves.",
		Example: `cluster ml has no compute node group "cpu" to copy from (--like); use one of login`},
	{Code: BadUserData, Where: AtSetup, Severity: Admin,
		Text:    "The user data cannot be used.",
		Do:      "Give other user data with `--user-data-file`.",
		Example: "the user data has 20000 bytes as a MIME multi-part archive; EC2 takes 16384; let it fetch the rest from Amazon S3"},
	{Code: BadImage, Where: AtSetup, Severity: Admin,
		Text:    "No image is given, or EC2 does not have it.",
		Do:      "Give `--ami`.",
		Example: "no image is given for the nodes; give --ami, or --like with a node group that has one"},
	{Code: WrongArchitecture, Where: AtSetup, Severity: Admin,
		Text:    "The image has another architecture than the instance type.",
		Do:      "Give an image for it with `--ami`.",
		Example: "image ami-0 is for arm64, but p5.48xlarge runs x86_64; give an image for x86_64 with --ami"},
	{Code: NoDrivers, Where: AtSetup, Severity: Note,
		Text:    "Nothing says that the image has drivers for the GPUs of the instance type. Slurm drains a node that shows fewer GPUs than configured.",
		Do:      "Give another image with `--ami`, on PCS its own by `--ami pcs-dlami`. Tag an image that has the drivers.",
		More:    "setup.md#the-image",
		Example: "nothing says that image ami-0 (al2023-pcs) has drivers for the 8 H100 of p5.48xlarge, and Slurm drains a node that shows fewer GPUs than configured; give another image with --ami pcs-dlami, or say so by a tag if it has them: `aws ec2 create-tags --region us-east-2 --resources ami-0 --tags Key=drivers,Value=nvidia`"},
	{Code: LaunchRefused, Where: AtSetup, Severity: Admin,
		Text:    "EC2 refused a dry run of the launch.",
		Do:      "Correct what EC2 names.",
		Example: "EC2 would not launch a node of gpu into subnet-0aa: InvalidBlockDeviceMapping: Volume of size 8GB is smaller than snapshot 'snap-0aa', expect size >= 30GB; mend what EC2 names in the launch template or in the flags",
		More:    "errors.md"},
	{Code: TagKey, Where: AtSetup, Severity: Admin,
		Text:    "Instance metadata shows tags, and EC2 then refuses each launch with a space, a slash or the like in a tag key.",
		Do:      "Rename the tag in the launch template.",
		Example: `launch template ml-compute tags instances with "Cost Center", and by the template their metadata shows tags: EC2 refuses every launch for such a key; rename the tag in the template with letters, digits and _.:=+-@, only`},
	{Code: RootVolumeTooSmall, Where: AtSetup, Severity: Admin,
		Text:    "The root volume is too small for the image.",
		Do:      "Give a larger `--root-volume-size`.",
		Example: "a root volume of 10 GiB is too small for image ami-0, which has 30; give --root-volume-size 30 or more"},
	{Code: InstanceProfile, Where: AtSetup, Severity: Admin,
		Text:    "No instance profile is given, or nodes cannot run with it.",
		Do:      "Give `--instance-profile`.",
		Example: "IAM has no instance profile nodes; name one that exists with --instance-profile",
		More:    "permissions.md"},
	{Code: KeyPair, Where: AtSetup, Severity: Admin,
		Text:    "The key pair does not exist.",
		Do:      "Make it, or copy from a node group that names another or none.",
		Example: `the launch template of cpu names key pair "old", which EC2 does not have; make that key pair, or give --like with a node group that names another or none`},
	{Code: PlacementGroup, Where: AtSetup, Severity: Admin,
		Text:    "The reservation takes launches in a placement group only, which this account does not have.",
		Do:      "Use another reservation.",
		Example: "reservation cr-0 takes launches in placement group pg only, which this account does not have; use another reservation"},
	{Code: SecurityGroups, Where: AtSetup, Severity: Admin,
		Text:    "No security group is given, or one cannot be used in this VPC.",
		Do:      "Give `--security-groups`.",
		Example: "EC2 has no security group sg-0 in us-east-2; name existing ones with --security-groups"},
	{Code: RuleMissing, Where: AtSetup, Severity: Admin,
		Text:    "Security groups keep nodes from slurmctld or from each other: Slurm's ports are closed, or EFA lacks the rules from and to its own group.",
		Do:      "Run the command that is named: it adds the rule.",
		Example: "security group sg-0a has no rule by which nodes connect to each other by EFA: all traffic from itself"},
	{Code: NoWayOut, Where: AtSetup, Severity: Admin,
		Text:    "Nodes in the subnet reach neither AWS PCS nor an endpoint for it, so they never register; or not Amazon S3, from which they install the package.",
		Do:      "Use a subnet with a route to a NAT gateway, or create the endpoint by the command that is named.",
		Example: "nodes in subnet subnet-0a never reach AWS PCS, so they never register: no route leads out of the VPC, and the VPC has no endpoint for it"},
	{Code: Protected, Where: AtSetup, Severity: Admin,
		Text:    "The launch template protects instances from termination (`DisableApiTermination`), so no node could be ended.",
		Do:      "Take it out of the template.",
		Example: "launch template nodes protects instances from termination, so that nodes are never ended; set DisableApiTermination to false in it"},
	{Code: NoSubnets, Where: AtSetup, Severity: Admin,
		Text:    "No subnet is given for the nodes.",
		Do:      "Give `--subnet-ids`.",
		Example: "no subnet is given for the nodes; name subnets of one VPC in use2-az1 with --subnet-ids"},
	{Code: SubnetUnknown, Where: AtSetup, Severity: Admin,
		Text:    "EC2 has no such subnet in this region.",
		Do:      "Give others with `--subnet-ids`.",
		Example: "EC2 has no subnet subnet-9 in us-east-2"},
	{Code: SubnetVPC, Where: AtSetup, Severity: Admin,
		Text:    "A subnet is in another VPC.",
		Do:      "Give others with `--subnet-ids`.",
		Example: "subnet subnet-9 is outside the VPC vpc-0 of the cluster; name subnets of the cluster's VPC with --subnet-ids"},
	{Code: Addresses, Where: AtSetup, Severity: Admin,
		Text:    "The subnet has too few free addresses for the nodes.",
		Do:      "Use a larger subnet, free some addresses, or give a smaller `--max-nodes`.",
		Example: "subnet subnet-0a has free addresses for 3 nodes, but there are to be 4"},
	{Code: TypeWithoutEFA, Where: AtSetup, Severity: Admin,
		Text:    "The instance type has no EFA.",
		Do:      "Leave out `--efa`.",
		Example: "g6.2xlarge has no EFA, so there is none to set up with --efa all; leave out --efa"},
	{Code: ConfServer, Where: AtSetup, Severity: Admin,
		Text:    "`--conf-server` names no host.",
		Do:      "Write it as HOST or HOST:PORT.",
		Example: `--conf-server "a b" is no host; write it as HOST or HOST:PORT`},
	{Code: WrongProvider, Where: AtSetup, Severity: Admin,
		Text:    "The partition of the settings has another provider.",
		Do:      "Give `--provider` with that one, or choose another `--queue`.",
		Example: `partition "gpu" of /etc/pcs-capacity/conf.d/gpu.toml has provider "ec2"`},
	{Code: NotSelected, Where: AtSetup, Severity: Admin,
		Text:    "`select` of the node group does not find the reservation.",
		Do:      "Tag it as `select` says, or choose another `--node-group`.",
		Example: `node_group "gpu" of the settings selects its reservations, and cr-0 is none of them`},
	{Code: BadSettings, Where: AtSetup, Severity: Admin,
		Text:    "The settings would not be valid with this node group.",
		Do:      "Choose another `--node-group`, or correct the settings.",
		Example: `node_group "gpu": slots = 3, it is 1 or 2`},
	{Code: ConfigFile, Where: AtSetup, Severity: Admin,
		Text:    "A file of the settings cannot be read, or somebody else wrote it.",
		Do:      "Make it readable, choose another `--queue`, or move the file away.",
		Example: `/etc/pcs-capacity/conf.d/gpu.toml is there, but is not ours and has no partition "gpu"`},
	{Code: ConfigCluster, Where: AtSetup, Severity: Admin,
		Text:    "The settings are for another cluster.",
		Do:      "Set `cluster` as the fix says, or name other settings with `--config`.",
		Example: `/etc/pcs-capacity/config.toml is for cluster "ml", not for train`},
	{Code: ConfigRegion, Where: AtSetup, Severity: Admin,
		Text:    "The settings are for another region.",
		Do:      "Set `region` as the fix says.",
		Example: "/etc/pcs-capacity/config.toml is for region us-east-1, but the cluster is in us-east-2"},
	{Code: PartitionFile, Where: AtSetup, Severity: Admin,
		Text:    "The partition is in a file that `setup` does not write.",
		Do:      "Add the lines of the fix to that file.",
		Example: `partition "gpu" is written in /etc/pcs-capacity/config.toml, which is not ours to change`},
	{Code: NodeGroupName, Where: AtSetup, Severity: Admin,
		Text:    "Another partition of the settings has a node group of this name.",
		Do:      "Choose another `--node-group`.",
		Example: `node_group "gpu" is already in partition "train" of /etc/pcs-capacity/config.toml`},
	{Code: ConfigFolder, Where: AtSetup, Severity: Admin,
		Text:    "The settings cannot be written here.",
		Do:      "Run the command as a user who may write there, such as root, or name other settings with `--config`.",
		Example: "the settings cannot be written: open /etc/pcs-capacity/conf.d: permission denied"},
	{Code: StateDir, Where: AtSetup, Severity: Admin,
		Text:    "`state_dir` cannot be written here.",
		Do:      "Run the command as a user who may write there, such as root, or name another folder as `state_dir`.",
		Example: "state_dir cannot be written: open /var/lib/pcs-capacity: permission denied"},
	{Code: SlurmRights, Where: AtSetup, Severity: Admin,
		Text:    "This user may place no reservations in Slurm, and so no fences.",
		Do:      "Run the command as root or SlurmUser, or give this user AdminLevel=Operator with `sacctmgr`.",
		Example: "this user may place no reservations in Slurm, and so no fences"},
	{Code: SlurmctldSilent, Where: AtSetup, Severity: Admin,
		Text:    "slurmctld does not answer here, so no fence can be placed.",
		Do:      "See `systemctl status slurmctld` on the controller, or run the command where `scontrol ping` answers.",
		Example: "slurmctld does not answer here, so no fence can be placed: Unable to contact slurm controller"},
	{Code: FilterMissing, Where: AtSetup, Severity: Admin,
		Text:    "The program of the submit filter is not on this host, or cannot be run.",
		Do:      "Install the package.",
		Example: "/usr/bin/pcs-capacity-filter cannot be run by everybody: its mode is 0750; chmod 755 /usr/bin/pcs-capacity-filter"},
	{Code: ScriptMissing, Where: AtSetup, Severity: Admin,
		Text:    "cli_filter.lua is not on this host, is another version's, or Slurm is not set to run it.",
		Do:      "Run `pcs-capacity hooks install` as the fix says.",
		Example: "no folder with slurm.conf is here, and so no submit filter; run this on a login node, or write slurm.conf's path into SLURM_CONF, and run `pcs-capacity hooks install`"},
	{Code: SlurmSilent, Where: AtSetup, Severity: Admin,
		Text:    "Slurm does not answer, so it is not known whether jobs run on the nodes.",
		Do:      "Run the command where Slurm answers, or add `--force`.",
		Example: "Slurm does not answer: Unable to contact slurm controller"},
	{Code: NodesHaveInstances, Where: AtSetup, Severity: Admin,
		Text:    "The nodes have instances.",
		Do:      "Wait until these have ended.",
		Example: "these nodes have instances: 4"},
	{Code: JobsRun, Where: AtSetup, Severity: Admin,
		Text:    "Jobs run on the nodes.",
		Do:      "Wait until they have ended, or add `--force`.",
		Example: "jobs run on these nodes: 7, 8"},
}

// Who says who has to act.
func (m Meaning) Who() string {
	switch m.Severity {
	case User:
		return "the owner of the job"
	case Note:
		return "nobody"
	}
	return "an administrator"
}

// Page returns the page of a code.
func (c Code) Page() (Meaning, bool) {
	for _, m := range Codes {
		if m.Code == c {
			return m, true
		}
	}
	return Meaning{}, false
}

// Severity says who has to act on a problem with this code. For an AWS error code, an administrator has.
func (c Code) Severity() Severity {
	if m, ok := c.Page(); ok {
		return m.Severity
	}
	return Admin
}

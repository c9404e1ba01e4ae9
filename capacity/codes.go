package capacity

import "slices"

// Code is stable, for scripts, records and tests. It names the result of a job, a launch, a pass or a setup; Codes
// lists and explains each.
type Code string

// Verdicts about a job.
const (
	OK                  Code = "ok"
	NotManaged          Code = "not-managed"
	BadComment          Code = "bad-comment"
	AccountNotAllowed   Code = "account-not-allowed"
	WrongPartition      Code = "wrong-partition"
	UnknownReservation  Code = "unknown-reservation"
	NoMatchingCapacity  Code = "no-matching-capacity"
	NoReservation       Code = "no-reservation"
	ReservationNotKnown Code = "reservation-not-known"
	TooManyNodes        Code = "too-many-nodes"
	TooLong             Code = "too-long"
	Mismatched          Code = "mismatch"
)

// Launches that failed.
const (
	NotOpen               Code = "not-open"
	NoPlace               Code = "no-place"
	DifferentReservations Code = "different-reservations"
	JobGone               Code = "job-gone"
	Interrupted           Code = "interrupted"
	SharedWithRefused     Code = "shared-with-refused"
	NotBooted             Code = "not-booted"
	ReserveLimit          Code = "reserve-limit"
	FailedOtherwise       Code = "failed"
)

// Problems that a pass of sync, or status, finds.
const (
	AWSUnanswered        Code = "aws-unanswered"
	SlurmUnanswered      Code = "slurm-unanswered"
	SlurmUnread          Code = "slurm-unread"
	NoLimitEnds          Code = "no-limit-ends"
	AccountingUnanswered Code = "accounting-unanswered"
	ReservationMissing   Code = "reservation-missing"
	ReservationUnnamed   Code = "reservation-unnamed"
	ReservationEnded     Code = "reservation-ended"
	NeverOpens           Code = "never-opens"
	SubnetNotKnown       Code = "subnet-not-known"
	FenceNotKnown        Code = "fence-not-known"
	FenceDue             Code = "fence-due"
	PastFence            Code = "past-fence"
	InstancesNotKnown    Code = "instances-not-known"
	HeldNotKnown         Code = "held-not-known"
	HoldGroupUnread      Code = "hold-group-unread"
	NoNodeGroup          Code = "no-node-group"
	NodeGroupFailed      Code = "node-group-failed"
	RollOverDue          Code = "roll-over-due"
	RollOverFailed       Code = "roll-over-failed"
	SlotTaken            Code = "slot-taken"
	OtherOwner           Code = "other-owner"
	NameTaken            Code = "name-taken"
	NoPartition          Code = "no-partition"
	NoNodes              Code = "no-nodes"
	NodesLost            Code = "nodes-lost"
	NodesOutOfService    Code = "nodes-out"
	NodesOpening         Code = "nodes-opening"
	NodesFailed          Code = "test-failed"
	NodesUntested        Code = "test-undecided"
	TestUnusable         Code = "test-unusable"
	NodesUnused          Code = "nodes-unused"
	TailIdle             Code = "tail-idle"
	FeatureMissing       Code = "feature-missing"
	AllowAccounts        Code = "allow-accounts"
	AccountsUnchecked    Code = "accounts-unchecked"
	NotPreempted         Code = "not-preempted"
	OrphanInstances      Code = "orphan"
	ForeignMark          Code = "foreign-mark"
	WrongInstance        Code = "wrong-instance"
	HostFailed           Code = "host-failed"
	HostImpaired         Code = "host-impaired"
	LaunchFailed         Code = "launch-failed"
	NeverStarts          Code = "never-starts"
	ChangeFailed         Code = "change-failed"
	StateFile            Code = "state-file"
	AnotherRuns          Code = "another-runs"
	SettingsUnreadable   Code = "settings-unreadable"
	SettingsBroken       Code = "settings-broken"
	HeartbeatLost        Code = "heartbeat-lost"
	DeliveryFailed       Code = "delivery-failed"
	WrongZone            Code = "az"
	WrongType            Code = "instance-type"
	WrongPlatform        Code = "platform"
	WrongPurchase        Code = "purchase-option"
	WrongTenancy         Code = "tenancy"
	NoInstances          Code = "no-instances"
)

// Events that are only notices.
const (
	TestNotice  Code = "test"
	BlockOpened Code = "opened"
	BlockClosed Code = "closed"
	FenceNear   Code = "fence-near"
	NodesIdle   Code = "idle"
	NoSuccessor Code = "no-successor"
	BuyBy       Code = "buy-by"
	BlockSetUp  Code = "set-up"
)

// Reasons why a reservation does not fit a node group, or setup and teardown cannot go on.
const (
	ZoneUnknown        Code = "az-unknown"
	WrongSize          Code = "size"
	HasEnded           Code = "expired"
	PaymentPending     Code = "payment-pending"
	WrongState         Code = "state"
	ReservationUnknown Code = "reservation-unknown"
	ReservationInUse   Code = "reservation-in-use"
	NoCluster          Code = "cluster"
	ClusterStatus      Code = "cluster-status"
	OldSlurm           Code = "slurm-version"
	BadName            Code = "name"
	NotOurs            Code = "not-ours"
	OtherQueue         Code = "other-queue"
	SlotsTaken         Code = "slots-taken"
	InUse              Code = "in-use"
	PCSQuota           Code = "quota"
	ClusterSize        Code = "cluster-size"
	UnknownSettings    Code = "unknown-settings"
	NoLaunchTemplate   Code = "no-launch-template"
	LikeUnknown        Code = "like"
	BadUserData        Code = "user-data"
	BadImage           Code = "image"
	DriversUnknown     Code = "drivers"
	LaunchRefused      Code = "launch-refused"
	InstanceProfile    Code = "instance-profile"
	SecurityGroups     Code = "security-groups"
	RuleMissing        Code = "security-group-rule"
	NoWayOut           Code = "no-way-out"
	NoSubnets          Code = "subnets"
	SubnetUnknown      Code = "subnet-unknown"
	TooFewAddresses    Code = "addresses"
	EFAMissing         Code = "efa"
	WrongProvider      Code = "provider"
	SelectFails        Code = "select"
	BadSettings        Code = "settings"
	ConfigFile         Code = "config-file"
	ConfigCluster      Code = "config-cluster"
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

// States of jobs, nodes and partitions that explain and when answer.
const (
	Runs           Code = "runs"
	Boots          Code = "boots"
	Ended          Code = "ended"
	Held           Code = "held"
	WaitsToBegin   Code = "waits-to-begin"
	WaitsToOpen    Code = "waits-to-open"
	BehindFence    Code = "behind-the-fence"
	NextBlock      Code = "next-block"
	Constrained    Code = "constrained"
	WaitsForHosts  Code = "hosts-failed"
	WaitsInQueue   Code = "waits-in-queue"
	WaitsForHold   Code = "waits-for-hold"
	WaitsByRule    Code = "waits-by-rule"
	NeverByRule    Code = "never-by-rule"
	TakesJobs      Code = "open"
	Fenced         Code = "fenced"
	SurplusNode    Code = "surplus"
	PoweredDown    Code = "powered-down"
	NotUsable      Code = "not-usable"
	StartsNow      Code = "now"
	StartsOnDemand Code = "on-demand"
)

// Place names an occasion at which a code appears.
type Place string

// The places, and two marks of refusals.
const (
	AtSubmission Place = "submission" // of a job
	AtLaunch     Place = "launch"
	AtPass       Place = "pass" // of sync
	AtNotice     Place = "notice"
	AtSetup      Place = "setup"
	AtExplain    Place = "explain"
	AtStale      Place = "stale" // by what EC2 said, which may be out of date
	AtNever      Place = "never" // that no block, fence or time lifts: see Verdict.Outlook
)

// Meaning holds the page of a code.
type Meaning struct {
	Code     Code
	At       []Place  // the first is its heading in docs/codes.md
	Severity Severity // Severity says who has to act
	// Slurm is the Slurm error constant with which job_submit.lua refuses a job; "" if the filter never refuses with
	// this code.
	Slurm string
	// Text says what the code means, Do what to do about it. More is a section of docs/, "" for none.
	Text, Do, More string
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

// Meaning returns the page of a code.
func (c Code) Meaning() (Meaning, bool) {
	for _, m := range Codes {
		if m.Code == c {
			return m, true
		}
	}

	return Meaning{}, false
}

// AppearsAt reports whether the code appears at a place.
func (c Code) AppearsAt(place Place) bool {
	m, _ := c.Meaning()
	return slices.Contains(m.At, place)
}

// Never reports whether a job that is refused with this code can never start as it is: see Verdict.Outlook.
func (c Code) Never() bool { return c.AppearsAt(AtNever) }

// Severity says who has to act on a problem with this code. For an AWS error code, an administrator has.
func (c Code) Severity() Severity {
	if m, ok := c.Meaning(); ok {
		return m.Severity
	}
	return Admin
}

// Codes lists every code. docs/codes.md, the pages of `pcs-capacity explain CODE` and the list in its manual page are
// made from it.
var Codes = []Meaning{
	{
		Code:     OK,
		At:       []Place{AtSubmission, AtLaunch},
		Severity: Note,
		Text:     "The job fits, perhaps with a limit or a constraint that the filter chose.",
		Do:       "Nothing.",
	},
	{
		Code:     NotManaged,
		At:       []Place{AtSubmission},
		Severity: Note,
		Text:     "No partition of the job is in the settings; the job goes through unchanged.",
		Do:       "Nothing. To have the partition managed, add it to the settings.",
	},
	{
		Code:     BadComment,
		At:       []Place{AtSubmission, AtLaunch, AtNever},
		Severity: User,
		Slurm:    "ERROR",
		Text:     "A key in `--comment` has a value that cannot be right, or was written while the job runs.",
		Do:       "Write the key as the message says.",
		More:     "submitting-jobs.md#keys-in---comment",
	},
	{
		Code:     AccountNotAllowed,
		At:       []Place{AtSubmission, AtLaunch, AtNever},
		Severity: User,
		Slurm:    "ESLURM_INVALID_ACCOUNT",
		Text:     "The account is not in `allow_accounts` of the partition.",
		Do: "Submit with an `--account` that is. An administrator can add others there and to Slurm's " +
			"AllowAccounts, or give the user an account with `sacctmgr add user`.",
	},
	{
		Code:     WrongPartition,
		At:       []Place{AtSubmission, AtLaunch, AtNever},
		Severity: User,
		Slurm:    "ERROR",
		Text: "The reservation that the job names belongs to another partition, or a job of several nodes names " +
			"one whose nodes are in no block.",
		Do: "Submit to the partition that the message names, or leave out the one that it names.",
	},
	{
		Code:     UnknownReservation,
		At:       []Place{AtSubmission, AtLaunch},
		Severity: User,
		Slurm:    "ERROR",
		Text:     "The partition has no such reservation.",
		Do:       "Name one that the message lists, or none.",
	},
	{
		Code:     NoMatchingCapacity,
		At:       []Place{AtSubmission, AtLaunch, AtStale},
		Severity: User,
		Slurm:    "ERROR",
		Text:     "Nothing in the partition has the instance type or the subnet that `--comment` names.",
		Do:       "Take that key out, or name a value that the message lists.",
	},
	{
		Code:     NoReservation,
		At:       []Place{AtSubmission, AtLaunch, AtStale},
		Severity: Admin,
		Slurm:    "ERROR",
		Text:     "All reservations of the partition have ended or failed.",
		Do:       "Buy or add the next reservation, and run `setup`.",
	},
	{
		Code:     ReservationNotKnown,
		At:       []Place{AtSubmission, AtLaunch, AtPass},
		Severity: Admin,
		Text:     "EC2 does not describe a reservation of the settings.",
		Do:       "Check its id, the region, and whether its owner still shares it.",
	},
	{
		Code:     NotOpen,
		At:       []Place{AtLaunch},
		Severity: Note,
		Text:     "The reservation is not active: not yet, no longer, or another one has its nodes.",
		Do: "Wait: the job starts when the reservation opens or gets its nodes. If it has ended, see " +
			"`no-reservation`.",
	},
	{
		Code:     NoPlace,
		At:       []Place{AtLaunch},
		Severity: Note,
		Text:     "The reservation is too small for the job; another one of the same nodes is large enough.",
		Do:       "Wait for the larger one, or ask for fewer nodes.",
	},
	{
		Code:     TooManyNodes,
		At:       []Place{AtSubmission, AtLaunch, AtStale},
		Severity: User,
		Slurm:    "ESLURM_INVALID_NODE_COUNT",
		Text:     "The job needs more nodes, or more GPUs on a node, than the largest reservation has.",
		Do:       "Ask for as many as the message says.",
	},
	{
		Code:     TooLong,
		At:       []Place{AtSubmission, AtLaunch},
		Severity: User,
		Slurm:    "ESLURM_INVALID_TIME_LIMIT",
		Text:     "The time limit crosses the fence.",
		Do:       "Use the limit that the message gives, or leave `--time` out.",
	},
	{
		Code:     Mismatched,
		At:       []Place{AtSubmission, AtLaunch},
		Severity: Admin,
		Slurm:    "ERROR",
		Text:     "Reservation and node group differ in zone, instance type, platform, tenancy or purchase option.",
		Do:       "Run `pcs-capacity check`: it names the difference and its fix.",
	},
	{
		Code:     DifferentReservations,
		At:       []Place{AtLaunch},
		Severity: Note,
		Text:     "Jobs that share the nodes ask for different reservations.",
		Do:       "Nothing: the others are requeued. If it happens again, ask for whole nodes (`--exclusive`).",
	},
	{
		Code:     JobGone,
		At:       []Place{AtLaunch},
		Severity: Note,
		Text:     "The job ended before its nodes were launched.",
		Do:       "Nothing.",
	},
	{
		Code:     Interrupted,
		At:       []Place{AtLaunch},
		Severity: Note,
		Text:     "The hook was stopped, or ran out of time, before it could launch.",
		Do:       "Nothing: Slurm tries again. If it happens again, look in `resume.log` for where the time goes.",
	},
	{
		Code:     SharedWithRefused,
		At:       []Place{AtLaunch},
		Severity: Note,
		Text:     "A job on the same nodes is refused, and nothing is launched for them.",
		Do: "Nothing: Slurm tries the others again, without it. A job that cannot be requeued has to be " +
			"submitted again.",
	},
	{
		Code:     NotBooted,
		At:       []Place{AtLaunch},
		Severity: Admin,
		Text:     "The instance was launched, and the node did not come up within ResumeTimeout.",
		Do: "See the instance's console output: user data, way to slurmctld, munge. If it only needs more " +
			"time, raise ResumeTimeout.",
	},
	{
		Code:     ReserveLimit,
		At:       []Place{AtLaunch},
		Severity: Admin,
		Text:     "The settings allow no more to be held at once.",
		Do:       "Nothing: the job is tried again. To hold more, raise `max_instances` of `[reserve]`.",
	},
	{
		Code:     FailedOtherwise,
		At:       []Place{AtLaunch},
		Severity: Admin,
		Text:     "The launch failed for another reason, given in the message.",
		Do:       "See `resume.log` and `suspend.log`.",
	},
	{
		Code:     AWSUnanswered,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "AWS did not answer a question, or refused it. Nothing is deleted or moved.",
		Do:       "Look up AWS's code; without one, see whether this host reaches AWS.",
	},
	{
		Code:     SlurmUnanswered,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Slurm did not answer; fences, time limits and holds are unchanged.",
		Do:       "See whether slurmctld runs; the next pass goes on.",
	},
	{
		Code:     SlurmUnread,
		At:       []Place{AtPass},
		Severity: Admin,
		Text: "Slurm shows a job, partition or reservation in an unknown form. A job is left as it is; all " +
			"others are decided on.",
		Do: "Report what `squeue` or `scontrol show` prints of it, with Slurm's version.",
	},
	{
		Code:     NoLimitEnds,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Slurm lets jobs run over their time limits without end, so no limit ends a job at the fence.",
		Do:       "Set OverTimeLimit to a number of minutes: fences are earlier by so much.",
	},
	{
		Code:     AccountingUnanswered,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Slurm did not show what QOS and associations allow; no limit is raised past what was known.",
		Do:       "See whether slurmdbd runs; the next pass asks again.",
	},
	{
		Code:     ReservationMissing,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "EC2 leaves out a reservation that was live; it is kept for an hour.",
		Do:       "Check its id and region, and whether its owner still shares it.",
	},
	{
		Code:     ReservationUnnamed,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "A live reservation was taken out of the settings; its fence stays.",
		Do:       "Put it back, or delete the fence as the message says.",
	},
	{
		Code:     ReservationEnded,
		At:       []Place{AtPass},
		Severity: Note,
		Text:     "Reservations of the settings have ended.",
		Do:       "Nothing. They can leave the settings.",
	},
	{
		Code:     NeverOpens,
		At:       []Place{AtPass, AtNotice},
		Severity: Admin,
		Text:     "The payment of a reservation failed, or EC2 could not create it.",
		Do:       "Remove it from the settings; see `pcs-capacity list`.",
	},
	{
		Code:     SubnetNotKnown,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "EC2 does not describe a subnet of the settings.",
		Do:       "Correct `subnet_ids`.",
	},
	{
		Code:     FenceNotKnown,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "EC2 did not describe a reservation that only a fence names. The fence stays.",
		Do:       "Wait for the next pass.",
	},
	{
		Code:     FenceDue,
		At:       []Place{AtPass},
		Severity: Note,
		Text: "Slurm does not have a fence as `status` shows it: settings or the end of a reservation have " +
			"changed, or `sync` has not run.",
		Do: "Nothing: `sync` moves it in a pass or two. If it stays, see whether the service runs.",
	},
	{
		Code:     PastFence,
		At:       []Place{AtPass, AtSetup},
		Severity: Note,
		Text: "Jobs in a Slurm reservation of the site start although they do not end before the fence: Slurm " +
			"heeds no other reservation for one with MAINT, and none without MAINT for one with OVERLAP.",
		Do:   "Let it end by the fence, or make it without these flags.",
		More: "security.md#reservations-of-your-own",
	},
	{
		Code:     InstancesNotKnown,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "EC2 did not list the instances of this cluster, so no instance is ended.",
		Do:       "Wait for the next pass.",
	},
	{
		Code:     HeldNotKnown,
		At:       []Place{AtPass},
		Severity: Admin,
		Text: "EC2 did not list the ODCRs that are held for jobs, so none is released. Each ends by itself, " +
			"within an hour of its end.",
		Do: "Wait for the next pass.",
	},
	{
		Code:     HoldGroupUnread,
		At:       []Place{AtPass},
		Severity: Admin,
		Text: "AWS did not list the Capacity Reservation group of a compute node group with reserve = \"per-job\". PCS " +
			"launches nothing outside of it, so no capacity is held for jobs, and they wait.",
		Do: "If somebody has deleted the group, run the `setup` of the message.",
	},
	{
		Code:     NoNodeGroup,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "The next block is in the settings, but PCS has no compute node group for it.",
		Do:       "Run the `setup` of the message.",
	},
	{
		Code:     NodeGroupFailed,
		At:       []Place{AtPass, AtSetup},
		Severity: Admin,
		Text:     "PCS could not create, update or delete a compute node group; the message has PCS's reason.",
		Do:       "Remove the cause, and run the command of the message.",
	},
	{
		Code:     RollOverDue,
		At:       []Place{AtPass},
		Severity: Note,
		Text:     "The next block has no compute node group yet; with `roll_over`, the next pass of `sync` makes it.",
		Do:       "Nothing. If it stays, see whether the service runs.",
	},
	{
		Code:     RollOverFailed,
		At:       []Place{AtPass, AtNotice},
		Severity: Admin,
		Text:     "`sync` could not set up the next block, or remove the node group of an ended one. All else goes on.",
		Do:       "Remove the cause, which the message has; `sync` tries again.",
		More:     "operations.md#roll-over",
	},
	{
		Code:     SlotTaken,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Two blocks overlap, and their nodes take one at a time.",
		Do:       "Nothing if the later one can wait; else do as the message says, before it opens.",
	},
	{
		Code:     OtherOwner,
		At:       []Place{AtPass},
		Severity: Admin,
		Text: "A settings file at another path made a Slurm reservation. It is left alone, and keeps jobs off " +
			"its nodes.",
		Do: "Use one settings file for a cluster. Where nobody uses the others any more, delete it as the " +
			"message says.",
	},
	{
		Code:     NameTaken,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "A Slurm reservation that pcs-capacity did not make has one of its names.",
		Do:       "Rename or delete it.",
	},
	{
		Code:     NoPartition,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Slurm has no partition of this name.",
		Do:       "Add it (`hooks install`; on PCS `setup`), or remove it from the settings.",
	},
	{
		Code:     NoNodes,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Slurm has no nodes for a node group of the settings.",
		Do:       "Run `pcs-capacity hooks install` on the controller, or list the nodes in slurm.conf.",
	},
	{
		Code:     NodesLost,
		At:       []Place{AtPass},
		Severity: Admin,
		Text: "Slurm no longer shows nodes of a partition. Somebody has set them to FUTURE, or Slurm has: " +
			"before 25.05.7 and 25.11.3 it loses nodes that power down while slurmctld restarts.",
		Do: "Restart slurmctld; update such a Slurm before.",
	},
	{
		Code:     NodesOutOfService,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Nodes of an open reservation are drained, down or failed.",
		Do:       "Remove the cause, then return the nodes to service as the message says.",
	},
	{
		Code:     NodesOpening,
		At:       []Place{AtPass},
		Severity: Note,
		Text: "A block is open and nodes of it boot. Jobs start on them when they are up: all at once if that is " +
			"within two minutes, else node by node.",
		Do: "Nothing. A wait that does not end: see `pcs-capacity explain NODE` for what the node waits for.",
	},
	{
		Code:     NodesFailed,
		At:       []Place{AtPass, AtNotice},
		Severity: Admin,
		Text: "Nodes failed the test of their node group, `open_test`, alone. They are drained; those that our " +
			"ResumeProgram launches were launched again before, and failed again.",
		Do:   "Open a case with AWS Support as the message says.",
		More: "recipes.md#test-nodes-before-jobs-get-them",
	},
	{
		Code:     NodesUntested,
		At:       []Place{AtPass, AtNotice},
		Severity: Admin,
		Text: "`open_test` had no result within `open_test_limit`, could not run, or fails on nodes together that pass " +
			"alone. The nodes take jobs.",
		Do:   "Let the test end itself before the limit, or look at what lies between the nodes.",
		More: "recipes.md#test-nodes-before-jobs-get-them",
	},
	{
		Code:     TestUnusable,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "The file of `open_test` is not there, is no script, or others than root can change it.",
		Do:       "Correct it as the message says. Until then blocks open without a test.",
		More:     "recipes.md#test-nodes-before-jobs-get-them",
	},
	{
		Code:     NodesUnused,
		At:       []Place{AtPass},
		Severity: Note,
		Text: "A PCS compute node group is larger than `max_nodes`. Jobs are kept off the nodes beyond it, " +
			"which are paid for.",
		Do: "Raise `max_nodes` to use them.",
	},
	{
		Code:     TailIdle,
		At:       []Place{AtPass},
		Severity: Note,
		Text: "Nodes of an open block are idle and jobs wait, but each of these is too long to end before the fence. " +
			"The nodes are paid for.",
		Do: "Owners whose jobs can go on from a checkpoint submit with `--comment on_end=requeue`; or set " +
			"`on_end = \"requeue\"` for the partition. Others shorten `--time`.",
		More: "submitting-jobs.md",
	},
	{
		Code:     FeatureMissing,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "The node group has `slots = 2`, and its nodes lack the feature that tells the two halves apart.",
		Do:       "Run `pcs-capacity hooks install`, or add the feature in slurm.conf.",
	},
	{
		Code:     AllowAccounts,
		At:       []Place{AtPass, AtSetup},
		Severity: Admin,
		Text:     "Slurm's AllowAccounts is not the `allow_accounts` of the partition.",
		Do:       "Add AllowAccounts as the message says.",
		More:     "security.md#who-may-use-a-partition",
	},
	{
		Code:     AccountsUnchecked,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Slurm does not check the account that a user writes, so `allow_accounts` has no effect.",
		Do:       "Set AccountingStorageEnforce=associations.",
		More:     "security.md#who-may-use-a-partition",
	},
	{
		Code:     NotPreempted,
		At:       []Place{AtPass, AtSetup},
		Severity: Admin,
		Text: "Slurm's settings do not let jobs of a partition take its nodes back from jobs of its `spare` " +
			"partition, or do not requeue these.",
		Do:   "Change Slurm's settings as the message says.",
		More: "recipes.md#lend-what-nobody-uses",
	},
	{
		Code:     OrphanInstances,
		At:       []Place{AtPass},
		Severity: Note,
		Text:     "Instances that belong to no node take up capacity.",
		Do:       "Nothing: `sync` terminates them. If it happens again, see `suspend.log`.",
	},
	{
		Code:     ForeignMark,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Instances carry another cluster's tag, or an old one of this cluster. Nothing terminates them.",
		Do:       "Terminate them yourself if nobody needs them.",
	},
	{
		Code:     WrongInstance,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "The Prolog found an instance that differs from the reservation of its node.",
		Do:       "Power the node down: `scontrol update nodename=NODE state=power_down`.",
	},
	{
		Code:     HostFailed,
		At:       []Place{AtPass, AtNotice},
		Severity: Admin,
		Text:     "Another host of a block has failed.",
		Do:       "Open a case with AWS Support.",
		More:     "operations.md#when-something-fails",
	},
	{
		Code:     HostImpaired,
		At:       []Place{AtPass},
		Severity: Admin,
		Text: "EC2 calls the host of a node impaired, or is about to stop its instance; or the network of a " +
			"block is impaired.",
		Do: "Drain the node; when its jobs are over, power it down, and it gets another host. Open a case " +
			"with AWS Support.",
	},
	{
		Code:     LaunchFailed,
		At:       []Place{AtPass},
		Severity: Admin,
		Text: "The last launch of these nodes failed within the hour. A user problem where the job asks for " +
			"what it cannot have.",
		Do:   "Look up the code in the message: `pcs-capacity explain CODE`.",
		More: "codes.md",
	},
	{
		Code:     NeverStarts,
		At:       []Place{AtPass, AtNotice},
		Severity: User,
		Text: "A waiting job can never start as it is, or not as things are: with the blocks and fences of two " +
			"passes. Its `AdminComment` says which.",
		Do: "Its owner changes it as the message says, or cancels it.",
	},
	{
		Code:     ChangeFailed,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Slurm or AWS refused a change of `sync`; the message has its words.",
		Do:       "Wait: the next pass tries it again. If it stays, do as the words say.",
	},
	{
		Code:     StateFile,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "A file in `state_dir` cannot be read or written.",
		Do:       "See its owner and the disk. The file that the message names can be deleted.",
	},
	{
		Code:     AnotherRuns,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "Another program has a lock in `state_dir/private`.",
		Do:       "Wait until the process in the message ends, or end it.",
	},
	{
		Code:     SettingsUnreadable,
		At:       []Place{AtPass, AtLaunch},
		Severity: Admin,
		Text: "The hooks that slurmctld starts, which run as SlurmUser, cannot read the settings or the " +
			"environment. Nothing is launched.",
		Do:   "`pcs-capacity check` on the controller names the file; do as it says. The next launch reads it.",
		More: "wiring.md#on-self-managed-slurm",
	},
	{
		Code:     SettingsBroken,
		At:       []Place{AtPass},
		Severity: Admin,
		Text: "The settings have an error, have lost what they had, or name another state_dir or cluster; the " +
			"previous ones stay in use.",
		Do: "Correct the file; the next pass reads it. If it is meant so, restart sync.",
	},
	{
		Code:     HeartbeatLost,
		At:       []Place{AtPass, AtNotice},
		Severity: Admin,
		Text:     "AWS has not answered `sync` for longer than 10 minutes, or the service does not run.",
		Do:       "See `journalctl -u pcs-capacity-sync`, and whether this host reaches AWS.",
	},
	{
		Code:     DeliveryFailed,
		At:       []Place{AtPass},
		Severity: Admin,
		Text:     "The metrics file cannot be written, or `[notify]` did not deliver.",
		Do:       "Remove the cause; the next pass tries again.",
	},
	{
		Code:     TestNotice,
		At:       []Place{AtNotice},
		Severity: Note,
		Text:     "Somebody has run `pcs-capacity notify test`.",
		Do:       "Nothing.",
	},
	{
		Code:     BlockOpened,
		At:       []Place{AtNotice},
		Severity: Note,
		Text:     "A reservation has opened.",
		Do:       "Nothing: waiting jobs start. If none does, `pcs-capacity explain PARTITION`.",
	},
	{
		Code:     BlockClosed,
		At:       []Place{AtNotice},
		Severity: Note,
		Text:     "A reservation that had opened is over.",
		Do:       "Remove it from the settings.",
		More:     "operations.md#in-the-life-of-a-block",
	},
	{
		Code:     FenceNear,
		At:       []Place{AtNotice},
		Severity: Note,
		Text:     "An hour is left before a fence; again after an extension.",
		Do: "Let jobs save their work. If they need longer, extend the block soon: EC2 takes that until 1 " +
			"hour before its end.",
		More: "buying.md",
	},
	{
		Code:     NodesIdle,
		At:       []Place{AtNotice},
		Severity: Note,
		Text:     "Nodes of an open block have had no job for 30 minutes.",
		Do:       "See with `pcs-capacity explain PARTITION` which jobs wait, and why.",
	},
	{
		Code:     NoSuccessor,
		At:       []Place{AtNotice},
		Severity: Admin,
		Text:     "No block follows, and the last fence is less than 14 days away.",
		Do:       "Buy the next one, or extend this one.",
		More:     "buying.md",
	},
	{
		Code:     BuyBy,
		At:       []Place{AtNotice},
		Severity: Admin,
		Text: "Jobs of the queue are not done by the fence, an extension of the block would help, and in less than a " +
			"day it is too late to buy one: its payment can take 12 hours.",
		Do:   "Run `pcs-capacity fit --queue QUEUE`: it lists what is for sale, and when the queue would be done with each.",
		More: "buying.md",
	},
	{
		Code:     BlockSetUp,
		At:       []Place{AtNotice},
		Severity: Note,
		Text:     "With `roll_over`: the next block has its node group, and its nodes are in the queue.",
		Do:       "Nothing.",
	},
	{
		Code:     WrongZone,
		At:       []Place{AtPass, AtSetup},
		Severity: Admin,
		Text:     "A node group has no subnet in the Availability Zone of its reservation.",
		Do:       "Use a subnet in that zone.",
	},
	{
		Code:     ZoneUnknown,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "EC2 has not yet reported the reservation's Availability Zone.",
		Do:       "Run the command again once EC2 shows a zone.",
	},
	{
		Code:     WrongType,
		At:       []Place{AtPass, AtSetup},
		Severity: Admin,
		Text:     "A node group launches other instance types than its reservation has.",
		Do:       "Use the instance type of the reservation, or another reservation.",
	},
	{
		Code:     WrongPlatform,
		At:       []Place{AtPass, AtSetup},
		Severity: Admin,
		Text:     "The image of a node group has another platform than its reservation.",
		Do:       "Use an image for that platform, or another reservation.",
	},
	{
		Code:     WrongPurchase,
		At:       []Place{AtPass, AtSetup},
		Severity: Admin,
		Text:     "A node group does not buy the kind of its reservation.",
		Do:       "Set `purchase_option` as the fix says.",
	},
	{
		Code:     WrongTenancy,
		At:       []Place{AtPass, AtSetup},
		Severity: Admin,
		Text:     "A reservation has another tenancy than nodes are launched with.",
		Do:       "Use a reservation of default tenancy.",
	},
	{
		Code:     NoInstances,
		At:       []Place{AtPass, AtSetup},
		Severity: Admin,
		Text:     "EC2 shows an open reservation with a size of 0: jobs that need it are refused.",
		Do:       "See it in EC2, or use another reservation.",
	},
	{
		Code:     WrongSize,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "A node group would have more nodes than its reservation has instances.",
		Do:       "Use fewer nodes, or another reservation.",
	},
	{
		Code:     HasEnded,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The reservation has ended.",
		Do:       "Choose one that has not ended.",
	},
	{
		Code:     PaymentPending,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The payment of the reservation is still pending.",
		Do:       "Run the command again once its state is scheduled; EC2 bills within 5 minutes to 12 hours.",
	},
	{
		Code:     WrongState,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The reservation cannot be used in its state.",
		Do:       "Choose one that is scheduled or active, or wait.",
	},
	{
		Code:     ReservationUnknown,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "EC2 has no such reservation in this region.",
		Do:       "Check its id and `--region`.",
	},
	{
		Code:     ReservationInUse,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "Instances of the reservation are used already.",
		Do:       "Terminate them, or choose another reservation.",
	},
	{
		Code:     NoCluster,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "No PCS cluster is given, or none has that name.",
		Do:       "Give `--cluster` with a name that the fix lists.",
	},
	{
		Code:     ClusterStatus,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The PCS cluster cannot be changed in its state.",
		Do:       "Wait until it is ACTIVE.",
	},
	{
		Code:     OldSlurm,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "PCS needs Slurm 24.05 for Capacity Blocks.",
		Do:       "Use a cluster with a newer Slurm.",
	},
	{
		Code:     BadName,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "A queue or node group cannot have this name.",
		Do:       "Choose another one.",
	},
	{
		Code:     NotOurs,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "A resource in AWS has the name, but not our tag, so it is not changed.",
		Do:       "Choose another name, or tag it.",
	},
	{
		Code:     OtherQueue,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "A compute node group belongs to another queue, or is in one as well.",
		Do:       "Give `--queue` with that one, or remove the node group from it first.",
	},
	{
		Code:     SlotsTaken,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "Both compute node groups, `-a` and `-b`, are taken.",
		Do:       "Run the command again after a reservation has ended, or choose another `--node-group`.",
	},
	{
		Code:     InUse,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The change would replace instances under their jobs.",
		Do:       "Wait until the reservation has ended, or until the nodes are down.",
	},
	{
		Code:     PCSQuota,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "PCS allows no more compute node groups or queues in the cluster.",
		Do:       "Delete one that is not used.",
	},
	{
		Code:     ClusterSize,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The nodes of all node groups together are more than the size of the cluster allows.",
		Do:       "Give a smaller `--max-nodes`, lower the maximum of another node group, or use a larger cluster.",
	},
	{
		Code:     UnknownSettings,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "PCS has settings that this version does not know; the change could lose them.",
		Do:       "Change it in PCS.",
	},
	{
		Code:     NoLaunchTemplate,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "Somebody has taken its launch template from the compute node group.",
		Do:       "Delete it in PCS, and run `pcs-capacity setup` for it again.",
	},
	{
		Code:     LikeUnknown,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "There is nothing to copy from under the name of `--like`.",
		Do:       "Give `--like` with a name that the fix lists, or the values themselves.",
	},
	{
		Code:     BadUserData,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The user data cannot be used.",
		Do:       "Correct it in the launch template, or give another `--like`.",
	},
	{
		Code:     BadImage,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "No image is given, or EC2 does not have it.",
		Do:       "Give `--ami`.",
	},
	{
		Code:     DriversUnknown,
		At:       []Place{AtSetup},
		Severity: Note,
		Text: "Nothing says that the image has drivers for the GPUs of the instance type. Slurm drains a node " +
			"that shows fewer GPUs than configured.",
		Do:   "Give another image with `--ami`. Tag an image that has the drivers.",
		More: "setup.md#the-image",
	},
	{
		Code:     LaunchRefused,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "EC2 refused a dry run of the launch.",
		Do:       "Correct what EC2 names.",
	},
	{
		Code:     InstanceProfile,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "No instance profile is given.",
		Do:       "Give another `--like`.",
		More:     "permissions.md",
	},
	{
		Code:     SecurityGroups,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "No security group is given, or one cannot be used in this VPC.",
		Do:       "Give another `--like`.",
	},
	{
		Code:     RuleMissing,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text: "Security groups keep nodes from each other by EFA, which needs rules for all traffic from and to " +
			"its own group.",
		Do: "Run the command that is named: it adds the rule.",
	},
	{
		Code:     NoWayOut,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "Nodes in the subnet reach neither AWS PCS nor an endpoint for it, so they never register.",
		Do:       "Use a subnet with a route to a NAT gateway, or create the endpoint by the command that is named.",
	},
	{
		Code:     NoSubnets,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "No subnet is given for the nodes.",
		Do:       "Give `--subnet-ids`.",
	},
	{
		Code:     SubnetUnknown,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The VPC has no such subnet.",
		Do:       "Give others with `--subnet-ids`.",
	},
	{
		Code:     TooFewAddresses,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The subnet has too few free addresses for the nodes.",
		Do:       "Use a larger subnet, free some addresses, or give a smaller `--max-nodes`.",
	},
	{
		Code:     EFAMissing,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The instance type has no EFA.",
		Do:       "Leave out `--efa`.",
	},
	{
		Code:     WrongProvider,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The partition of the settings has another provider.",
		Do:       "Give `--provider` with that one, or choose another `--queue`.",
	},
	{
		Code:     SelectFails,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "`select` of the node group does not find the reservation.",
		Do:       "Tag it as `select` says, or choose another `--node-group`.",
	},
	{
		Code:     BadSettings,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The settings would not be valid with this node group.",
		Do:       "Choose another `--node-group`, or correct the settings.",
	},
	{
		Code:     ConfigFile,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "A file of the settings cannot be read, or somebody else wrote it.",
		Do:       "Make it readable, choose another `--queue`, or move the file away.",
	},
	{
		Code:     ConfigCluster,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The settings are for another cluster.",
		Do:       "Set `cluster` as the fix says, or name other settings with `--config`.",
	},
	{
		Code:     PartitionFile,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The partition is in a file that `setup` does not write.",
		Do:       "Add the lines of the fix to that file.",
	},
	{
		Code:     NodeGroupName,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "Another partition of the settings has a node group of this name.",
		Do:       "Choose another `--node-group`.",
	},
	{
		Code:     ConfigFolder,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The settings cannot be written here.",
		Do: "Run the command as a user who may write there, such as root, or name other settings with " +
			"`--config`.",
	},
	{
		Code:     StateDir,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "`state_dir` cannot be written here.",
		Do:       "Run the command as a user who may write there, such as root, or name another folder as `state_dir`.",
	},
	{
		Code:     SlurmRights,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "This user may not create reservations in Slurm, and so no fences.",
		Do:       "Run the command as root or SlurmUser, or give this user AdminLevel=Operator with `sacctmgr`.",
	},
	{
		Code:     SlurmctldSilent,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "slurmctld does not answer here, so no fence can be placed.",
		Do: "See `systemctl status slurmctld` on the controller, or run the command where `scontrol ping` " +
			"answers.",
	},
	{
		Code:     FilterMissing,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The program of the submit filter is not on this host, or cannot be run.",
		Do:       "Install the package.",
	},
	{
		Code:     ScriptMissing,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "cli_filter.lua is not on this host, is another version's, or Slurm is not set to run it.",
		Do:       "Run `pcs-capacity hooks install` as the fix says.",
	},
	{
		Code:     SlurmSilent,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "Slurm does not answer, so jobs may be running on the nodes.",
		Do:       "Run the command where Slurm answers, or add `--force`.",
	},
	{
		Code:     NodesHaveInstances,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "The nodes have instances.",
		Do:       "Wait until these have ended.",
	},
	{
		Code:     JobsRun,
		At:       []Place{AtSetup},
		Severity: Admin,
		Text:     "Jobs run on the nodes.",
		Do:       "Wait until they have ended, or add `--force`.",
	},
	{
		Code:     Runs,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "The job runs, or the node is up and takes jobs.",
		Do:       "Nothing.",
	},
	{
		Code:     Boots,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "The nodes are booting.",
		Do:       "Nothing: the job starts once they are up. If they never are, see `not-booted`.",
	},
	{
		Code:     Ended,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "The job is over, or another cluster of the federation runs it.",
		Do:       "See `sacct -j ID`.",
	},
	{
		Code:     Held,
		At:       []Place{AtExplain},
		Severity: User,
		Text:     "The job is held; the answer says by whom and why.",
		Do:       "Do as the answer says, then `scontrol release ID`.",
	},
	{
		Code:     WaitsToBegin,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "The job may not start yet: because of --begin, or of the pause after a requeue.",
		Do:       "Nothing, or `scontrol update jobid=ID starttime=now`.",
	},
	{
		Code:     WaitsToOpen,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "No reservation for it is open yet.",
		Do:       "Nothing: jobs start when it opens.",
	},
	{
		Code:     BehindFence,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "The job is too long for what is left of the open block, and waits for the next one.",
		Do:       "Nothing, or shorten it as the answer says.",
	},
	{
		Code:     NextBlock,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "The job was requeued at a fence, and waits for the next block.",
		Do:       "Nothing.",
	},
	{
		Code:     Constrained,
		At:       []Place{AtExplain},
		Severity: User,
		Text:     "The constraint of the job keeps it from the reservation that would take it.",
		Do: "Wait until nodes with that feature have their next block, or change the constraint: `scontrol " +
			"update jobid=ID features=`.",
	},
	{
		Code:     WaitsForHosts,
		At:       []Place{AtExplain},
		Severity: User,
		Text:     "Fewer hosts of the block are usable than the job asks for.",
		Do:       "Wait until the others are back, or ask for fewer nodes.",
	},
	{
		Code:     WaitsInQueue,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "A reservation takes the job; it waits for free nodes, or for its turn.",
		Do:       "Nothing.",
	},
	{
		Code:     WaitsForHold,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "On PCS, the job's nodes are launched once `sync` holds capacity for it; the answer says what prevents that.",
		Do:       "Usually nothing: `sync` tries in each pass.",
		More:     "holding.md",
	},
	{
		Code:     WaitsByRule,
		At:       []Place{AtExplain},
		Severity: User,
		Text:     "A reservation takes the job, but a dependency or a limit of Slurm holds it back.",
		Do:       "See `scontrol show job ID`.",
	},
	{
		Code:     NeverByRule,
		At:       []Place{AtExplain},
		Severity: User,
		Text:     "A job that this one depends on did not end as --dependency demands, or is not known.",
		Do:       "Cancel it, or let it run without: `scontrol update jobid=ID dependency=`.",
	},
	{
		Code:     TakesJobs,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "The partition takes jobs.",
		Do:       "Nothing.",
	},
	{
		Code:     Fenced,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "The fence has passed, so no job starts there until the next block.",
		Do:       "Nothing.",
	},
	{
		Code:     SurplusNode,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "The slot has more nodes than instances, or than `max_nodes`, and this one takes no jobs.",
		Do:       "Nothing.",
	},
	{
		Code:     PoweredDown,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "The node is powered down.",
		Do:       "Nothing: it is launched when a job needs it.",
	},
	{
		Code:     NotUsable,
		At:       []Place{AtExplain},
		Severity: Admin,
		Text:     "The node is drained, down or failed, and takes no jobs.",
		Do:       "Fix what its reason names, then return it to service as the answer says.",
	},
	{
		Code:     StartsNow,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "An open reservation takes the job, and enough of its nodes are idle.",
		Do:       "Nothing.",
	},
	{
		Code:     StartsOnDemand,
		At:       []Place{AtExplain},
		Severity: Note,
		Text:     "No reservation is needed: the nodes are launched on demand, if EC2 has room.",
		Do:       "Nothing.",
	},
}

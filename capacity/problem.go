package capacity

import (
	"context"
	_ "embed" // the table of codes
	"fmt"
	"slices"
	"strings"
)

// Severity says who has to act on a problem.
type Severity string

// The severities.
const (
	Admin Severity = "admin" // an administrator; only these make a status bad
	User  Severity = "user"  // the owner of a job
	Note  Severity = "note"  // nobody, but worth knowing
	Good  Severity = "ok"    // nobody: what was checked is as it should be
)

// Problem tells people what they should know, and who has to act on it. Two equal problems are the same problem.
type Problem struct {
	Code     Code     `json:"code,omitzero"` // stable, for scripts; Codes explains it
	Severity Severity `json:"severity"`
	About    Subject  `json:"about,omitzero"`
	// Sentence says what is wrong and where. Fix says what to do, "" if there is nothing to add.
	Sentence string `json:"message"`
	Fix      string `json:"fix,omitzero"`
}

// Problemf makes a problem with a formatted sentence; the code says who has to act on it.
func Problemf(code Code, about Subject, fix, format string, args ...any) Problem {
	return Problem{
		Code:     code,
		Severity: code.Severity(),
		About:    about,
		Sentence: fmt.Sprintf(format, args...),
		Fix:      fix,
	}
}

// Text returns the sentence followed by the fix.
func (p Problem) Text() string {
	if p.Fix == "" {
		return p.Sentence
	}
	return p.Sentence + "; " + p.Fix
}

// String writes a line for people: "problem: …", "user problem: …" or "note: …".
func (p Problem) String() string {
	switch p.Severity {
	case User:
		return "user problem: " + p.Text()
	case Note:
		return "note: " + p.Text()
	}

	return "problem: " + p.Text()
}

// Problems lists what people should know, each once.
type Problems []Problem

// Add appends problems that are not in the list yet.
func (ps *Problems) Add(problems ...Problem) {
	for _, p := range problems {
		same := func(o Problem) bool { return o.Severity == p.Severity && o.Sentence == p.Sentence && o.Fix == p.Fix }
		if !slices.ContainsFunc(*ps, same) {
			*ps = append(*ps, p)
		}
	}
}

// order returns the place of a severity in All; an unknown severity needs an administrator.
func (s Severity) order() int { return slices.Index([]Severity{User, Note, Good}, s) }

// All returns the problems, administrators' first.
func (ps Problems) All() Problems {
	byOrder := func(a, b Problem) int { return a.Severity.order() - b.Severity.order() }
	return append(Problems{}, slices.SortedStableFunc(slices.Values(ps), byOrder)...)
}

// Texts returns the texts of the problems on which one kind of people has to act.
func (ps Problems) Texts(severity Severity) (texts []string) {
	for _, p := range ps {
		if p.Severity.order() == severity.order() {
			texts = append(texts, p.Text())
		}
	}

	return texts
}

// Subject names what an action or a problem is about; an unused field is "".
type Subject struct {
	Partition   string `json:"partition,omitzero"`
	Slot        string `json:"slot,omitzero"`
	Node        string `json:"node,omitzero"` // a node, or a hostlist
	Job         string `json:"job,omitzero"`  // as squeue shows it: 12_3
	Instance    string `json:"instance,omitzero"`
	Reservation string `json:"reservation,omitzero"`
	Check       string `json:"check,omitzero"` // of `pcs-capacity check`: credentials, permission, slurmctld, …
}

// Action describes one change, decided and not yet made. W is the world that it is made in: the calls that a use case
// needs. `--dry-run`, the log, the record and `-o json` show the action itself.
type Action[W any] struct {
	Code  string // stable, for scripts: "create-fence"
	About Subject
	// Text tells people what will be done: "place the fence …". It is "" where only our own files change.
	Text string
	// Do makes the change by one or a few calls. It checks again what may have changed since the decision.
	Do func(ctx context.Context, w W) error
}

// Code is stable, for scripts, records and tests. It names the result of a job, a launch, a pass or a setup; Codes
// lists and explains each. Those that several places say or look at have a name here.
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
	NotOpen             Code = "not-open"
	NoPlace             Code = "no-place"
	TooManyNodes        Code = "too-many-nodes"
	TooLong             Code = "too-long"
	Mismatched          Code = "mismatch"
)

// Launches that failed.
const (
	NotBooted       Code = "not-booted"
	FailedOtherwise Code = "failed"
)

// Problems that a pass of sync, or status, finds.
const (
	AWSUnanswered      Code = "aws-unanswered"
	SlurmUnanswered    Code = "slurm-unanswered"
	SlurmUnread        Code = "slurm-unread"
	ReservationMissing Code = "reservation-missing"
	RollOverFailed     Code = "roll-over-failed"
	NoPartition        Code = "no-partition"
	SettingsUnreadable Code = "settings-unreadable"
	NoNodes            Code = "no-nodes"
	AllowAccounts      Code = "allow-accounts"
	AccountsUnchecked  Code = "accounts-unchecked"
	HostFailed         Code = "host-failed"
	HostImpaired       Code = "host-impaired"
	NeverStarts        Code = "never-starts"
	ChangeFailed       Code = "change-failed"
	StateFile          Code = "state-file"
	HeartbeatLost      Code = "heartbeat-lost"
)

// Reasons why a reservation does not fit a node group, or setup and teardown cannot go on.
const (
	WrongZone          Code = "az"
	WrongType          Code = "instance-type"
	WrongPlatform      Code = "platform"
	WrongPurchase      Code = "purchase-option"
	WrongTenancy       Code = "tenancy"
	WrongSize          Code = "size"
	NoInstances        Code = "no-instances"
	HasEnded           Code = "expired"
	WrongState         Code = "state"
	BadName            Code = "name"
	NotOurs            Code = "not-ours"
	OtherQueue         Code = "other-queue"
	NoLaunchTemplate   Code = "no-launch-template"
	LikeUnknown        Code = "like"
	BadImage           Code = "image"
	InstanceProfile    Code = "instance-profile"
	RuleMissing        Code = "security-group-rule"
	WrongProvider      Code = "provider"
	ConfigFile         Code = "config-file"
	ConfigCluster      Code = "config-cluster"
	PartitionFile      Code = "partition-file"
	SlurmRights        Code = "slurm-rights"
	FilterMissing      Code = "filter"
	ScriptMissing      Code = "cli_filter"
	SlurmSilent        Code = "slurm"
	NodesHaveInstances Code = "instances"
	JobsRun            Code = "jobs-run"
)

// Meaning holds the page of a code.
type Meaning struct {
	Code Code
	// At is where the code appears: at "submission" of a job, at a "launch", at a "pass" of sync, at "setup", or as a
	// "notice"; "stale" is for a refusal by what EC2 said, which may be out of date; "never" for one that no block,
	// fence or time lifts: see Verdict.Outlook.
	At       []string
	Severity Severity // Severity says who has to act
	// Slurm is the Slurm error constant with which job_submit.lua refuses a job; "" if the filter never refuses with
	// this code.
	Slurm string
	// Text says what the code means, Do what to do about it. More is a section of docs/, "" for none.
	Text, Do, More string
}

// table has a code a line: where it appears, who acts, Slurm's error, what it means, what to do, and more in docs/.
//
//go:embed codes.txt
var table string

// Codes lists every code. The lists in docs/ and the pages of `pcs-capacity explain CODE` are made from it.
var Codes = parseCodes(table)

func parseCodes(table string) (all []Meaning) {
	for line := range strings.Lines(table) {
		f := append(strings.Split(strings.TrimSpace(line), " | "), "") // More may be left out
		all = append(all, Meaning{
			Code:     Code(f[0]),
			At:       strings.Fields(f[1]),
			Severity: Severity(f[2]),
			Slurm:    strings.Trim(f[3], "-"),
			Text:     f[4],
			Do:       f[5],
			More:     f[6],
		})
	}

	return all
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

// AppearsAt reports whether the code appears at a place: see Meaning.
func (c Code) AppearsAt(place string) bool {
	m, _ := c.Meaning()
	return slices.Contains(m.At, place)
}

// Never reports whether a job that is refused with this code can never start as it is: see Verdict.Outlook.
func (c Code) Never() bool { return c.AppearsAt("never") }

// Severity says who has to act on a problem with this code. For an AWS error code, an administrator has.
func (c Code) Severity() Severity {
	if m, ok := c.Meaning(); ok {
		return m.Severity
	}
	return Admin
}

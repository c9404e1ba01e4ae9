package canary

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Step is one thing that is done to ask EC2 something without a block.
type Step string

// The steps, in their order.
const (
	Search     Step = "search"
	TryBuy     Step = "try to buy"
	TryLaunch  Step = "try to launch"
	Hold       Step = "hold"
	Locate     Step = "locate"
	LaunchOne  Step = "launch"
	Find       Step = "find"
	LaunchMore Step = "launch more"
	End        Step = "end"
	Repeat     Step = "repeat"
	Return     Step = "return"
	Cancel     Step = "cancel"
)

// Saw is what a step saw.
type Saw struct {
	// Code is AWS's error code, Said its message, or what went wrong here; both "" where the step went well.
	Code, Said string
	// Value is what the step found, Took its time by AWS's clock.
	Value string
	Took  time.Duration
	// Late: the step was given up.
	Late bool
}

func (s Saw) ok() bool { return s.Code == "" && s.Said == "" && !s.Late }

// Seen is what each step saw that was taken.
type Seen map[Step]Saw

// Question is one thing that no documentation says and a free run settles.
type Question struct {
	// ID is stable. States is what the product assumes.
	ID, States string
	// How says how it is seen, Costs what it makes; "" for a read or a dry run.
	How, Costs string
	// Step asks it.
	Step Step
	// read decides on what the step saw.
	read func(Saw) (Outcome, string)
}

// Questions are those of `canary --free`, in the order in which they are asked.
var Questions = []Question{
	{ID: "block-quota", States: "the account may search for and have Capacity Blocks", Step: Search,
		How: "DescribeCapacityBlockOfferings for one instance and one day", read: whole},
	{ID: "purchase-tags", States: "PurchaseCapacityBlock takes our tags on the capacity reservation", Step: TryBuy,
		How: "PurchaseCapacityBlock with DryRun, for the first offering; nothing is bought", read: whole},
	{ID: "all-interfaces", States: "EC2 takes a launch with every network interface of the block type", Step: TryLaunch,
		How: "RunInstances with DryRun; a dry run says nothing of capacity", read: whole},
	{ID: "short-odcr", States: "EC2 takes an ODCR that ends in 30 minutes", Step: Hold,
		How: "CreateCapacityReservation, targeted", Costs: "an ODCR of one instance, cancelled at the end of the run", read: whole},
	{ID: "topology", States: "EC2 answers for the topology of a new ODCR, without an error", Step: Locate,
		How: "DescribeCapacityReservationTopology of that ODCR", read: whole},
	{ID: "odcr-settles", States: "a launch into a new ODCR is taken within 15 s", Step: LaunchOne,
		How: "RunInstances, again while EC2 has no room or knows no such reservation", Costs: "one instance in the ODCR, for a few minutes", read: settles},
	{ID: "tags-settle", States: "a new instance is found by its tags within 15 s", Step: Find,
		How: "DescribeInstances by tag, each second", read: settles},
	{ID: "full-code", States: "a launch into a full ODCR is refused with ReservationCapacityExceeded", Step: LaunchMore,
		How: "a second RunInstances, with another client token", Costs: "nothing, where it is refused", read: refusedWith("ReservationCapacityExceeded")},
	{ID: "place-returns", States: "the place of a terminated instance is free again within 5 minutes", Step: Return,
		How: "DescribeCapacityReservations, each 5 s, for at most 10 minutes", read: within(5 * time.Minute)},
	{ID: "token-ends", States: "the client token of a terminated instance answers IdempotentInstanceTerminated", Step: Repeat,
		How: "the first RunInstances again, once the place is free", Costs: "nothing, where it is refused", read: refusedWith("IdempotentInstanceTerminated")},
	{ID: "cancel-settles", States: "a cancelled ODCR shows as cancelled within 15 s", Step: Cancel,
		How: "CancelCapacityReservation, then reads", read: settles},
}

// settledTime is how long the product waits for EC2 to show what is new.
const settledTime = 15 * time.Second

// order are all steps, with those that have to go well before each.
var order = []struct {
	step  Step
	needs []Step
}{
	{Search, nil}, {TryBuy, []Step{Search}}, {TryLaunch, nil},
	{Hold, nil}, {Locate, []Step{Hold}}, {LaunchOne, []Step{Hold}}, {Find, []Step{LaunchOne}}, {LaunchMore, []Step{LaunchOne}},
	{End, []Step{LaunchOne}}, {Return, []Step{End}}, {Repeat, []Step{Return}}, {Cancel, []Step{Hold}},
}

// next is the step to be taken after those that were; false after the last.
func next(seen Seen) (Step, bool) {
	for _, o := range order {
		if _, taken := seen[o.step]; !taken && seen.whyNot(o.step) == "" {
			return o.step, true
		}
	}
	return "", false
}

// whyNot says which step before this one did not go well, and what it saw; "" if all did.
func (seen Seen) whyNot(step Step) string {
	for _, o := range order {
		for _, need := range o.needs {
			if o.step != step {
				continue
			}
			if why := seen.whyNot(need); why != "" {
				return why
			}
			if saw, taken := seen[need]; !taken {
				return "the run ended before"
			} else if !saw.ok() {
				return fmt.Sprintf("%s: %s", need, saw.said())
			}
		}
	}
	return ""
}

// decide answers each question by what was seen.
func decide(seen Seen, at time.Time) (all []Answer) {
	for _, q := range Questions {
		a := Answer{ID: q.ID, States: q.States, Outcome: Unknown, At: at}
		if saw, taken := seen[q.Step]; taken {
			a.Outcome, a.Evidence = q.read(saw)
		} else {
			a.Evidence = "not asked: " + cmp.Or(seen.whyNot(q.Step), "the run ended before")
		}
		a.Evidence = Redact(a.Evidence)
		all = append(all, a)
	}
	return all
}

func (s Saw) said() string {
	var parts []string
	for _, part := range []string{s.Code, s.Said, s.Value} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if s.Late {
		parts = append(parts, "given up after "+s.Took.Round(time.Second).String())
	}
	return strings.Join(parts, ": ")
}

// noVerdict are codes that say something of the caller, the account, the zone or the moment, and
// nothing of a question.
var noVerdict = []string{"UnauthorizedOperation", "AccessDenied", "RequestLimitExceeded", "InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable",
	"RequestTimeout", "InsufficientInstanceCapacity", "VcpuLimitExceeded", "InstanceLimitExceeded", "Unsupported", "InsufficientFreeAddressesInSubnet",
	"InvalidAMIID.NotFound", "InvalidSubnetID.NotFound", "DefaultVpcDoesNotExist"}

func (s Saw) noVerdict() bool {
	return slices.Contains(noVerdict, s.Code) || s.Code == "" && s.Said != ""
}

// whole confirms a step that went well.
func whole(s Saw) (Outcome, string) {
	switch {
	case s.noVerdict():
		return Unknown, s.said()
	case s.ok():
		return Confirmed, s.Value
	}
	return Refuted, s.said()
}

func settles(s Saw) (Outcome, string) { return within(settledTime)(s) }

// within confirms a step that went well in time.
func within(limit time.Duration) func(Saw) (Outcome, string) {
	return func(s Saw) (Outcome, string) {
		switch {
		case s.noVerdict():
			return Unknown, s.said()
		case s.Late || !s.ok():
			return Refuted, s.said()
		case s.Took > limit:
			return Refuted, "after " + s.Took.Round(time.Second).String()
		}
		return Confirmed, "after " + s.Took.Round(time.Second).String()
	}
}

// refusedWith confirms a refusal of one code.
func refusedWith(code string) func(Saw) (Outcome, string) {
	return func(s Saw) (Outcome, string) {
		switch {
		case s.Code == code:
			return Confirmed, s.said()
		case s.ok():
			return Refuted, "EC2 took it: " + s.Value
		case s.noVerdict() && s.Code != "InsufficientInstanceCapacity":
			return Unknown, s.said()
		}
		return Refuted, s.said()
	}
}

var private = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`arn:[^\s'",;]+`), "ARN"},
	{regexp.MustCompile(`\b\d{12}\b`), "ACCOUNT"},
	{regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{12,}\b`), "KEY"},
	{regexp.MustCompile(`\b(ami|cb|cr|eni|i|lt|pcs|sg|subnet|vol|vpc)([-_])[0-9a-z]{8,17}\b`), "${1}${2}…"},
	{regexp.MustCompile(`(?i)(encoded authorization failure message: )\S+`), "${1}…"},
}

// Redact takes ARNs, accounts, keys, ids and encoded messages out of a text that is to be shown to others.
func Redact(text string) string {
	for _, p := range private {
		text = p.pattern.ReplaceAllString(text, p.instead)
	}
	return text
}

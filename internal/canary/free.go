package canary

import (
	"fmt"
	"regexp"
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
	// Step asks it, after Needs went well.
	Step  Step
	Needs []Step
	// read decides on what the step saw.
	read func(Saw) (Outcome, string)
}

// Questions are those of `canary --free`, in the order in which they are asked.
var Questions = []Question{
	{ID: "block-quota", States: "the account may search for and have Capacity Blocks", Step: Search,
		How: "DescribeCapacityBlockOfferings for one instance and one day", read: whole},
	{ID: "purchase-tags", States: "PurchaseCapacityBlock takes our tags on the capacity reservation", Step: TryBuy, Needs: []Step{Search},
		How: "PurchaseCapacityBlock with DryRun, for the first offering; nothing is bought", read: whole},
	{ID: "all-interfaces", States: "EC2 takes a launch with every network interface of the block type", Step: TryLaunch,
		How: "RunInstances with DryRun; a dry run says nothing of capacity", read: whole},
	{ID: "short-odcr", States: "EC2 takes an ODCR that ends in 30 minutes", Step: Hold,
		How: "CreateCapacityReservation, targeted", Costs: "an ODCR of one instance, cancelled at the end of the run", read: whole},
	{ID: "topology", States: "EC2 answers for the topology of a new ODCR, without an error", Step: Locate, Needs: []Step{Hold},
		How: "DescribeCapacityReservationTopology of that ODCR", read: whole},
	{ID: "odcr-settles", States: "a launch into a new ODCR is taken within 15 s", Step: LaunchOne, Needs: []Step{Hold},
		How: "RunInstances, again while EC2 has no room or knows no such reservation", Costs: "one instance in the ODCR, for a few minutes", read: settles},
	{ID: "tags-settle", States: "a new instance is found by its tags within 15 s", Step: Find, Needs: []Step{LaunchOne},
		How: "DescribeInstances by tag, each second", read: settles},
	{ID: "full-code", States: "a launch into a full ODCR is refused with ReservationCapacityExceeded", Step: LaunchMore, Needs: []Step{LaunchOne},
		How: "a second RunInstances, with another client token", Costs: "none, where it is refused", read: refusedWith("ReservationCapacityExceeded")},
	{ID: "token-ends", States: "the client token of a terminated instance answers IdempotentInstanceTerminated", Step: Repeat, Needs: []Step{LaunchOne, End},
		How: "the first RunInstances again, once the instance is terminated", Costs: "none, where it is refused", read: refusedWith("IdempotentInstanceTerminated")},
	{ID: "place-returns", States: "the place of a terminated instance is free again within 5 minutes", Step: Return, Needs: []Step{LaunchOne, End},
		How: "DescribeCapacityReservations, each 5 s, for at most 10 minutes", read: within(5 * time.Minute)},
	{ID: "cancel-settles", States: "a cancelled ODCR shows as cancelled within 15 s", Step: Cancel, Needs: []Step{Hold},
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
	{End, []Step{LaunchOne}}, {Repeat, []Step{End}}, {Return, []Step{End}}, {Cancel, []Step{Hold}},
}

// next is the step to be taken after those that were; false after the last.
func next(seen Seen) (Step, bool) {
	for _, o := range order {
		if _, taken := seen[o.step]; taken {
			continue
		}
		ready := true
		for _, need := range o.needs {
			saw, taken := seen[need]
			ready = ready && taken && saw.ok()
		}
		if ready {
			return o.step, true
		}
	}
	return "", false
}

// decide answers each question by what was seen.
func decide(seen Seen, at time.Time) (all []Answer) {
	for _, q := range Questions {
		a := Answer{ID: q.ID, States: q.States, Outcome: Unknown, At: at}
		if saw, taken := seen[q.Step]; taken {
			a.Outcome, a.Evidence = q.read(saw)
		} else {
			a.Evidence = "not asked: " + missing(q, seen)
		}
		a.Evidence = Redact(a.Evidence)
		all = append(all, a)
	}
	return all
}

func missing(q Question, seen Seen) string {
	for _, need := range q.Needs {
		if saw, taken := seen[need]; taken && !saw.ok() {
			return fmt.Sprintf("step %q: %s", need, saw.said())
		}
	}
	return "the run ended before"
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

// noVerdict are codes that say something of the caller, or of the moment, and not of the question.
func (s Saw) noVerdict() bool {
	switch s.Code {
	case "UnauthorizedOperation", "AccessDenied", "RequestLimitExceeded", "InternalError", "ServiceUnavailable", "InsufficientInstanceCapacity", "VcpuLimitExceeded",
		"InvalidAMIID.NotFound", "InvalidSubnetID.NotFound":
		return true
	}
	return s.Code == "" && s.Said != ""
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
	{regexp.MustCompile(`(?i)(encoded authorization failure message: )\S+`), "${1}…"},
}

// Redact takes ARNs, account ids and encoded messages out of a text that is to be shown to others.
func Redact(text string) string {
	for _, p := range private {
		text = p.pattern.ReplaceAllString(text, p.instead)
	}
	return text
}

package site

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Answers are EC2's answers to dry runs of a node group's launches.
type Answers struct {
	// Refusals prevent launches.
	Refusals []capacity.Problem
	// Unasked is the reason why EC2 was not asked or did not answer; "" if it did.
	Unasked string
	// OK names the subnets that EC2 would launch into, and what its answer leaves open; "" for none.
	OK string
}

// Tried judges EC2's answers for a node group. err is the reason why nothing was asked.
func Tried(group string, tried []ec2.Tried, err error) Answers {
	var a Answers
	var takes []string
	aside := false
	refused := map[string][]string{} // subnets, by EC2's words
	var words []string
	silent := func(words string) {
		a.Unasked = "EC2 did not say whether it would launch a node of " + group + ": " + words
	}
	if err != nil {
		silent(ec2.Message(err))
	}
	for _, one := range tried {
		aside = aside || one.Aside
		switch one.Verdict {
		case ec2.Takes:
			takes = append(takes, one.SubnetID)
		case ec2.Denied:
			a.Unasked = fmt.Sprintf("whether EC2 would launch a node of %s was not asked: %s is not allowed here",
				group, one.Says)
		case ec2.Silent:
			silent(one.Says)
		case ec2.Refuses:
			text := one.Code + ": " + one.Says
			if refused[text] == nil {
				words = append(words, text)
				fix := cmp.Or(one.Fix, "mend what EC2 names in the launch template or in the flags")
				a.Refusals = append(a.Refusals, capacity.Problem{
					Code:     capacity.LaunchRefused,
					Severity: capacity.LaunchRefused.Severity(),
					Fix:      fix,
				})
			}
			refused[text] = append(refused[text], one.SubnetID)
		}
	}
	for i, text := range words {
		a.Refusals[i].Sentence = fmt.Sprintf("EC2 would not launch a node of %s into %s: %s", group,
			strings.Join(refused[text], " or "), text)
	}
	if len(takes) > 0 {
		without := ""
		if aside {
			without = ", tried without the reservation, which takes no launch now"
		}
		a.OK = fmt.Sprintf("EC2's dry run would launch a node of %s into %s%s; a dry run says nothing about room",
			group, strings.Join(takes, " or "), without)
	}
	return a
}

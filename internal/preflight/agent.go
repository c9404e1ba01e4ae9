package preflight

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// actionsAgent is the first PCS agent that runs lifecycle actions: AWS PCS User Guide, "Configure node lifecycle actions
// in AWS PCS".
var actionsAgent = []int{1, 5, 0, 1}

// agentOf is what PCS's own images say in their description. Of another image the agent is not known.
var agentOf = regexp.MustCompile(`PCS Agent: ((\d+)\.(\d+)\.(\d+)-(\d+))`)

// oldAgent looks for an image whose agent runs none of the lifecycle actions.
func oldAgent(s Seen) []capacity.Problem {
	found := agentOf.FindStringSubmatch(s.Image.Description)
	if s.Image.ID == "" || s.Actions == nil || found == nil {
		return nil
	}
	var version []int
	for _, part := range found[2:] {
		n, _ := strconv.Atoi(part) // digits; one that is too large is new enough
		version = append(version, n)
	}
	if slices.Compare(version, actionsAgent) >= 0 {
		return nil
	}
	return s.problem(capacity.OldAgent, "give an image with PCS agent 1.5.0-1 or newer with --ami",
		"image %s (%s) has PCS agent %s, which runs no lifecycle actions (%s)", s.Image.ID, s.Image.Name, found[1],
		s.Actions)
}

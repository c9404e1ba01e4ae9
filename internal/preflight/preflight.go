// Package preflight judges image, network, instance profile and tags of a launch before anything is
// created or bought. EC2 and PCS accept most faults in a template, then refuse every launch, or
// launch nodes that never join. setup, check and purchase share these checks.
//
// Judge is pure; Read makes the calls, side by side.
package preflight

import (
	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Seen holds the parts of a node group's launches, as far as they could be read.
type Seen struct {
	Provider capacity.Provider
	// Group is the node group, on PCS the slot.
	Group string
	// Source is the name of the launch template to correct: the one that setup copies, else the
	// nodes' own.
	Source string
	// Template is the nodes' launch template; on PCS with the image and the instance profile of the
	// node group.
	Template capacity.LaunchTemplate
	// Actions are the lifecycle actions of nodes of PCS.
	Actions pcs.LifecycleActions
	// Image is the nodes' image; zero if unknown.
	Image ec2.Image
	// Type is the instance type; zero if unknown.
	Type ec2.InstanceType
	// MetadataTags: the account's default shows tags in instance metadata.
	MetadataTags bool
	Profile      Profile
	Network      Network
}

// judgements are the checks, independent of each other. A problem for an administrator prevents
// launches or working nodes; a note is a warning.
var judgements = []func(Seen) []capacity.Problem{
	tagKeys,
	architecture,
	drivers,
	protected,
	profile,
	wayOut,
	missingRules,
}

// Judge returns all problems.
func Judge(s Seen) []capacity.Problem {
	var all []capacity.Problem
	for _, judge := range judgements {
		all = append(all, judge(s)...)
	}
	return all
}

// protected finds termination protection: nodes could be launched, but never ended.
func protected(s Seen) []capacity.Problem {
	if !s.Template.Protected {
		return nil
	}
	return s.problem(capacity.Protected, "set DisableApiTermination to false in it",
		"launch template %s protects instances from termination, so that nodes are never ended", s.Source)
}

// Stops reports whether a problem prevents launches; else it is a warning.
func Stops(p capacity.Problem) bool { return p.Severity != capacity.Note }

func (s Seen) problem(code capacity.Code, fix, message string, args ...any) []capacity.Problem {
	return []capacity.Problem{capacity.Problemf(code, capacity.Subject{}, fix, message, args...)}
}

// Package preflight judges what nodes are to be launched with, before anything is created or
// bought: EC2 and PCS take most of it in a template, and refuse each launch later, or launch nodes
// that never join. setup, check and purchase ask the same questions.
//
// Judge is pure; Read reads for those who have not read yet, side by side.
package preflight

import (
	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Seen is what the nodes of one node group are launched with, as far as it could be read.
type Seen struct {
	Provider capacity.Provider
	// Group is the node group, on PCS the slot.
	Group string
	// Source is the name of the launch template in which a person mends what comes from a template:
	// the one that setup copies, else that of the nodes.
	Source string
	// Template is what nodes are launched from. On PCS it has the image and the instance profile of
	// the node group.
	Template capacity.LaunchTemplate
	// Image is the one that nodes boot; zero if it is not known.
	Image ec2.Image
	// Type is the instance type; zero if it is not known.
	Type ec2.InstanceType
	// MetadataTags: by the account's default, instances find their tags in their metadata.
	MetadataTags bool
	Profile      Profile
	Network      Network
}

// judgements are the questions, each by itself. A problem for an administrator keeps nodes from being
// launched or from working; a note is a warning.
var judgements = []func(Seen) []capacity.Problem{tagKeys, architecture, drivers, protected, profile, wayOut, missingRules}

// Judge says everything that is wrong with what was seen.
func Judge(s Seen) []capacity.Problem {
	var all []capacity.Problem
	for _, judge := range judgements {
		all = append(all, judge(s)...)
	}
	return all
}

// protected says that nodes could be launched, and never ended.
func protected(s Seen) []capacity.Problem {
	if !s.Template.Protected {
		return nil
	}
	return s.problem(capacity.Protected, "set DisableApiTermination to false in it",
		"launch template %s protects instances from termination, so that nodes are never ended", s.Source)
}

// Stops reports whether a problem stands in the way; else it is a warning.
func Stops(p capacity.Problem) bool { return p.Severity != capacity.Note }

func (s Seen) problem(code capacity.Code, fix, message string, args ...any) []capacity.Problem {
	return []capacity.Problem{capacity.Problemf(code, capacity.Subject{}, fix, message, args...)}
}

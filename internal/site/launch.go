package site

import (
	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Launch holds the parts of a node group's launches, as far as they could be read.
type Launch struct {
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
	// NoKeyPair: EC2 does not have the template's key pair.
	NoKeyPair bool
	// ClusterARN is that of the PCS cluster.
	ClusterARN string
	Profile    Profile
	Network    Network
	// Brief: it is launched as another that runs, so that only what the template names is read and judged.
	Brief bool
}

// judgements are the checks, independent of each other. EC2 and PCS accept most faults in a template, then refuse
// every launch, or launch nodes that never join. A problem for an administrator prevents launches or working nodes;
// a note is a warning.
var judgements = []func(Launch) []capacity.Problem{
	tagKeys,
	architecture,
	drivers,
	protected,
	profile,
	keyPair,
	securityGroups,
	wayOut,
	missingRules,
}

// Judge returns all problems.
func Judge(s Launch) []capacity.Problem {
	var all []capacity.Problem
	for _, judge := range judgements {
		all = append(all, judge(s)...)
	}
	return all
}

// protected finds termination protection: nodes could be launched, but never ended.
func protected(s Launch) []capacity.Problem {
	if !s.Template.Protected {
		return nil
	}
	return s.problem(capacity.Protected, "set DisableApiTermination to false in it",
		"launch template %s protects instances from termination, so that nodes are never ended", s.Source)
}

func keyPair(s Launch) []capacity.Problem {
	if !s.NoKeyPair {
		return nil
	}
	return s.problem(capacity.KeyPair, "make that key pair, or name another or none in "+s.Source,
		"EC2 has no key pair %q, which %s names", s.Template.KeyName, s.Source)
}

// securityGroups finds groups that nodes cannot have.
func securityGroups(s Launch) (all []capacity.Problem) {
	if s.Network.Groups == nil {
		return nil
	}
	for _, id := range s.Template.SecurityGroupIDs {
		switch g, known := s.Network.Groups[id]; {
		case !known:
			all = append(all, s.problem(capacity.SecurityGroups, "correct that in "+s.Source, "EC2 has no security group %s in %s", id, s.Network.Region)...)
		case s.Network.elsewhere(g):
			all = append(all, s.problem(capacity.SecurityGroups, "name one of "+s.Network.Subnets[0].VPC+" in "+s.Source,
				"security group %s is in %s, but the nodes are in %s", id, g.VPC, s.Network.Subnets[0].VPC)...)
		}
	}
	return all
}

// Stops reports whether a problem prevents launches; else it is a warning.
func Stops(p capacity.Problem) bool { return p.Severity != capacity.Note }

func (s Launch) problem(code capacity.Code, fix, message string, args ...any) []capacity.Problem {
	return []capacity.Problem{capacity.Problemf(code, capacity.Subject{}, fix, message, args...)}
}

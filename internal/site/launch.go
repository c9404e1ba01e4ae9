package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Launch holds the parts of a node group's launches, as far as they could be read.
type Launch struct {
	Provider capacity.Provider
	Group    string // the node group, on PCS the slot
	Source   string // the name of the launch template to correct: the one that setup copies, else the nodes' own
	// Template is the nodes' launch template; on PCS with the image and the instance profile of the node group.
	Template capacity.LaunchTemplate
	Image    ec2.Image        // the nodes' image; zero if unknown
	Type     ec2.InstanceType // the instance type; zero if unknown
	Network  Network
	Unread   Unread

	trial ec2.Trial // of a node
	tried Read[[]ec2.Tried]
}

// Unread is why parts of a launch are not known; nil for a part that was read.
type Unread struct {
	Image   error // of the image and the instance type
	Network error // of security groups, routes and endpoints
}

// Read completes a launch from EC2, side by side. What cannot be read stays as it is.
func (l *Launch) Read(ctx context.Context, aws *ec2.Client) {
	var all sync.WaitGroup
	all.Go(func() { l.Unread.Image = l.readImage(ctx, aws) })
	all.Go(func() { l.Unread.Network = l.readNetwork(ctx, aws) })
	all.Wait()
}

// readImage reads the type and the image. Systems Manager names one that does not begin with ami-.
func (l *Launch) readImage(ctx context.Context, aws *ec2.Client) (err error) {
	if l.Type.Name == "" {
		types, failed := aws.InstanceTypes(ctx, []string{l.Template.InstanceType})
		l.Type, err = types[l.Template.InstanceType], failed
	}
	if id := l.Template.ImageID; strings.HasPrefix(id, "ami-") {
		image, failed := aws.Image(ctx, id)
		l.Image, err = image, errors.Join(err, failed)
	}
	return err
}

// readNetwork reads the security groups of nodes with EFA and, for nodes of PCS, the way out: of subnets known by their
// ids only the rest, the route tables, and where those lead nowhere the endpoints.
func (l *Launch) readNetwork(ctx context.Context, aws *ec2.Client) error {
	n := &l.Network
	n.Region = aws.Region()
	var groups, err error
	if l.hasEFA() {
		n.Groups, groups = aws.SecurityGroups(ctx, l.Template.SecurityGroupIDs)
	}
	if l.Provider != capacity.ProviderPCS || len(n.Subnets) == 0 {
		return groups
	}
	if n.Subnets[0].VPC == "" {
		var ids []string
		for _, one := range n.Subnets {
			ids = append(ids, one.ID)
		}
		n.Subnets, _, err = aws.DetailedSubnets(ctx, ids)
	}
	if err == nil && len(n.Subnets) > 0 {
		n.Tables, err = aws.RouteTables(ctx, n.Subnets[0].VPC)
	}
	if err == nil && slices.ContainsFunc(n.Subnets, func(one ec2.Subnet) bool { return l.closedIn(one) != "" }) {
		n.Endpoints, err = aws.PCSEndpoints(ctx, n.Subnets[0].VPC)
	}
	return cmp.Or(groups, err)
}

// ofLaunch are the checks, independent of each other, of what no dry run of a launch tells: nodes that never join,
// or never end. A problem for an administrator prevents working nodes; a note is a warning.
var ofLaunch = []func(Launch) []capacity.Problem{drivers, protected, wayOut, efaRules}

// Judge returns all problems.
func Judge(s Launch) []capacity.Problem {
	var all []capacity.Problem
	for _, judge := range ofLaunch {
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

// Stops reports whether a problem prevents launches; else it is a warning.
func Stops(p capacity.Problem) bool { return p.Severity != capacity.Note }

func (s Launch) problem(code capacity.Code, fix, message string, args ...any) []capacity.Problem {
	return []capacity.Problem{capacity.Problemf(code, capacity.Subject{}, fix, message, args...)}
}

// GPUImage prints the id of the newest image with GPU drivers that PCS publishes: AWS PCS User Guide, "Using PCS-ready
// DLAMI with AWS PCS".
const GPUImage = "`aws ssm get-parameter --name /aws/service/pcs/ami/dlami-base-ubuntu2404/x86_64/latest/ami-id --query Parameter.Value`"

// driverWords are words for drivers in an image's name, description and tags, by the device files.
// Images for other devices are not judged.
var driverWords = map[string][]string{"/dev/nvidia": {"nvidia", "cuda", "gpu", "dlami"}, "/dev/neuron": {"neuron"}}

// saysDrivers reports whether an image claims drivers for the type's devices; true for devices without known words.
func saysDrivers(image ec2.Image, t ec2.InstanceType) bool {
	words, known := driverWords[t.GPUFiles]
	return !known || slices.ContainsFunc(words, func(word string) bool { return strings.Contains(image.Says, word) })
}

// drivers finds an image without GPU drivers. PCS and `hooks install` configure the type's GPUs in
// Slurm, which drains nodes that show fewer.
func drivers(s Launch) []capacity.Problem {
	if s.Image.ID == "" || s.Type.GPUs == 0 || saysDrivers(s.Image, s.Type) {
		return nil
	}
	maker := driverWords[s.Type.GPUFiles][0]
	fix := "give another image with --ami"
	if s.Provider == capacity.ProviderPCS && maker == "nvidia" {
		fix += ", such as PCS's own: " + GPUImage
	}
	return s.problem("drivers",
		fmt.Sprintf("%s, or, if it has them, say so with a tag: `aws ec2 create-tags --region %s --resources %s --tags Key=drivers,Value=%s`", fix, s.Network.Region, s.Image.ID, maker),
		"nothing says that image %s (%s) has drivers for the %d %s of %s, and Slurm drains a node that shows fewer GPUs than configured",
		s.Image.ID, s.Image.Name, s.Type.GPUs, cmp.Or(s.Type.GPUName, "GPUs"), s.Type.Name)
}

// Answers are EC2's answers to dry runs of a node group's launches.
type Answers struct {
	Refusals []capacity.Problem // prevent launches
	Unasked  string             // the reason why EC2 was not asked or did not answer; "" if it did
	// OK names the subnets that EC2 would launch into, and what its answer leaves open; "" for none.
	OK string
}

// Tried judges EC2's answers for a node group; one reason is said once. err is the reason why nothing was asked.
func Tried(group string, tried []ec2.Tried, err error) (a Answers) {
	var takes []string
	without := ""
	silent := "EC2 did not say whether it would launch a node of " + group + ": "
	if err != nil {
		a.Unasked = silent + ec2.Message(err)
	}
	for _, one := range tried {
		if one.Aside {
			without = ", tried without the reservation, which takes no launch now"
		}
		switch says := one.Code + ": " + one.Says; one.Verdict {
		case ec2.Takes:
			takes = append(takes, one.SubnetID)
		case ec2.Denied:
			a.Unasked = fmt.Sprintf("whether EC2 would launch a node of %s was not asked: %s is not allowed here; "+
				"its key pair, placement group, tags and architecture are unchecked", group, one.Says)
		case ec2.Silent:
			a.Unasked = silent + one.Says
		case ec2.Refuses:
			if !slices.ContainsFunc(a.Refusals, func(p capacity.Problem) bool { return strings.HasSuffix(p.Sentence, says) }) {
				a.Refusals = append(a.Refusals, capacity.Problemf("launch-refused", capacity.Subject{},
					cmp.Or(one.Fix, "fix what EC2 names in the launch template or in the flags"),
					"EC2 would not launch a node of %s into %s: %s", group, one.SubnetID, says))
			}
		}
	}
	if len(takes) > 0 {
		a.OK = fmt.Sprintf("EC2's dry run would launch a node of %s into %s%s; a dry run says nothing about room",
			group, strings.Join(takes, " or "), without)
	}
	return a
}

package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
)

// Launch is a node group's launches, as far as their parts could be read.
type Launch struct {
	Provider capacity.Provider
	Group    string // the node group, on PCS the slot
	// Template is the nodes' launch template; on PCS with the image and the instance profile of the node group.
	Template capacity.LaunchTemplate
	Image    ec2.Image        // the nodes' image; zero if unknown
	Type     ec2.InstanceType // the instance type; zero if unknown
	// Its network; parts that are nil were not read, and are not judged.
	Region    string
	Nodes     int                   // the largest number of nodes; 0 if unknown
	Subnets   []ec2.Subnet          // the subnets of launches, all in one VPC
	Tables    []ec2.RouteTable      // the route tables of the VPC
	Endpoints []ec2.Endpoint        // the VPC's endpoints for PCS, read only if no route leads out of a subnet
	Rules     map[string][]ec2.Rule // those of the security groups of nodes with EFA, by id
	// ImageErr says why image or type are not known, NetworkErr why security groups, routes or endpoints are not.
	ImageErr, NetworkErr error

	trial ec2.Trial // of a node
	tried facts.Answer[[]ec2.TrialResult]
}

// Read completes a launch from EC2, side by side. What cannot be read stays as it is.
func (l *Launch) Read(ctx context.Context, aws *ec2.Client) {
	sideBySide(func() { l.ImageErr = l.readImage(ctx, aws) }, func() { l.NetworkErr = l.readNetwork(ctx, aws) })
}

// readImage reads the type and the image. Systems Manager names one that does not begin with ami-.
func (l *Launch) readImage(ctx context.Context, aws *ec2.Client) (err error) {
	if l.Type.Name == "" {
		types, failed := aws.InstanceTypes(ctx, []string{l.Template.InstanceType})
		l.Type = types[l.Template.InstanceType]
		err = failed
	}

	if id := l.Template.ImageID; strings.HasPrefix(id, "ami-") {
		image, failed := aws.Image(ctx, id)
		l.Image = image
		err = errors.Join(err, failed)
	}

	return err
}

// readNetwork reads the security groups of nodes with EFA and, for nodes of PCS, the way out: the route tables, and
// where those lead nowhere the endpoints.
func (l *Launch) readNetwork(ctx context.Context, aws *ec2.Client) error {
	l.Region = aws.Region()

	var groups, err error
	if l.hasEFA() {
		l.Rules, groups = aws.SecurityGroups(ctx, l.Template.SecurityGroupIDs)
	}

	if l.Provider != capacity.ProviderPCS || len(l.Subnets) == 0 {
		return groups
	}

	l.Tables, err = aws.RouteTables(ctx, l.Subnets[0].VPC)
	if err == nil &&
		slices.ContainsFunc(l.Subnets, func(one ec2.Subnet) bool { return l.unreachableReason(one) != "" }) {
		l.Endpoints, err = aws.PCSEndpoints(ctx, l.Subnets[0].VPC)
	}

	return cmp.Or(groups, err)
}

// Judge returns what no dry run of a launch tells: what keeps nodes from joining. A note prevents nothing.
func (l Launch) Judge() capacity.Problems {
	return slices.Concat(l.checkDrivers(), l.checkRole(), l.checkRoutes(), l.checkEFARules())
}

// checkRole finds an instance profile that PCS may refuse for its role. The name of the role stands in IAM alone; a
// profile that the console made has the same.
func (l Launch) checkRole() (found capacity.Problems) {
	profile := l.Template.InstanceProfile
	if l.Provider != capacity.ProviderPCS || profile == "" || strings.Contains(profile, "/AWSPCS") ||
		strings.Contains(profile, "/aws-pcs/") {
		return nil
	}

	name := profile[strings.LastIndex(profile, "/")+1:]
	found.Add(capacity.Problem{
		Severity: capacity.Note,
		Sentence: fmt.Sprintf(
			"PCS takes an instance profile only if the name of its role begins with AWSPCS, or its path has "+
				"/aws-pcs/, and %s does not show that",
			profile),
		Fix: fmt.Sprintf(
			"look with `aws iam get-instance-profile --instance-profile-name %s --query "+
				"InstanceProfile.Roles[].Arn`; policy sync passes only such roles",
			name),
	})

	return found
}

// GPUImage prints the id of the newest image with GPU drivers that PCS publishes: AWS PCS User Guide, "Using PCS-ready
// DLAMI with AWS PCS".
const GPUImage = "`aws ssm get-parameter --name /aws/service/pcs/ami/dlami-base-ubuntu2404/x86_64/latest/ami-id " +
	"--query Parameter.Value`"

// driverWords are words for drivers in an image's name, description and tags, by the device files.
// Images for other devices are not judged.
var driverWords = map[string][]string{"/dev/nvidia": {"nvidia", "cuda", "gpu", "dlami"}, "/dev/neuron": {"neuron"}}

// checkDrivers finds an image without GPU drivers. PCS and `hooks install` configure the type's GPUs in
// Slurm, which drains nodes that show fewer.
func (l Launch) checkDrivers() (found capacity.Problems) {
	words := driverWords[l.Type.GPUFiles]
	if l.Image.ID == "" || len(words) == 0 ||
		slices.ContainsFunc(words, func(word string) bool { return strings.Contains(l.Image.Keywords, word) }) {
		return nil
	}

	maker := words[0]
	fix := "give another image with --ami"
	if l.Provider == capacity.ProviderPCS && maker == "nvidia" {
		fix += ", such as PCS's own: " + GPUImage
	}

	found.Add(capacity.Problemf(
		capacity.DriversUnknown,
		capacity.Subject{},
		fmt.Sprintf(
			"%s, or, if it has them, say so with a tag: `aws ec2 create-tags --region %s --resources %s --tags "+
				"Key=drivers,Value=%s`",
			fix, l.Region, l.Image.ID, maker),
		"nothing says that image %s (%s) has drivers for the %d %s of %s, and Slurm drains a node that shows fewer "+
			"GPUs than configured",
		l.Image.ID,
		l.Image.Name,
		l.Type.GPUs,
		cmp.Or(l.Type.GPUName, "GPUs"),
		l.Type.Name,
	))

	return found
}

// JudgeTrial judges EC2's answers to dry runs of a node group's launches, where err is why nothing was asked: what EC2
// refuses, one reason once, a note where it did not answer, and the subnets that it would launch into.
func JudgeTrial(group string, tried []ec2.TrialResult, err error) (all capacity.Problems) {
	say := func(severity capacity.Severity, what string, args ...any) {
		all.Add(capacity.Problem{Severity: severity, Sentence: fmt.Sprintf(what, args...)})
	}

	const silent = "EC2 did not say whether it would launch a node of %s: %s"
	if err != nil {
		say(capacity.Note, silent, group, ec2.Message(err))
	}

	var takes []string

	without := ""
	for _, one := range tried {
		if one.NoReservation {
			without = ", tried without the reservation, which takes no launch now"
		}

		switch says := one.Code + ": " + one.Message; one.Verdict {
		case ec2.Accepts:
			takes = append(takes, one.SubnetID)
		case ec2.Denied:
			say(capacity.Note,
				"whether EC2 would launch a node of %s was not asked: %s is not allowed here; its key pair, "+
					"placement group, tags and architecture are unchecked",
				group, one.Message)
		case ec2.Silent:
			say(capacity.Note, silent, group, one.Message)
		case ec2.Refuses:
			if !slices.ContainsFunc(all, func(p capacity.Problem) bool { return strings.HasSuffix(p.Sentence, says) }) {
				all.Add(capacity.Problemf(capacity.LaunchRefused, capacity.Subject{},
					cmp.Or(one.Fix, "fix what EC2 names in the launch template or in the flags"),
					"EC2 would not launch a node of %s into %s: %s", group, one.SubnetID, says))
			}
		}
	}

	if len(takes) > 0 {
		say(capacity.Good,
			"EC2's dry run would launch a node of %s into %s%s; a dry run does not check for free capacity", group,
			strings.Join(takes, " or "), without)
	}

	return all
}

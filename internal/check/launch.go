package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
)

// Launch returns what no dry run of a launch tells: what keeps nodes from joining. A note prevents nothing.
func Launch(l facts.Launch) capacity.Problems {
	return slices.Concat(checkDrivers(l), checkRole(l), checkRoutes(l), checkEFARules(l))
}

// checkRole finds an instance profile that PCS may refuse for its role. The name of the role stands in IAM alone; a
// profile that the console made has the same.
func checkRole(l facts.Launch) (found capacity.Problems) {
	profile := l.Template.InstanceProfile
	name := profile[strings.LastIndex(profile, "/")+1:]
	if l.Provider != capacity.ProviderPCS || profile == "" || strings.HasPrefix(name, "AWSPCS") ||
		strings.Contains(profile, "/aws-pcs/") {
		return nil
	}

	found.Add(capacity.Problem{
		Severity: capacity.Note,
		Sentence: fmt.Sprintf(
			"PCS accepts an instance profile only if its role's name begins with AWSPCS or its path contains "+
				"/aws-pcs/, which %s does not show",
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
func checkDrivers(l facts.Launch) (found capacity.Problems) {
	words := driverWords[l.Type.GPUFiles]
	if l.Image.ID == "" || len(words) == 0 ||
		slices.ContainsFunc(words, func(word string) bool { return strings.Contains(l.Image.Keywords, word) }) {
		return nil
	}

	maker := words[0]
	fix := "name another image with --ami"
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

// Trial judges EC2's answers to dry runs of a node group's launches, where err is why nothing was asked: what EC2
// refuses, one reason once, a note where it did not answer, and the subnets that it would launch into.
func Trial(group string, tried []ec2.TrialResult, err error) (all capacity.Problems) {
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
			without = ", tried without the reservation, which accepts no launch now"
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
					cmp.Or(one.Fix, "fix what EC2 reports, in the launch template or in the flags"),
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

package site

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// architecture compares the image with the instance type.
func architecture(s Launch) []capacity.Problem {
	has, runs := s.Image.Architecture, s.Type.Architectures
	if has == "" || len(runs) == 0 || slices.Contains(runs, has) {
		return nil
	}
	return s.problem(capacity.WrongArchitecture, "give an image for "+strings.Join(runs, " or ")+" with --ami",
		"image %s is for %s, but %s runs %s", s.Template.ImageID, has, s.Type.Name, strings.Join(runs, " and "))
}

// driverWords are words for drivers in an image's name, description and tags, by the device files.
// Images for other devices are not judged.
var driverWords = map[string][]string{
	"/dev/nvidia": {"nvidia", "cuda", "gpu", "dlami"},
	"/dev/neuron": {"neuron"},
}

// saysDrivers reports whether an image claims drivers for the type's devices; true for devices
// without known words.
func saysDrivers(image ec2.Image, t ec2.InstanceType) bool {
	words, known := driverWords[t.GPUFiles]
	return !known || slices.ContainsFunc(words, func(word string) bool { return strings.Contains(image.Says, word) })
}

// drivers finds an image without GPU drivers. PCS and `hooks install` configure the type's GPUs in
// Slurm, which drains nodes that show fewer.
func drivers(s Launch) []capacity.Problem {
	if s.Image.ID == "" || s.Brief || s.Type.GPUs == 0 || saysDrivers(s.Image, s.Type) {
		return nil
	}
	maker := driverWords[s.Type.GPUFiles][0]
	fix := "give another image with --ami"
	if s.Provider == capacity.ProviderPCS && maker == "nvidia" {
		fix += " " + pcs.GPUImage
	}
	return s.problem(
		capacity.NoDrivers,
		fmt.Sprintf(
			"%s, or say so by a tag if it has them: `aws ec2 create-tags --region %s --resources %s --tags Key=drivers,Value=%s`",
			fix, s.Network.Region, s.Image.ID, maker),
		"nothing says that image %s (%s) has drivers for the %d %s of %s, and Slurm drains a node that shows fewer GPUs than configured",
		s.Image.ID,
		s.Image.Name,
		s.Type.GPUs,
		cmp.Or(s.Type.GPUName, "GPUs"),
		s.Type.Name,
	)
}

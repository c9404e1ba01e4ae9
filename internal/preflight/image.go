package preflight

import (
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// architecture compares the image with the instance type.
func architecture(s Seen) []capacity.Problem {
	has, runs := s.Image.Architecture, s.Type.Architectures
	if has == "" || len(runs) == 0 || slices.Contains(runs, has) {
		return nil
	}
	return s.problem(capacity.WrongArchitecture, "give an image for "+strings.Join(runs, " or ")+" with --ami",
		"image %s is for %s, but %s runs %s", s.Template.ImageID, has, s.Type.Name, strings.Join(runs, " and "))
}

package setup

import (
	"github.com/pcs-capacity/pcs-capacity/internal/preflight"
)

// seen is what the nodes are to be launched with.
func (in *inspection) seen() preflight.Seen {
	t := in.planned
	t.ImageID, t.InstanceProfile = in.ami(), in.profile()
	return preflight.Seen{
		Provider:     in.provider(),
		Group:        in.request.NodeGroup,
		Source:       first(in.source.Name, t.Name),
		Template:     t,
		Image:        in.names.image,
		Type:         in.names.instanceType,
		MetadataTags: in.metadataTags,
	}
}

// judge says what is wrong with what the nodes are to be launched with.
func (in *inspection) judge() {
	for _, p := range preflight.Judge(in.seen()) {
		if preflight.Stops(p) {
			in.problems = append(in.problems, p)
		} else {
			in.warnings = append(in.warnings, p.Text())
		}
	}
}

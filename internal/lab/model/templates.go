package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Template returns a launch template by its id.
func (e *EC2) Template(id string) (found capacity.LaunchTemplate) {
	for _, t := range e.Templates {
		if t.ID == id {
			found = t
		}
	}

	return found
}

// planned returns the template that EnsureLaunchTemplate leaves behind. The name is no part of its digest.
func planned(spec capacity.LaunchTemplateSpec) capacity.LaunchTemplate {
	t := capacity.LaunchTemplate{
		Name:             spec.Name,
		Tags:             spec.Tags,
		ImageID:          spec.ImageID,
		InstanceType:     spec.InstanceType,
		InstanceProfile:  spec.InstanceProfile,
		SecurityGroupIDs: []string{"sg-1"},
		UserData:         spec.UserData,
		ReservationID:    spec.ReservationID,
		ReservationGroup: spec.ReservationGroup,
	}
	spec.Name = ""
	t.Digest = fmt.Sprintf("%+v", spec)

	return t
}

// EnsureLaunchTemplate makes a launch template, or a version of it.
func (e *EC2) EnsureLaunchTemplate(
	_ context.Context,
	spec capacity.LaunchTemplateSpec,
) (capacity.LaunchTemplate, error) {
	return answer(
		e.Model,
		Call{Verb: "ensure launch template", Text: spec.Name, Change: true, EC2: true},
		func() (capacity.LaunchTemplate, error) {
			t := planned(spec)
			now, there := e.Templates[spec.Name]
			switch {
			case there && now.Tags[capacity.TagCluster] != spec.Tags[capacity.TagCluster]:
				return now, pcs.ErrNotOurs
			case there && now.Digest == t.Digest:
				return now, nil
			case !there:
				now.ID = e.newID("lt-")
			}

			version, _ := strconv.Atoi(now.Version)
			t.ID, t.Version = now.ID, strconv.Itoa(version+1)
			e.Templates[t.Name] = t

			return t, nil
		},
	)
}

// DeleteLaunchTemplate deletes a launch template of ours, also one that node groups are made from.
func (e *EC2) DeleteLaunchTemplate(_ context.Context, id, cluster string) error {
	return e.change("delete launch template", id, func() error {
		t := e.Template(id)
		if t.ID != "" && t.Tags[capacity.TagCluster] != cluster {
			return pcs.ErrNotOurs
		}

		delete(e.Templates, t.Name)

		return nil
	})
}

// PinTemplate returns the version of a launch template that is launched now.
func (e *EC2) PinTemplate(_ context.Context, name string) (string, error) {
	return read(e, "describe a launch template", "", func() string { return name + ":1" })
}

// ImagePlatform returns no platform.
func (e *EC2) ImagePlatform(context.Context, string) (capacity.ImagePlatform, error) {
	return read(e, "describe an image", "", func() (unknown capacity.ImagePlatform) { return unknown })
}

// PlannedTemplate returns the template that EnsureLaunchTemplate leaves behind.
func (e *EC2) PlannedTemplate(
	_ context.Context, spec capacity.LaunchTemplateSpec,
) (capacity.LaunchTemplate, error) {
	return read(e, "plan a launch template", "", func() capacity.LaunchTemplate { return planned(spec) })
}

// LaunchTemplate returns the newest version of a launch template, by id or name.
func (e *EC2) LaunchTemplate(
	_ context.Context, idOrName, _ string,
) (t capacity.LaunchTemplate, found bool, err error) {
	all, err := e.findTemplates(func(t capacity.LaunchTemplate) bool { return t.ID == idOrName || t.Name == idOrName })
	if err != nil || len(all) == 0 {
		return t, false, err
	}

	return all[0], true, nil
}

// TemplateVersion returns the template of ID[:VERSION] or NAME[:VERSION], in its newest version.
func (e *EC2) TemplateVersion(
	ctx context.Context, reference string,
) (t capacity.LaunchTemplate, found bool, err error) {
	idOrName, version, _ := strings.Cut(reference, ":")
	return e.LaunchTemplate(ctx, idOrName, version)
}

// LaunchTemplates returns the templates of the names.
func (e *EC2) LaunchTemplates(_ context.Context, names []string) (map[string]capacity.LaunchTemplate, error) {
	found := map[string]capacity.LaunchTemplate{}

	all, err := e.findTemplates(func(t capacity.LaunchTemplate) bool { return slices.Contains(names, t.Name) })
	for _, t := range all {
		found[t.Name] = t
	}

	return found, err
}

// LaunchTemplatesByTag lists the templates with all of the tags.
func (e *EC2) LaunchTemplatesByTag(
	_ context.Context, tags map[string]string,
) ([]capacity.LaunchTemplate, error) {
	return e.findTemplates(func(t capacity.LaunchTemplate) bool {
		for key, value := range tags {
			if t.Tags[key] != value {
				return false
			}
		}

		return true
	})
}

// findTemplates lists templates in the order of their names.
func (e *EC2) findTemplates(is func(capacity.LaunchTemplate) bool) ([]capacity.LaunchTemplate, error) {
	all := func() (all []capacity.LaunchTemplate) {
		for _, name := range slices.Sorted(maps.Keys(e.Templates)) {
			all = append(all, e.Templates[name])
		}

		return all
	}

	return find(e, "describe launch templates", "", all, is)
}

// InstanceTypes returns types of which no more than the name is known.
func (e *EC2) InstanceTypes(_ context.Context, names []string) (map[string]ec2.InstanceType, error) {
	return read(e, "describe instance types", "", func() map[string]ec2.InstanceType {
		types := map[string]ec2.InstanceType{}
		for _, name := range names {
			types[name] = ec2.InstanceType{Name: name}
		}

		return types
	})
}

// Image returns an image of Linux.
func (e *EC2) Image(_ context.Context, id string) (ec2.Image, error) {
	return read(e, "describe an image", id, func() ec2.Image { return ec2.Image{ID: id, Platform: capacity.LinuxUNIX} })
}

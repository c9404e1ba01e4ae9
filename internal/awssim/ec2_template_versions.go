package awssim

import (
	"maps"
	"slices"
	"strconv"
)

func (s *Sim) wireVersion(t *launchTemplate, v *templateVersion) object {
	return object{"LaunchTemplateId": t.id, "LaunchTemplateName": t.name, "VersionNumber": v.number, "VersionDescription": v.description,
		"CreateTime": v.created, "CreatedBy": s.caller(), "DefaultVersion": v.number == t.defaultVersion, "LaunchTemplateData": v.data}
}

type createLaunchTemplateVersionInput struct {
	LaunchTemplateId   string
	LaunchTemplateName string
	LaunchTemplateData templateData
	SourceVersion      string
	VersionDescription string
	ClientToken        string
}

func (s *Sim) createLaunchTemplateVersion(c *call, in *createLaunchTemplateVersionInput) (any, error) {
	return s.idempotent(c, in.ClientToken, func() (func() (any, error), error) {
		t, err := c.region.template(in.LaunchTemplateId, in.LaunchTemplateName)
		if err != nil {
			return nil, err
		}
		data := in.LaunchTemplateData
		if in.SourceVersion != "" {
			source, err := t.version(in.SourceVersion)
			if err != nil {
				return nil, err
			}
			data.launchData = source.data.override(data.launchData)
			rest := object{}
			maps.Copy(rest, source.data.Rest)
			maps.Copy(rest, data.Rest)
			data.Rest = rest
			if len(data.TagSpecifications) == 0 {
				data.TagSpecifications = source.data.TagSpecifications
			}
		}
		if err := data.check(); err != nil {
			return nil, err
		}
		v := t.add(s.now, in.VersionDescription, data)
		c.region.hide(t.versionKey(v.number), s.lag.templates)
		return func() (any, error) {
			return object{"LaunchTemplateVersion": s.wireVersion(t, v)}, nil
		}, nil
	})
}

type describeLaunchTemplateVersionsInput struct {
	LaunchTemplateId   string
	LaunchTemplateName string
	Versions           []string
	MinVersion         *int64
	MaxVersion         *int64
	ResolveAlias       bool
	listing
}

func (s *Sim) describeLaunchTemplateVersions(c *call, in *describeLaunchTemplateVersionsInput) (any, error) {
	found, err := c.region.askedVersions(in)
	if err != nil {
		return nil, err
	}
	var all []object
	for _, f := range found {
		v := *f.version
		if image := c.region.image(v.data.ImageId); in.ResolveAlias && image != nil {
			v.data.ImageId = image.ID
		}
		all = append(all, s.wireVersion(f.template, &v))
	}
	part, next, err := list(c, in.listing, 1, 200, len(in.Versions) > 0, "is-default-version=DefaultVersion", all)
	return object{"LaunchTemplateVersions": part, "NextToken": next}, err
}

type foundVersion struct {
	template *launchTemplate
	version  *templateVersion
}

// askedVersions finds the named versions of one template; or its versions in a range, newest first;
// or, without a template, the $Latest or $Default of every one.
func (r *region) askedVersions(in *describeLaunchTemplateVersionsInput) ([]foundVersion, error) {
	var out []foundVersion
	if in.LaunchTemplateId == "" && in.LaunchTemplateName == "" {
		for _, want := range in.Versions {
			if want != "$Latest" && want != "$Default" {
				return nil, apiErrorf("MissingParameter", "The request must contain the parameter LaunchTemplateId or LaunchTemplateName")
			}
			for _, t := range sortedValues(r.templates) {
				if v, err := t.version(want); err == nil {
					out = append(out, foundVersion{t, v})
				}
			}
		}
		if len(in.Versions) == 0 {
			return nil, apiErrorf("MissingParameter", "The request must contain the parameter LaunchTemplateId or LaunchTemplateName")
		}
		return out, nil
	}
	t, err := r.template(in.LaunchTemplateId, in.LaunchTemplateName)
	if err != nil {
		return nil, err
	}
	if len(in.Versions) > 0 {
		for _, want := range in.Versions {
			v, err := t.version(want)
			if err != nil {
				return nil, err
			}
			out = append(out, foundVersion{t, v})
		}
		return out, nil
	}
	numbers := t.shownVersions()
	slices.Reverse(numbers)
	for _, n := range numbers {
		if (in.MinVersion == nil || n >= *in.MinVersion) && (in.MaxVersion == nil || n <= *in.MaxVersion) {
			out = append(out, foundVersion{t, t.versions[n]})
		}
	}
	return out, nil
}

// version finds a version by number, $Latest or $Default; empty means $Default.
func (t *launchTemplate) version(which string) (*templateVersion, error) {
	n := t.defaultVersion
	switch which {
	case "", "$Default":
	case "$Latest":
		n = t.newest()
	default:
		var err error
		if n, err = strconv.ParseInt(which, 10, 64); err != nil {
			return nil, apiErrorf("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version: '%s'", which)
		}
	}
	if v := t.versions[n]; v != nil && t.in.shows(t.versionKey(n)) {
		return v, nil
	}
	return nil, apiErrorf("InvalidLaunchTemplateId.VersionNotFound",
		"Could not find the specified version %s for the launch template with ID %s.", which, t.id)
}

// versionKey stands for a version where ids are kept.
func (t *launchTemplate) versionKey(n int64) string { return t.id + ":" + strconv.FormatInt(n, 10) }

// shownVersions are the numbers of the versions that are visible, oldest first.
func (t *launchTemplate) shownVersions() []int64 {
	return shown(t.in, slices.Sorted(maps.Keys(t.versions)), t.versionKey)
}

// newest is the newest version that is visible.
func (t *launchTemplate) newest() int64 {
	if all := t.shownVersions(); len(all) > 0 {
		return all[len(all)-1]
	}
	return t.latest
}

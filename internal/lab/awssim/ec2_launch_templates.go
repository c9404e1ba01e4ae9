package awssim

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"
)

type launchTemplate struct {
	in             *region
	id, name       string
	created        time.Time
	defaultVersion int64
	latest         int64 // number of the newest version ever made; numbers are not used again
	versions       map[int64]*templateVersion
	tags           map[string]string
}

type templateVersion struct {
	number      int64
	created     time.Time
	description string
	data        templateData
}

// templateData is the content of a version, which is given back as it came.
type templateData object

// templateView has the fields that the simulator reads.
type templateView struct {
	launchData
	TagSpecifications []tagSpecification
}

func (d templateData) read() (v templateView) {
	if err := fill(&v, d, false); err != nil {
		panic(err) // it has the shape
	}
	return v
}

func (s *Sim) buildLaunchTemplate(r *region, lt LaunchTemplateScenario) error {
	if lt.ID == "" || lt.Name == "" {
		return fmt.Errorf("it needs an id and a name")
	}

	data := templateView{launchData: launchData{
		ImageId:          lt.Image,
		InstanceType:     lt.Type,
		KeyName:          lt.KeyName,
		SecurityGroupIds: lt.SecurityGroups,
	}}
	if lt.PlacementGroup != "" {
		data.Placement = &placement{GroupName: lt.PlacementGroup}
	}

	if lt.UserData != "" {
		data.UserData = base64.StdEncoding.EncodeToString([]byte(lt.UserData))
	}

	if lt.RootGiB > 0 {
		data.BlockDeviceMappings = append(
			data.BlockDeviceMappings,
			blockDevice{DeviceName: rootDevice, Ebs: &ebsDevice{VolumeSize: &lt.RootGiB}},
		)
	}

	if lt.MetadataTags {
		data.MetadataOptions = &metadataOptions{InstanceMetadataTags: "enabled"}
	}

	if len(lt.InstanceTags) > 0 {
		data.TagSpecifications = []tagSpecification{{ResourceType: "instance", Tags: wireTags(lt.InstanceTags)}}
	}

	if lt.InstanceProfile != "" {
		data.IamInstanceProfile = &instanceProfile{Arn: lt.InstanceProfile}
	}

	var raw templateData
	if err := fill(&raw, data, false); err != nil {
		return err
	}

	r.templates[lt.ID] = &launchTemplate{
		in:             r,
		id:             lt.ID,
		name:           lt.Name,
		created:        s.now,
		defaultVersion: 1,
		latest:         1,
		tags:           copyTags(lt.Tags),
		versions:       map[int64]*templateVersion{1: {number: 1, created: s.now, data: raw}},
	}

	return nil
}

func (s *Sim) wireTemplate(t *launchTemplate) object {
	return object{
		"LaunchTemplateId":     t.id,
		"LaunchTemplateName":   t.name,
		"CreateTime":           t.created,
		"CreatedBy":            s.caller(),
		"DefaultVersionNumber": t.defaultVersion,
		"LatestVersionNumber":  t.newest(),
		"Tags":                 t.in.visibleTags(t.id, t.tags),
	}
}

func (s *Sim) caller() string { return s.iamARN("user/simulated") }

// templateName matches a valid name (EC2 API Reference, CreateLaunchTemplate).
var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)

type createLaunchTemplateInput struct {
	LaunchTemplateName string
	LaunchTemplateData templateData
	VersionDescription string
	TagSpecifications  []tagSpecification
	ClientToken        string
}

func (s *Sim) createLaunchTemplate(c *call, in *createLaunchTemplateInput) (any, error) {
	return s.idempotent(c, in.ClientToken, func() (func() (any, error), error) {
		if !templateName.MatchString(in.LaunchTemplateName) {
			return nil, apiErrorf(
				"InvalidLaunchTemplateName.MalformedException",
				"Launch template name '%s' is not valid: 3 to 128 letters, digits and ()./_-",
				in.LaunchTemplateName,
			)
		}

		if c.region.hasTemplate(in.LaunchTemplateName) {
			return nil, apiErrorf(
				"InvalidLaunchTemplateName.AlreadyExistsException",
				"Launch template name already in use.",
			)
		}

		if err := in.LaunchTemplateData.read().check(); err != nil {
			return nil, err
		}

		tags, err := specifiedTags(in.TagSpecifications, "launch-template")
		if err != nil {
			return nil, err
		}

		t := &launchTemplate{
			in:             c.region,
			id:             s.newID("lt"),
			name:           in.LaunchTemplateName,
			created:        s.now,
			defaultVersion: 1,
			tags:           tags,
			versions:       map[int64]*templateVersion{},
		}
		t.add(s.now, in.VersionDescription, in.LaunchTemplateData)
		c.region.templates[t.id] = t
		c.region.hide(t.id, s.lag.Templates)

		return func() (any, error) { return object{"LaunchTemplate": s.wireTemplate(t)}, nil }, nil
	})
}

func (t *launchTemplate) add(now time.Time, description string, data templateData) *templateVersion {
	t.latest++
	v := &templateVersion{number: t.latest, created: now, description: description, data: data}
	t.versions[v.number] = v
	return v
}

type deleteLaunchTemplateInput struct {
	LaunchTemplateId   string
	LaunchTemplateName string
}

func (s *Sim) deleteLaunchTemplate(c *call, in *deleteLaunchTemplateInput) (any, error) {
	t, err := c.region.template(in.LaunchTemplateId, in.LaunchTemplateName)
	if err != nil {
		return nil, err
	}

	delete(c.region.templates, t.id)

	return object{"LaunchTemplate": s.wireTemplate(t)}, nil
}

func (s *Sim) templateObjects(c *call) (all []object) {
	for _, t := range sortedValues(c.region.templates) {
		if c.region.isVisible(t.id) {
			all = append(all, s.wireTemplate(t))
		}
	}

	return all
}

func (r *region) template(id, name string) (*launchTemplate, error) {
	switch {
	case id != "" && name != "":
		return nil, apiErrorf(
			"InvalidParameterCombination",
			"Only one of launch template ID or launch template name can be specified",
		)
	case id == "" && name == "":
		return nil, apiErrorf(
			"MissingParameter",
			"The request must contain the parameter LaunchTemplateId or LaunchTemplateName",
		)
	case id != "":
		if t := r.templates[id]; t != nil && r.isVisible(id) {
			return t, nil
		}
		return nil, templateNotFound(id)
	}

	for _, t := range r.templates {
		if t.name == name && r.isVisible(t.id) {
			return t, nil
		}
	}

	return nil, templateNameNotFound(name)
}

// hasTemplate reports whether a name is taken, by a template that is visible or not.
func (r *region) hasTemplate(name string) bool {
	for _, t := range r.templates {
		if t.name == name {
			return true
		}
	}

	return false
}

func templateNotFound(id string) error {
	if !wellFormed(id, "lt") {
		return apiErrorf("InvalidLaunchTemplateId.Malformed", "Invalid id: \"%s\" (expecting \"lt-...\")", id)
	}

	return apiErrorf(
		"InvalidLaunchTemplateId.NotFound",
		"The specified launch template, with template ID %s, does not exist.",
		id,
	)
}

func templateNameNotFound(name string) error {
	return apiErrorf(
		"InvalidLaunchTemplateName.NotFoundException",
		"The specified launch template, with template name %s, does not exist.",
		name,
	)
}

func (s *Sim) wireVersion(t *launchTemplate, v *templateVersion) object {
	return object{
		"LaunchTemplateId":   t.id,
		"LaunchTemplateName": t.name,
		"VersionNumber":      v.number,
		"VersionDescription": v.description,
		"CreateTime":         v.created,
		"CreatedBy":          s.caller(),
		"DefaultVersion":     v.number == t.defaultVersion,
		"LaunchTemplateData": v.data,
	}
}

type createLaunchTemplateVersionInput struct {
	LaunchTemplateId   string
	LaunchTemplateName string
	LaunchTemplateData templateData
	VersionDescription string
	ClientToken        string
}

func (s *Sim) createLaunchTemplateVersion(c *call, in *createLaunchTemplateVersionInput) (any, error) {
	return s.idempotent(c, in.ClientToken, func() (func() (any, error), error) {
		t, err := c.region.template(in.LaunchTemplateId, in.LaunchTemplateName)
		if err != nil {
			return nil, err
		}

		if err := in.LaunchTemplateData.read().check(); err != nil {
			return nil, err
		}

		v := t.add(s.now, in.VersionDescription, in.LaunchTemplateData)
		c.region.hide(t.versionKey(v.number), s.lag.Templates)

		return func() (any, error) {
			return object{"LaunchTemplateVersion": s.wireVersion(t, v)}, nil
		}, nil
	})
}

type describeLaunchTemplateVersionsInput struct {
	LaunchTemplateId   string
	LaunchTemplateName string
	Versions           []string
	ResolveAlias       bool
}

func (s *Sim) describeLaunchTemplateVersions(c *call, in *describeLaunchTemplateVersionsInput) (any, error) {
	t, err := c.region.template(in.LaunchTemplateId, in.LaunchTemplateName)
	if err != nil {
		return nil, err
	}

	if len(in.Versions) == 0 {
		for _, n := range slices.Backward(t.visibleVersions()) {
			in.Versions = append(in.Versions, strconv.FormatInt(n, 10))
		}
	}

	var all []object
	for _, want := range in.Versions {
		found, err := t.version(want)
		if err != nil {
			return nil, err
		}

		v := *found
		if image := c.region.image(v.data.read().ImageId); in.ResolveAlias && image != nil {
			v.data = maps.Clone(v.data)
			v.data["ImageId"] = image.ID
		}

		all = append(all, s.wireVersion(t, &v))
	}

	return object{"LaunchTemplateVersions": all}, nil
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

		n, err = strconv.ParseInt(which, 10, 64)
		if err != nil {
			return nil, apiErrorf(
				"InvalidLaunchTemplateId.VersionNotFound",
				"Could not find launch template version: '%s'",
				which,
			)
		}
	}

	if v := t.versions[n]; v != nil && t.in.isVisible(t.versionKey(n)) {
		return v, nil
	}

	return nil, apiErrorf("InvalidLaunchTemplateId.VersionNotFound",
		"Could not find the specified version %s for the launch template with ID %s.", which, t.id)
}

// versionKey stands for a version where ids are kept.
func (t *launchTemplate) versionKey(n int64) string { return t.id + ":" + strconv.FormatInt(n, 10) }

// visibleVersions returns the numbers of the versions that are visible, oldest first.
func (t *launchTemplate) visibleVersions() []int64 {
	return visible(t.in, slices.Sorted(maps.Keys(t.versions)), t.versionKey)
}

// newest returns the newest version that is visible.
func (t *launchTemplate) newest() int64 {
	if all := t.visibleVersions(); len(all) > 0 {
		return all[len(all)-1]
	}
	return t.latest
}

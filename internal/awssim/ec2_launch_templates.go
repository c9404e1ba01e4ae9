package awssim

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

type launchTemplate struct {
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

// templateData is launchData with the tags for what it launches.
type templateData struct {
	launchData
	RamDiskId         string             `xml:"ramDiskId,omitempty"`
	TagSpecifications []tagSpecification `form:"TagSpecification" xml:"tagSpecificationSet>item"`
}

func (s *Sim) buildLaunchTemplate(r *region, lt LaunchTemplateScenario) error {
	if lt.ID == "" || lt.Name == "" {
		return fmt.Errorf("it needs an id and a name")
	}
	data := templateData{launchData: launchData{
		ImageId: lt.Image, InstanceType: lt.Type, KeyName: lt.KeyName, SecurityGroupIds: lt.SecurityGroups,
	}}
	if lt.UserData != "" {
		data.UserData = base64.StdEncoding.EncodeToString([]byte(lt.UserData))
	}
	if lt.InstanceProfile != "" {
		data.IamInstanceProfile = &instanceProfile{Arn: lt.InstanceProfile}
	}
	r.templates[lt.ID] = &launchTemplate{
		id: lt.ID, name: lt.Name, created: s.now, defaultVersion: 1, latest: 1, tags: copyTags(lt.Tags),
		versions: map[int64]*templateVersion{1: {number: 1, created: s.now, data: data}},
	}
	return nil
}

type wireTemplate struct {
	ID      string `xml:"launchTemplateId"`
	Name    string `xml:"launchTemplateName"`
	Created string `xml:"createTime"`
	Creator string `xml:"createdBy"`
	Default int64  `xml:"defaultVersionNumber"`
	Latest  int64  `xml:"latestVersionNumber"`
	Tags    []tag  `xml:"tagSet>item"`
}

type templateResult struct {
	Template wireTemplate `xml:"launchTemplate"`
}

func (s *Sim) wireTemplate(t *launchTemplate) wireTemplate {
	return wireTemplate{t.id, t.name, wireTime(t.created), s.caller(), t.defaultVersion, t.latest, wireTags(t.tags)}
}

func (s *Sim) caller() string { return "arn:aws:iam::" + s.scenario.Account + ":user/simulated" }

type wireVersion struct {
	ID          string       `xml:"launchTemplateId"`
	Name        string       `xml:"launchTemplateName"`
	Number      int64        `xml:"versionNumber"`
	Description string       `xml:"versionDescription,omitempty"`
	Created     string       `xml:"createTime"`
	Creator     string       `xml:"createdBy"`
	Default     bool         `xml:"defaultVersion"`
	Data        templateData `xml:"launchTemplateData"`
}

func (s *Sim) wireVersion(t *launchTemplate, v *templateVersion) wireVersion {
	return wireVersion{t.id, t.name, v.number, v.description, wireTime(v.created), s.caller(), v.number == t.defaultVersion, v.data}
}

// templateName is what EC2 takes as a name (EC2 API Reference, CreateLaunchTemplate).
var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)

type createLaunchTemplateInput struct {
	LaunchTemplateName string       `form:"LaunchTemplateName,required"`
	LaunchTemplateData templateData `form:"LaunchTemplateData,required"`
	VersionDescription string
	TagSpecifications  []tagSpecification `form:"TagSpecification"`
	ClientToken        string
}

func (s *Sim) createLaunchTemplate(c *call, in *createLaunchTemplateInput) (any, error) {
	return s.idempotent(c, in.ClientToken, func() (func() (any, error), error) {
		if !templateName.MatchString(in.LaunchTemplateName) {
			return nil, apiErrorf("InvalidLaunchTemplateName.MalformedException", "Launch template name '%s' is not valid: 3 to 128 letters, digits and ()./_-", in.LaunchTemplateName)
		}
		if _, err := c.region.template("", in.LaunchTemplateName); err == nil {
			return nil, apiErrorf("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
		}
		if err := in.LaunchTemplateData.check(); err != nil {
			return nil, err
		}
		tags, err := specifiedTags(in.TagSpecifications, "launch-template")
		if err != nil {
			return nil, err
		}
		t := &launchTemplate{
			id: s.newID("lt"), name: in.LaunchTemplateName, created: s.now, defaultVersion: 1, tags: tags,
			versions: map[int64]*templateVersion{},
		}
		t.add(s.now, in.VersionDescription, in.LaunchTemplateData)
		c.region.templates[t.id] = t
		return func() (any, error) { return templateResult{s.wireTemplate(t)}, nil }, nil
	})
}

func (t *launchTemplate) add(now time.Time, description string, data templateData) *templateVersion {
	t.latest++
	v := &templateVersion{number: t.latest, created: now, description: description, data: data}
	t.versions[v.number] = v
	return v
}

type createLaunchTemplateVersionInput struct {
	LaunchTemplateId   string
	LaunchTemplateName string
	LaunchTemplateData templateData `form:"LaunchTemplateData,required"`
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
			if len(data.TagSpecifications) == 0 {
				data.TagSpecifications = source.data.TagSpecifications
			}
		}
		if err := data.check(); err != nil {
			return nil, err
		}
		v := t.add(s.now, in.VersionDescription, data)
		return func() (any, error) {
			return struct {
				Version wireVersion `xml:"launchTemplateVersion"`
			}{s.wireVersion(t, v)}, nil
		}, nil
	})
}

type modifyLaunchTemplateInput struct {
	LaunchTemplateId   string
	LaunchTemplateName string
	DefaultVersion     string `form:"SetDefaultVersion"`
	ClientToken        string
}

func (s *Sim) modifyLaunchTemplate(c *call, in *modifyLaunchTemplateInput) (any, error) {
	return s.idempotent(c, in.ClientToken, func() (func() (any, error), error) {
		t, err := c.region.template(in.LaunchTemplateId, in.LaunchTemplateName)
		if err != nil {
			return nil, err
		}
		if in.DefaultVersion != "" {
			v, err := t.version(in.DefaultVersion)
			if err != nil {
				return nil, err
			}
			t.defaultVersion = v.number
		}
		return func() (any, error) { return templateResult{s.wireTemplate(t)}, nil }, nil
	})
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
	return templateResult{s.wireTemplate(t)}, nil
}

type deleteLaunchTemplateVersionsInput struct {
	LaunchTemplateId   string
	LaunchTemplateName string
	Versions           []string `form:"LaunchTemplateVersion,required"`
}

type wireDeletedVersion struct {
	ID     string     `xml:"launchTemplateId"`
	Name   string     `xml:"launchTemplateName"`
	Number int64      `xml:"versionNumber"`
	Error  *wireError `xml:"responseError"`
}

type wireError struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

func (s *Sim) deleteLaunchTemplateVersions(c *call, in *deleteLaunchTemplateVersionsInput) (any, error) {
	t, err := c.region.template(in.LaunchTemplateId, in.LaunchTemplateName)
	if err != nil {
		return nil, err
	}
	var out struct {
		Deleted []wireDeletedVersion `xml:"successfullyDeletedLaunchTemplateVersionSet>item"`
		Kept    []wireDeletedVersion `xml:"unsuccessfullyDeletedLaunchTemplateVersionSet>item"`
	}
	for _, text := range in.Versions {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, apiErrorf("InvalidParameterValue", "Value (%s) for parameter LaunchTemplateVersion is invalid.", text)
		}
		w := wireDeletedVersion{ID: t.id, Name: t.name, Number: n}
		switch {
		case n == t.defaultVersion: // EC2 refuses it: DeleteLaunchTemplateVersions
			w.Error = &wireError{"unexpectedError", "Default version cannot be deleted"}
			out.Kept = append(out.Kept, w)
		case t.versions[n] == nil:
			w.Error = &wireError{"launchTemplateVersionDoesNotExist", "Launch template version does not exist"}
			out.Kept = append(out.Kept, w)
		default:
			delete(t.versions, n)
			out.Deleted = append(out.Deleted, w)
		}
	}
	return out, nil
}

type describeLaunchTemplatesInput struct {
	IDs     []string `form:"LaunchTemplateId"`
	Names   []string `form:"LaunchTemplateName"`
	Filters []filter `form:"Filter"`
	paging
}

func (s *Sim) describeLaunchTemplates(c *call, in *describeLaunchTemplatesInput) (any, error) {
	items, err := byID(sortedValues(c.region.templates), in.IDs, func(t *launchTemplate) string { return t.id }, templateNotFound)
	if err == nil {
		items, err = byID(items, in.Names, func(t *launchTemplate) string { return t.name }, templateNameNotFound)
	}
	if err != nil {
		return nil, err
	}
	names := filterNames[*launchTemplate]{
		tags: func(t *launchTemplate) map[string]string { return t.tags },
		values: map[string]func(*launchTemplate) []string{
			"launch-template-name": one(func(t *launchTemplate) string { return t.name }),
			"create-time":          one(func(t *launchTemplate) string { return wireTime(t.created) }),
		}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 1, 200, len(in.IDs)+len(in.Names) > 0, items)
	out := struct {
		Templates []wireTemplate `xml:"launchTemplates>item"`
		Next      string         `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, t := range part {
		out.Templates = append(out.Templates, s.wireTemplate(t))
	}
	return out, err
}

type describeLaunchTemplateVersionsInput struct {
	LaunchTemplateId   string
	LaunchTemplateName string
	Versions           []string `form:"LaunchTemplateVersion"`
	MinVersion         *int64
	MaxVersion         *int64
	ResolveAlias       bool
	Filters            []filter `form:"Filter"`
	paging
}

func (s *Sim) describeLaunchTemplateVersions(c *call, in *describeLaunchTemplateVersionsInput) (any, error) {
	found, err := c.region.askedVersions(in)
	if err != nil {
		return nil, err
	}
	names := filterNames[wireVersion]{values: map[string]func(wireVersion) []string{
		"image-id":           one(func(v wireVersion) string { return v.Data.ImageId }),
		"instance-type":      one(func(v wireVersion) string { return v.Data.InstanceType }),
		"is-default-version": one(func(v wireVersion) string { return strconv.FormatBool(v.Default) }),
	}}
	var all []wireVersion
	for _, f := range found {
		all = append(all, s.wireVersion(f.template, f.version))
	}
	if all, err = names.apply(in.Filters, all); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 1, 200, len(in.Versions) > 0, all)
	return struct {
		Versions []wireVersion `xml:"launchTemplateVersionSet>item"`
		Next     string        `xml:"nextToken,omitempty"`
	}{part, next}, err
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
	numbers := slices.Sorted(maps.Keys(t.versions))
	slices.Reverse(numbers)
	for _, n := range numbers {
		if (in.MinVersion == nil || n >= *in.MinVersion) && (in.MaxVersion == nil || n <= *in.MaxVersion) {
			out = append(out, foundVersion{t, t.versions[n]})
		}
	}
	return out, nil
}

func (r *region) template(id, name string) (*launchTemplate, error) {
	switch {
	case id != "" && name != "":
		return nil, apiErrorf("InvalidParameterCombination", "Only one of launch template ID or launch template name can be specified")
	case id == "" && name == "":
		return nil, apiErrorf("MissingParameter", "The request must contain the parameter LaunchTemplateId or LaunchTemplateName")
	case id != "":
		if !strings.HasPrefix(id, "lt-") {
			return nil, apiErrorf("InvalidLaunchTemplateId.Malformed", "Invalid id: \"%s\" (expecting \"lt-...\")", id)
		}
		if t := r.templates[id]; t != nil {
			return t, nil
		}
		return nil, templateNotFound(id)
	}
	for _, t := range r.templates {
		if t.name == name {
			return t, nil
		}
	}
	return nil, templateNameNotFound(name)
}

// version finds a version by number, $Latest or $Default; empty means $Default.
func (t *launchTemplate) version(which string) (*templateVersion, error) {
	n := t.defaultVersion
	switch which {
	case "", "$Default":
	case "$Latest":
		n = slices.Max(slices.Collect(maps.Keys(t.versions)))
	default:
		var err error
		if n, err = strconv.ParseInt(which, 10, 64); err != nil {
			return nil, apiErrorf("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version: '%s'", which)
		}
	}
	if v := t.versions[n]; v != nil {
		return v, nil
	}
	return nil, apiErrorf("InvalidLaunchTemplateId.VersionNotFound",
		"Could not find the specified version %s for the launch template with ID %s.", which, t.id)
}

func templateNotFound(id string) error {
	return apiErrorf("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
}

func templateNameNotFound(name string) error {
	return apiErrorf("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

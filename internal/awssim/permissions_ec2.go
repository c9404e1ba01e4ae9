package awssim

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim/iam"
)

// ec2Resources are the parameters that name what an operation changes, and the tags that it gives.
type ec2Resources struct {
	Resources    []string `form:"ResourceId"`
	Instances    []string `form:"InstanceId"`
	TemplateID   string   `form:"LaunchTemplateId"`
	TemplateName string   `form:"LaunchTemplateName"`
	Reservation  string   `form:"CapacityReservationId"`

	Tags  []tag              `form:"Tag"`
	Specs []tagSpecification `form:"TagSpecification"`
	More  []tagSpecification `form:"TagSpecifications"`
}

// createdTypes are the types of the resources that operations make.
var createdTypes = map[string]string{
	"CreateLaunchTemplate":                             "launch-template",
	"CreateCapacityReservation":                        "capacity-reservation",
	"PurchaseCapacityBlock":                            "capacity-reservation",
	"CreateInterruptibleCapacityReservationAllocation": "capacity-reservation",
}

// ec2Needs lists what a call of EC2 needs: the action on each thing that it touches, the tags of what it makes, and
// what other services are asked for on the way (Service Authorization Reference, "Actions, resources, and condition
// keys for Amazon EC2").
func (s *Sim) ec2Needs(c *call) []iam.Request {
	action := "ec2:" + c.Operation
	if strings.HasPrefix(c.Operation, "Describe") {
		return append([]iam.Request{need(action, "*", nil, nil)}, s.aliasNeeds(c)...)
	}
	if c.Operation == "RunInstances" {
		return s.launchNeeds(c)
	}
	var in ec2Resources
	if !c.read(&in) {
		return []iam.Request{need(action, "*", nil, nil)}
	}
	given := map[string]string{}
	for _, t := range in.Tags {
		given[t.Key] = t.Value
	}
	specs := slices.Concat(in.Specs, in.More)
	var needs []iam.Request
	if made := createdTypes[c.Operation]; made != "" {
		needs = append(needs, need(action, s.arn("ec2", c.Region, made+"/*"), tagsFor(specs, made), nil))
	} else if in.TemplateName != "" {
		if t, err := c.region.template("", in.TemplateName); err == nil {
			in.TemplateID = t.id
		}
	}
	for _, id := range slices.Concat(in.Resources, in.Instances, []string{in.TemplateID, in.Reservation}) {
		if id != "" {
			needs = append(needs, need(action, s.ec2ARN(c.region, kindOf(id), id), given, c.region.shownTagsOf(id)))
		}
	}
	if needs == nil {
		needs = []iam.Request{need(action, "*", nil, nil)}
	}
	return append(needs, s.tagNeeds(c, specs)...)
}

// launchNeeds lists what RunInstances needs. A launch touches a volume and a network interface too, which the request
// does not name.
func (s *Sim) launchNeeds(c *call) []iam.Request {
	const action = "ec2:RunInstances"
	var in runInstancesInput
	if !c.read(&in) {
		return []iam.Request{need(action, "*", nil, nil)}
	}
	data, specs := in.launchData, in.TagSpecifications
	ids := []string{in.SubnetId}
	if ref := in.LaunchTemplate; ref != nil {
		if t, err := c.region.template(ref.LaunchTemplateId, ref.LaunchTemplateName); err == nil {
			ids = append(ids, t.id)
			if v, err := t.version(ref.Version); err == nil {
				data, specs = v.data.launchData.override(data), slices.Concat(v.data.TagSpecifications, specs)
			}
		}
	}
	ids = append(ids, data.target().CapacityReservationId)
	ids = append(ids, data.SecurityGroupIds...)
	for _, n := range data.NetworkInterfaces {
		ids = append(append(ids, n.SubnetId), n.Groups...)
	}
	if image := c.region.image(data.ImageId); image != nil {
		ids = append(ids, image.ID)
	}
	var needs []iam.Request
	ask := func(kind, id string) {
		n := need(action, s.ec2ARN(c.region, kind, id), tagsFor(specs, kind), c.region.shownTagsOf(id))
		if kind == "instance" && data.InstanceType != "" {
			n.Keys.Set(keyInstanceType, data.InstanceType)
		}
		needs = append(needs, n)
	}
	for _, made := range []string{"instance", "volume", "network-interface"} {
		ask(made, "*")
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if id != "" {
			ask(kindOf(id), id)
		}
	}
	if data.KeyName != "" {
		ask("key-pair", data.KeyName)
	}
	if data.Placement != nil && data.Placement.GroupName != "" {
		ask("placement-group", data.Placement.GroupName)
	}
	needs = append(needs, s.tagNeeds(c, specs)...)
	if p := data.IamInstanceProfile; p != nil {
		arn := p.Arn
		if arn == "" {
			arn = s.iamARN("instance-profile/" + p.Name)
		}
		needs = append(needs, s.passRole(arn))
	}
	return append(needs, s.parameterNeeds(c, data.ImageId)...)
}

// parameterNeeds are the needs of an image that a parameter of Systems Manager names.
func (s *Sim) parameterNeeds(c *call, image string) []iam.Request {
	parameter, named := strings.CutPrefix(image, "resolve:ssm:")
	if !named {
		return nil
	}
	return []iam.Request{need("ssm:GetParameters", s.arn("ssm", c.Region, "parameter/"+strings.TrimPrefix(parameter, "/")), nil, nil)}
}

// aliasNeeds are the needs of DescribeLaunchTemplateVersions with ResolveAlias (EC2 Auto Scaling User Guide, "Use AWS
// Systems Manager parameters": a user of the template needs ssm:GetParameters).
func (s *Sim) aliasNeeds(c *call) (needs []iam.Request) {
	var in describeLaunchTemplateVersionsInput
	if c.Operation != "DescribeLaunchTemplateVersions" || !c.read(&in) || !in.ResolveAlias {
		return nil
	}
	found, _ := c.region.askedVersions(&in)
	for _, f := range found {
		needs = append(needs, s.parameterNeeds(c, f.version.data.ImageId)...)
	}
	return needs
}

// tagNeeds is ec2:CreateTags for the resources that a call tags while it makes them.
func (s *Sim) tagNeeds(c *call, specs []tagSpecification) (needs []iam.Request) {
	var kinds []string
	for _, spec := range specs {
		if len(spec.Tags) > 0 && !slices.Contains(kinds, spec.ResourceType) {
			kinds = append(kinds, spec.ResourceType)
		}
	}
	for _, kind := range kinds {
		n := need("ec2:CreateTags", s.arn("ec2", c.Region, kind+"/*"), tagsFor(specs, kind), nil)
		n.Keys.Set(keyCreateAction, c.Operation)
		needs = append(needs, n)
	}
	return needs
}

func tagsFor(specs []tagSpecification, kind string) map[string]string {
	tags := map[string]string{}
	for _, spec := range specs {
		for _, t := range spec.Tags {
			if spec.ResourceType == kind {
				tags[t.Key] = t.Value
			}
		}
	}
	return tags
}

// read fills in from the parameters of a request that it has fields for. It reports whether they are well formed.
func (c *call) read(in any) bool {
	d := decoder{rest: maps.Clone(c.form)}
	return d.structure("", reflect.ValueOf(in).Elem()) == nil
}

// kindOf is the type of the resource with an id, as ARNs have it.
func kindOf(id string) string {
	prefix, _, _ := strings.Cut(id, "-")
	return map[string]string{
		"i": "instance", "cr": "capacity-reservation", "cb": "capacity-block", "lt": "launch-template", "vpc": "vpc",
		"subnet": "subnet", "sg": "security-group", "ami": "image",
	}[prefix]
}

func (s *Sim) ec2ARN(r *region, kind, id string) string {
	arn := s.arn("ec2", r.name, kind+"/"+id)
	owner := s.scenario.Account
	if res := r.reservations[id]; res != nil {
		owner = res.owner
	}
	if kind == "image" { // its ARN has no account
		owner = ""
	}
	return strings.Replace(arn, ":"+s.scenario.Account+":", ":"+owner+":", 1)
}

// shownTagsOf are the tags of a resource as EC2 knows them by now; none of one that it does not know.
func (r *region) shownTagsOf(id string) map[string]string {
	tags, err := r.tagsOf(id)
	if err != nil {
		return nil
	}
	return r.shownTags(id, tags)
}

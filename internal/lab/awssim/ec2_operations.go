package awssim

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim/shapes"
)

// ec2Version is the only version of EC2's API.
const ec2Version = "2016-11-15"

// ec2Operations names every EC2 operation of the simulator.
func (s *Sim) ec2Operations() map[string]operation {
	all := map[string]operation{
		"GetConsoleOutput":                        ec2Op(s.getConsoleOutput),
		"CreateLaunchTemplate":                    ec2Op(s.createLaunchTemplate),
		"CreateLaunchTemplateVersion":             ec2Op(s.createLaunchTemplateVersion),
		"DeleteLaunchTemplate":                    ec2Op(s.deleteLaunchTemplate),
		"DescribeLaunchTemplateVersions":          ec2Op(s.describeLaunchTemplateVersions),
		"RunInstances":                            ec2Op(s.runInstances),
		"DescribeInstances":                       ec2Op(s.describeInstances),
		"TerminateInstances":                      ec2Op(s.terminateInstances),
		"CreateTags":                              ec2Op(s.createTags),
		"CreateCapacityReservation":               ec2Op(s.createCapacityReservation),
		"CancelCapacityReservation":               ec2Op(s.cancelCapacityReservation),
		"ModifyCapacityReservation":               ec2Op(s.modifyCapacityReservation),
		"DescribeCapacityBlockOfferings":          ec2Op(s.describeCapacityBlockOfferings),
		"PurchaseCapacityBlock":                   ec2Op(s.purchaseCapacityBlock),
		"DescribeCapacityBlockExtensionOfferings": ec2Op(s.describeExtensionOfferings),
		"PurchaseCapacityBlockExtension":          ec2Op(s.purchaseExtension),
		"DescribeCapacityBlockExtensionHistory":   ec2Op(s.describeExtensionHistory),
	}
	for name, d := range s.describeOperations() {
		all[name] = s.describe(d)
	}

	return all
}

// describeOperations has the operations that list resources, page by page.
func (s *Sim) describeOperations() map[string]describing {
	return map[string]describing{
		"DescribeRegions": {
			items:   s.regionObjects,
			answer:  "Regions",
			filters: "region-name endpoint opt-in-status",
			more:    "AllRegions",
		},
		"DescribeAvailabilityZones": {
			items:   s.zoneObjects,
			answer:  "AvailabilityZones",
			filters: "zone-name zone-id zone-type opt-in-status region-name group-name state",
			more:    "AllAvailabilityZones",
		},
		"DescribeSubnets": {
			items:    s.subnetObjects,
			answer:   "Subnets",
			id:       "SubnetId",
			noSuchID: subnetNotFound,
			least:    5,
			most:     1000,
			filters:  "subnet-id vpc-id availability-zone availability-zone-id cidr-block state tag",
		},
		"DescribeRouteTables": {items: s.routeTableObjects, answer: "RouteTables", least: 5, most: 100, filters: "vpc-id"},
		"DescribeVpcEndpoints": {
			items:   func(*call) []object { return nil },
			answer:  "VpcEndpoints",
			least:   1,
			most:    1000,
			filters: "vpc-id",
		},
		"DescribeSecurityGroups": {
			items:    s.securityGroupObjects,
			answer:   "SecurityGroups",
			id:       "GroupId",
			noSuchID: groupNotFound,
			least:    5,
			most:     1000,
			filters:  "group-id group-name vpc-id tag",
		},
		"DescribeImages": {
			items:    s.imageObjects,
			answer:   "Images",
			id:       "ImageId",
			noSuchID: imageNotFound,
			least:    1,
			most:     1000,
			filters:  "image-id name architecture owner-id state tag",
			more:     "Owners IncludeDeprecated IncludeDisabled",
		},
		"DescribeInstanceTypes": {
			items:    s.typeObjects,
			answer:   "InstanceTypes",
			id:       "InstanceType",
			noSuchID: typeNotFound,
			least:    5,
			most:     100,
			filters: "instance-type current-generation bare-metal supported-usage-class=SupportedUsageClasses " +
				"vcpu-info.default-vcpus=VCpuInfo.DefaultVCpus " +
				"processor-info.supported-architecture=ProcessorInfo.SupportedArchitectures",
		},
		"DescribeLaunchTemplates": {
			items:      s.templateObjects,
			answer:     "LaunchTemplates",
			id:         "LaunchTemplateId",
			noSuchID:   templateNotFound,
			name:       "LaunchTemplateName",
			noSuchName: templateNameNotFound,
			least:      1,
			most:       200,
			filters:    "launch-template-name create-time tag",
		},
		"DescribeInstanceStatus": {
			items:   s.statusObjects,
			answer:  "InstanceStatuses",
			least:   5,
			most:    1000,
			filters: "system-status.status=SystemStatus.Status event.code=Events.Code",
		},
		// EC2 has no filter for the kind of reservation nor for the zone id.
		"DescribeCapacityReservations": {
			items:    s.reservationObjects,
			answer:   "CapacityReservations",
			id:       "CapacityReservationId",
			noSuchID: reservationNotFound,
			least:    1,
			most:     1000,
			filters: "instance-type owner-id instance-platform availability-zone tenancy " +
				"outpost-arn placement-group-arn state start-date end-date end-date-type " +
				"instance-match-criteria tag",
		},
		// Ids and pages of topologies: SDK documentation of both operations.
		"DescribeCapacityReservationTopology": {
			items:    s.reservationTopologies,
			answer:   "CapacityReservations",
			id:       "CapacityReservationId",
			noSuchID: reservationNotFound,
			mostIDs:  10,
			least:    1,
			most:     10,
			filters:  "availability-zone instance-type",
		},
		"DescribeInstanceTopology": {
			items:    s.instanceTopologies,
			answer:   "Instances",
			id:       "InstanceId",
			noSuchID: instanceNotFound,
			mostIDs:  100,
			least:    1,
			most:     100,
			filters:  "availability-zone instance-type zone-id",
			more:     "GroupNames",
		},
		"DescribeCapacityBlocks": {
			items:    s.blockObjects,
			answer:   "CapacityBlocks",
			id:       "CapacityBlockId",
			noSuchID: blockNotFound,
			least:    1,
			most:     1000,
			filters: "capacity-block-id ultraserver-type availability-zone start-date end-date create-date " +
				"state tag",
		},
		"DescribeCapacityBlockStatus": {
			items:    s.blockStatuses,
			answer:   "CapacityBlockStatuses",
			id:       "CapacityBlockId",
			noSuchID: blockNotFound,
			least:    1,
			most:     1000,
			filters:  "interconnect-status",
		},
	}
}

// ec2Op wraps an operation of EC2: decode, DryRun, run, encode.
func ec2Op[In any](run func(*call, *In) (any, error)) operation {
	return func(c *call) ([]byte, error) {
		if v := c.form.Get("Version"); v != ec2Version {
			return nil, apiErrorf("NoSuchVersion", "The requested version (%s) of service AmazonEC2 does not exist", v)
		}

		dryRun := c.in["DryRun"] == true
		delete(c.in, "DryRun")

		var in In

		fields := reflect.VisibleFields(reflect.TypeFor[In]())
		for name := range c.in { // no parameter of AWS's is silently passed over
			if !slices.ContainsFunc(fields, func(f reflect.StructField) bool { return f.Name == name }) {
				return nil, apiErrorf("UnknownParameter", "The simulator does not take the parameter %s", name)
			}
		}

		if err := fill(&in, c.in, true); err != nil {
			return nil, err
		}

		if try, checks := any(&in).(dryRunner); dryRun && checks {
			if err := try.dryRun(c); err != nil {
				return nil, err
			}
		}

		if dryRun {
			return nil, &APIError{
				Code:    "DryRunOperation",
				Status:  http.StatusPreconditionFailed,
				Message: "Request would have succeeded, but DryRun flag is set.",
			}
		}

		out, err := run(c, &in)
		if err != nil {
			return nil, err
		}

		return shapes.EncodeEC2(c.Operation, c.requestID, out)
	}
}

// dryRunner is the input of an operation whose dry run looks at more than parameters and permissions.
type dryRunner interface{ dryRun(*call) error }

// stsOperations has the one call with which clients ask who they are.
func (s *Sim) stsOperations() map[string]operation {
	return map[string]operation{"GetCallerIdentity": func(c *call) ([]byte, error) {
		type identity struct{ Arn, UserId, Account string }

		return xml.Marshal(struct {
			XMLName   xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ GetCallerIdentityResponse"`
			Result    identity `xml:"GetCallerIdentityResult"`
			RequestID string   `xml:"ResponseMetadata>RequestId"`
		}{
			Result: identity{
				Arn:     s.caller(),
				UserId:  "AIDASIMULATED",
				Account: s.scenario.Account,
			},
			RequestID: c.requestID,
		})
	}}
}

// filter is one of the filters of a Describe call: its values are alternatives, several filters must all match.
type filter struct {
	Name   string
	Values []string
}

// listing has the parameters that all Describe calls take.
type listing struct {
	Filters    []filter
	MaxResults *int
	NextToken  string
}

// describing is a Describe operation of EC2 that lists things.
type describing struct {
	items  func(*call) []object // all that are visible, in order
	answer string               // the member of the answer
	// id is a member of an item, whose plural is the member of the request that names some: one that none has fails the
	// whole call, as in EC2. name is another one.
	id, name             string
	noSuchID, noSuchName func(string) error
	mostIDs, least, most int    // of ids in a request, and of MaxResults; 0: it has no pages
	filters, more        string // see list; further parameters, which items reads
}

func (s *Sim) describe(d describing) operation {
	return func(c *call) ([]byte, error) {
		items := d.items(c)
		named := false
		for parameter, noSuch := range map[string]func(string) error{d.id: d.noSuchID, d.name: d.noSuchName} {
			ids := c.takeList(parameter + "s")
			if len(ids) == 0 {
				continue
			}

			if d.mostIDs > 0 && len(ids) > d.mostIDs {
				return nil, apiErrorf(
					"InvalidParameterValue",
					"The maximum number of values of %s is %d",
					parameter,
					d.mostIDs,
				)
			}

			var err error

			items, err = byID(items, ids, func(o object) string { return o[parameter].(string) }, noSuch)
			if err != nil {
				return nil, err
			}

			named = true
		}

		for parameter := range strings.FieldsSeq(d.more) {
			delete(c.in, parameter)
		}

		if d.most == 0 {
			return ec2Op(func(c *call, in *struct{ Filters []filter }) (any, error) {
				all, _, err := list(c, listing{Filters: in.Filters}, 0, len(items), true, d.filters, items)
				return object{d.answer: all}, err
			})(c)
		}

		return ec2Op(func(c *call, in *listing) (any, error) {
			part, next, err := list(c, *in, d.least, d.most, named, d.filters, items)
			return object{d.answer: part, "NextToken": next}, err
		})(c)
	}
}

// takeList takes a list of strings out of a request.
func (c *call) takeList(member string) (values []string) {
	list, _ := c.in[member].([]any)
	delete(c.in, member)

	for _, value := range list {
		values = append(values, value.(string))
	}

	return values
}

// list filters the items of an answer, and cuts the asked page out of them: see [page]. The names of filters stand
// apart by spaces: vpc-id is member VpcId of an item; instance-state-name=State.Name is member Name of member State;
// tag stands for tag:KEY and tag-key. An unknown filter is an error, even without items.
func list(
	c *call,
	in listing,
	least, most int,
	byID bool,
	filters string,
	items []object,
) (part []object, next string, err error) {
	for _, f := range in.Filters {
		read, err := filterOf(f.Name, filters)
		if err != nil {
			return nil, "", err
		}

		if len(f.Values) == 0 {
			return nil, "", apiErrorf("InvalidParameterValue", "The filter '%s' has no values", f.Name)
		}

		items = slices.DeleteFunc(
			slices.Clone(items),
			func(item object) bool { return !matchesAny(f.Values, read(item)) },
		)
	}

	return page(c, in, least, most, byID, items)
}

func filterOf(name, filters string) (func(object) []string, error) {
	for word := range strings.FieldsSeq(filters) {
		known, path, _ := strings.Cut(word, "=")
		tags := func(item object) map[string]string { tags, _ := item["Tags"].(map[string]string); return tags }
		key, byKey := strings.CutPrefix(name, "tag:")
		switch {
		case known == "tag" && byKey:
			return func(item object) []string {
				if value, there := tags(item)[key]; there {
					return []string{value}
				}
				return nil
			}, nil
		case known == "tag" && name == "tag-key":
			return func(item object) []string { return slices.Collect(maps.Keys(tags(item))) }, nil
		case known != name || name == "tag":
			continue
		case path == "":
			for part := range strings.SplitSeq(name, "-") {
				path += strings.ToUpper(part[:1]) + part[1:]
			}
		}

		return func(item object) []string { return valuesAt(item, strings.Split(path, ".")) }, nil
	}

	return nil, apiErrorf("InvalidParameterValue", "The filter '%s' is invalid", name)
}

// valuesAt returns the values of a member, of each item where a list is on the way.
func valuesAt(v any, path []string) []string {
	switch v := v.(type) {
	case object:
		return valuesAt(v[path[0]], path[1:])
	case []object:
		var all []string
		for _, item := range v {
			all = append(all, valuesAt(item, path)...)
		}

		return all
	case []string:
		return v
	case time.Time:
		return []string{wireTime(v)}
	case nil:
		return []string{""}
	}

	return []string{fmt.Sprint(v)}
}

func matchesAny(patterns, values []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return wildcard(p, v) })
	})
}

// wildcard matches EC2's filter values: * is any text, ? one character, \ takes the next literally.
func wildcard(pattern, s string) bool {
	for pattern != "" {
		switch pattern[0] {
		case '*':
			for i := range len(s) + 1 {
				if wildcard(pattern[1:], s[i:]) {
					return true
				}
			}

			return false
		case '?':
			if s == "" {
				return false
			}
		default:
			if pattern[0] == '\\' && len(pattern) > 1 {
				pattern = pattern[1:]
			}

			if s == "" || s[0] != pattern[0] {
				return false
			}
		}

		pattern = pattern[1:]
		s = s[1:]
	}

	return s == ""
}

// page cuts the asked page out of items. least and most bound MaxResults; byID says that the
// request names ids, with which EC2 refuses MaxResults.
func page[T any](c *call, p listing, least, most int, byID bool, items []T) (part []T, next string, err error) {
	size := most
	if p.MaxResults != nil {
		size = *p.MaxResults

		if byID {
			return nil, "", apiErrorf(
				"InvalidParameterCombination",
				"The parameter MaxResults cannot be used with ids in %s",
				c.Operation,
			)
		}

		if size < least || size > most {
			return nil, "", apiErrorf(
				"InvalidParameterValue",
				"Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.",
				size,
				least,
				most,
			)
		}
	}

	from := 0
	if p.NextToken != "" {
		raw, err := base64.URLEncoding.DecodeString(p.NextToken)
		offset, ok := strings.CutPrefix(string(raw), c.Operation+":")
		if err == nil && ok {
			from, err = strconv.Atoi(offset)
		}

		if err != nil || !ok || from < 0 {
			return nil, "", apiErrorf("InvalidNextToken", "The token '%s' is invalid", p.NextToken)
		}
	}

	from = min(from, len(items))
	to := min(from+size, len(items))
	// A page may have fewer than were asked for, even none, and others follow it (EC2 API Reference, "Pagination").
	if most := c.region.sim.scenario.PageSize; most > 0 && !byID {
		to = min(from+most, to)
		if p.NextToken == "" {
			to = 0
		}
	}

	if to < len(items) {
		next = base64.URLEncoding.EncodeToString([]byte(c.Operation + ":" + strconv.Itoa(to)))
	}

	return items[from:to], next, nil
}

// object is a structure of an answer, by the names that the service model gives its members. What is empty is left out.
type object = map[string]any

// ec2ErrorBody writes an error in EC2's envelope, or in that of STS.
func ec2ErrorBody(c *call, e *APIError) []byte {
	type failure struct {
		Code    string
		Message string
	}

	var v any = struct {
		XMLName   xml.Name  `xml:"Response"`
		Errors    []failure `xml:"Errors>Error"`
		RequestID string
	}{Errors: []failure{{e.Code, e.Message}}, RequestID: c.requestID}
	if c.Service == "sts" {
		v = struct {
			XMLName   xml.Name `xml:"ErrorResponse"`
			Error     failure
			RequestID string `xml:"RequestId"`
		}{Error: failure{e.Code, e.Message}, RequestID: c.requestID}
	}

	body, err := xml.Marshal(v)
	if err != nil {
		panic(err) // plain strings
	}

	return append([]byte(xml.Header), body...)
}

// fill reads a struct from what has the names of the service model. If it is strict, a member that the struct has not
// is an error.
func fill(into, from any, strict bool) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}

	d := json.NewDecoder(bytes.NewReader(text))
	if d.UseNumber(); strict {
		d.DisallowUnknownFields()
	}

	return d.Decode(into)
}

// wireTime returns a time as EC2 writes it; the zero time is "".
func wireTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(shapes.EC2Time)
}

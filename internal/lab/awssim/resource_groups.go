package awssim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// groupsService is AWS Resource Groups in a credential scope.
const groupsService = "resource-groups"

// reservationGroup is a resource group for Capacity Reservations, the only kind that the simulator has.
type reservationGroup struct {
	name    string
	arn     string
	tags    map[string]string
	members []*reservation // none has ended; the addition of some may be pending
}

// isPending reports whether the addition of a member is not done yet.
func (g *reservationGroup) isPending(r *region, res *reservation) bool {
	return !r.isVisible(g.arn + res.ID)
}

// targets lists the reservations that launches into the group can use.
func (g *reservationGroup) targets(r *region) []*reservation {
	return slices.DeleteFunc(slices.Clone(g.members), func(res *reservation) bool { return g.isPending(r, res) })
}

// groupsCall returns the operation of a request of Resource Groups, and its body with what the path says.
func groupsCall(r *http.Request, body []byte) (operation string, in []byte, err error) {
	tagged, isTags := strings.CutSuffix(r.URL.Path, "/tags")
	if arn, ok := strings.CutPrefix(tagged, "/resources/"); isTags && ok && r.Method == http.MethodGet {
		in, err = json.Marshal(map[string]string{"Arn": arn})
		return "GetTags", in, err
	}

	operation = map[string]string{
		"/delete-group":         "DeleteGroup",
		"/get-group":            "GetGroup",
		"/group-resources":      "GroupResources",
		"/groups":               "CreateGroup",
		"/list-group-resources": "ListGroupResources",
	}[r.URL.Path]
	if operation == "" || r.Method != http.MethodPost {
		return "", nil, &APIError{
			Code:    "UnknownOperationException",
			Message: fmt.Sprintf("the simulator has no operation %s %s", r.Method, r.URL.Path),
			Status:  http.StatusNotFound,
		}
	}

	return operation, body, nil
}

// groupsRequest is a request of Resource Groups: what the simulator reads of it.
type groupsRequest struct {
	Name          string
	Group         string // a name or an ARN
	Arn           string
	Configuration []groupConfiguration
	Tags          map[string]string
	ResourceArns  []string
	MaxResults    *int
	NextToken     string

	found *reservationGroup // which Group or Arn names
}

type groupConfiguration struct {
	Type       string           `json:",omitempty"`
	Parameters []groupParameter `json:",omitempty"`
}

type groupParameter struct {
	Name   string   `json:",omitempty"`
	Values []string `json:",omitempty"`
}

// groupsOperations names every operation of Resource Groups.
func (s *Sim) groupsOperations() map[string]operation {
	operations := map[string]operation{}
	for name, handle := range map[string]func(*call, *groupsRequest) (any, error){
		"CreateGroup": s.createGroup,
		"DeleteGroup": s.deleteGroup,
		"GetGroup": func(_ *call, in *groupsRequest) (any, error) {
			return object{"Group": in.found.wire()}, nil
		},
		"GetTags": func(_ *call, in *groupsRequest) (any, error) {
			return object{"Arn": in.found.arn, "Tags": in.found.tags}, nil
		},
		"GroupResources":     s.groupResources,
		"ListGroupResources": s.listGroupResources,
	} {
		operations[name] = func(c *call) ([]byte, error) {
			var in groupsRequest

			d := json.NewDecoder(bytes.NewReader(c.Body))
			d.DisallowUnknownFields() // AWS has more, which the simulator does not do

			if err := d.Decode(&in); err != nil {
				return nil, fmt.Errorf("decoding %s: %w", c.Operation, err)
			}

			if name := in.Group + in.Arn; c.Operation != "CreateGroup" {
				in.found = c.region.reservationGroup(name)
				if in.found == nil {
					return nil, &APIError{
						Code:    "NotFoundException",
						Message: "Cannot find group: " + name,
						Status:  http.StatusNotFound,
					}
				}
			}

			out, err := handle(c, &in)
			if err != nil {
				return nil, err
			}

			return json.Marshal(out)
		}
	}

	return operations
}

// reservationGroup finds a group by its name or ARN; nil if there is none.
func (r *region) reservationGroup(nameOrARN string) *reservationGroup {
	i := slices.IndexFunc(r.reservationGroups, func(g *reservationGroup) bool {
		return g.name == nameOrARN || g.arn == nameOrARN
	})
	if i < 0 {
		return nil
	}

	return r.reservationGroups[i]
}

func (g *reservationGroup) wire() object { return object{"Name": g.name, "GroupArn": g.arn} }

func badGroupRequest(format string, args ...any) error {
	return apiErrorf("BadRequestException", format, args...)
}

// groupName matches the name of a group: AWS Resource Groups API Reference, CreateGroup.
var groupName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,300}$`)

const reservationType = "AWS::EC2::CapacityReservation"

func (s *Sim) createGroup(c *call, in *groupsRequest) (any, error) {
	if !groupName.MatchString(in.Name) || strings.HasPrefix(strings.ToLower(in.Name), "aws") {
		return nil, badGroupRequest("The name %q is not valid", in.Name)
	}

	if err := checkConfiguration(in.Configuration); err != nil {
		return nil, err
	}

	var tags []tag
	for key, value := range in.Tags {
		tags = append(tags, tag{key, value})
	}

	err := checkTags(tags)
	if err == nil && len(tags) > maxTags {
		err = tooManyTags()
	}

	if err != nil {
		return nil, badGroupRequest("%v", err)
	}

	if c.region.reservationGroup(in.Name) != nil { // message as in hashicorp/terraform-provider-aws, issue 34808
		return nil, badGroupRequest("Cannot create group: group already exists")
	}

	g := &reservationGroup{
		name: in.Name,
		arn:  s.arn("resource-groups", c.region.name, "group/"+in.Name),
		tags: copyTags(in.Tags),
	}
	c.region.reservationGroups = append(c.region.reservationGroups, g)

	return object{
		"Group":              g.wire(),
		"Tags":               g.tags,
		"GroupConfiguration": object{"Configuration": in.Configuration, "Status": "UPDATE_COMPLETE"},
	}, nil
}

// checkConfiguration demands what makes a group a target of launches: EC2 User Guide, "Create a group".
func checkConfiguration(items []groupConfiguration) error {
	isPool := slices.ContainsFunc(items, func(i groupConfiguration) bool {
		return i.Type == "AWS::EC2::CapacityReservationPool" && len(i.Parameters) == 0
	})
	takesReservations := slices.ContainsFunc(items, func(i groupConfiguration) bool {
		return i.Type == "AWS::ResourceGroups::Generic" && len(i.Parameters) == 1 &&
			i.Parameters[0].Name == "allowed-resource-types" &&
			slices.Equal(i.Parameters[0].Values, []string{reservationType})
	})
	if len(items) != 2 || !isPool || !takesReservations {
		return badGroupRequest("The configuration is not that of a Capacity Reservation group, the only one that the " +
			"simulator has")
	}

	return nil
}

func (s *Sim) deleteGroup(c *call, in *groupsRequest) (any, error) {
	c.region.reservationGroups = slices.DeleteFunc(c.region.reservationGroups,
		func(g *reservationGroup) bool { return g == in.found })

	return object{"Group": in.found.wire()}, nil
}

// groupResources adds reservations to a group. A group takes active ones only (EC2 User Guide, "Add Capacity
// Reservations to a group"); the simulator takes no others than targeted ODCRs either. AWS documents no codes.
func (s *Sim) groupResources(c *call, in *groupsRequest) (any, error) {
	if n := len(in.ResourceArns); n < 1 || n > 10 {
		return nil, badGroupRequest("ResourceArns has %d items, want 1 to 10", n)
	}

	added := []string{}
	failed := []object{}
	pending := []object{}
	for _, arn := range in.ResourceArns {
		fail := func(code, format string, args ...any) {
			failed = append(failed, object{
				"ResourceArn":  arn,
				"ErrorCode":    code,
				"ErrorMessage": fmt.Sprintf(format, args...),
			})
		}

		_, id, _ := strings.Cut(arn, ":capacity-reservation/")

		res, err := c.region.reservation(id)
		switch {
		case err != nil || arn != res.arn(c.region):
			fail("RESOURCE_NOT_FOUND", "The resource %s does not exist", arn)
		case res.state != "active":
			fail("INVALID_STATE", "The Capacity Reservation %s is %s, not active", id, res.state)
		case res.kind != kindODCR || res.match != "targeted":
			fail("UNSUPPORTED", "The simulator adds targeted ODCRs only; %s is %s, %s", id, res.kind, res.match)
		default:
			if !slices.Contains(in.found.members, res) {
				in.found.members = append(in.found.members, res)
				c.region.hide(in.found.arn+res.ID, s.lag.Groups)
			}

			if in.found.isPending(c.region, res) {
				pending = append(pending, object{"ResourceArn": arn})
			} else {
				added = append(added, arn)
			}
		}
	}

	lag := time.Duration(0)
	if s.lag.Groups != nil {
		lag = time.Duration(*s.lag.Groups)
	}

	s.later(lag, func() { c.region.fillGroup(in.found) })

	return object{"Succeeded": added, "Failed": failed, "Pending": pending}, nil
}

// maxMembers is the largest page of ListGroupResources, and the one that is given unasked.
const maxMembers = 50

func (s *Sim) listGroupResources(c *call, in *groupsRequest) (any, error) {
	all := []object{} // an empty list, not null
	for _, res := range in.found.members {
		item := object{"Identifier": object{"ResourceArn": res.arn(c.region), "ResourceType": reservationType}}
		if in.found.isPending(c.region, res) {
			item["Status"] = object{"Name": "PENDING"}
		}

		all = append(all, item)
	}

	part, next, err := page(c, listing{MaxResults: in.MaxResults, NextToken: in.NextToken}, 1, maxMembers, false, all)
	if err != nil {
		return nil, badGroupRequest("%v", err)
	}

	answer := object{"Resources": part, "QueryErrors": []object{}}
	if next != "" {
		answer["NextToken"] = next
	}

	return answer, nil
}

// fillGroup moves instances that were launched into a group, and run in no reservation, into its reservations that
// have room: EC2 User Guide, "Instance lifecycle in a group".
func (r *region) fillGroup(g *reservationGroup) {
	for _, i := range r.byLaunch() {
		if i.seat != nil || i.State != statePending && i.State != stateRunning ||
			i.data.target().CapacityReservationResourceGroupArn != g.arn {
			continue
		}

		if seats := r.freeSeats(g.targets(r), i.site(r), 1); len(seats) > 0 {
			i.take(seats[0])
		}
	}
}

// leaveGroups takes a reservation that has ended out of its groups. What ran in it moves into another one of the group,
// or goes on, on demand.
func (r *region) leaveGroups(res *reservation) {
	for _, g := range r.reservationGroups {
		i := slices.Index(g.members, res)
		if i >= 0 {
			g.members = slices.Delete(g.members, i, i+1)
			r.fillGroup(g)
		}
	}
}

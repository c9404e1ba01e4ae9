package permissions

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Document is a policy of IAM, for encoding/json.
type Document struct {
	Version   string
	Statement []Statement
}

// Statement is one of its statements.
type Statement struct {
	Sid, Effect string
	Action      []string
	Resource    []string
	Condition   Condition `json:",omitempty"`
}

// Condition has the values by operator and key.
type Condition map[string]map[string][]string

// scope is on what, and under which condition, an action is granted.
type scope struct {
	sid string
	// resources are ARNs without "arn:PARTITION:"; nil stands for "*".
	resources []string
	condition Condition
}

// Place is what a policy is for.
type Place struct {
	// Partition of AWS; the zero value is the first.
	Partition capacity.AWSPartition
	// Cluster is the value of our mark; "" is every cluster's.
	Cluster string
	// NodeRole is the role, with its path, that nodes of self-managed Slurm get; "" is any.
	NodeRole string
	// Reservations are the ids of those that instances may be launched into, and Selects
	// choose others by their tags. Without either it is every reservation.
	Reservations []string
	Selects      []capacity.Select
}

// What stands for the fields of Place in resources and conditions.
const ofCluster, ofNodes, ofReservation, ofTag, ofValue, ofDomain = "CLUSTER", "NODE_ROLE", "RESERVATION", "TAG", "VALUE", "DOMAIN"

// Policy allows the programs what they ask for, and no more: what changes something is
// bound to our mark, where AWS lets it. Actions in without are left out.
func Policy(at Place, programs []Program, without ...string) Document {
	doc := Document{Version: "2012-10-17"}
	made := map[string][]int{} // by scope
	for _, a := range Actions {
		if !a.usedBy(programs) || slices.Contains(without, a.Name) {
			continue
		}
		for _, s := range a.scopes(programs) {
			if _, ok := made[s.sid]; !ok {
				made[s.sid] = nil
				for _, one := range s.statements(at) {
					made[s.sid] = append(made[s.sid], len(doc.Statement))
					doc.Statement = append(doc.Statement, one)
				}
			}
			for _, i := range made[s.sid] {
				doc.Statement[i].Action = append(doc.Statement[i].Action, a.Name)
			}
		}
	}
	return doc
}

// scopes are where the action is granted to the programs. A scope without bounds makes
// the others needless.
func (a Action) scopes(programs []Program) []scope {
	if a.grants == nil {
		return []scope{anywhere}
	}
	var scopes []scope
	for _, g := range a.grants {
		used := slices.ContainsFunc(programs, func(p Program) bool {
			return a.Effect(p) != Unused && (g.to == nil || slices.Contains(g.to, p))
		})
		switch {
		case !used:
		case g.sid == anywhere.sid:
			return []scope{anywhere}
		default:
			scopes = append(scopes, g.scope)
		}
	}
	return scopes
}

// statements are one for most scopes: none where nothing is listed or selected, and one
// for each selection, since all tags of one must be there.
func (s scope) statements(at Place) []Statement {
	switch s.sid {
	case listed.sid:
		ids := at.Reservations
		if len(ids) == 0 && len(at.Selects) == 0 {
			ids = []string{"*"}
		}
		if len(ids) == 0 {
			return nil
		}
		pattern := s.resources[0]
		s.resources = nil
		for _, id := range ids {
			s.resources = append(s.resources, strings.ReplaceAll(pattern, ofReservation, id))
		}
	case selected.sid:
		var all []Statement
		for i, chosen := range at.Selects {
			one := s
			one.sid += strconv.Itoa(i + 1)
			one.condition = Condition{"StringEquals": {}}
			for tag, value := range chosen.Tags { // a $ would begin a variable of IAM's
				one.condition["StringEquals"]["aws:ResourceTag/"+tag] = []string{strings.ReplaceAll(value, "$", "${$}")}
			}
			all = append(all, one.statement(at))
		}
		return all
	}
	return []Statement{s.statement(at)}
}

func (s scope) statement(at Place) Statement {
	in := cmp.Or(at.Partition, capacity.AWSPartitionOf(""))
	out := Statement{Sid: s.sid, Effect: "Allow", Resource: []string{"*"}}
	if s.resources != nil {
		out.Resource = nil
	}
	for _, r := range s.resources {
		r = strings.ReplaceAll(r, ofNodes, cmp.Or(at.NodeRole, "*"))
		out.Resource = append(out.Resource, "arn:"+in.Name+":"+r)
	}
	for operator, keys := range s.condition {
		for key, values := range keys {
			if out.Condition == nil {
				out.Condition = Condition{}
			}
			if out.Condition[operator] == nil {
				out.Condition[operator] = map[string][]string{}
			}
			for _, v := range values {
				v = strings.NewReplacer(ofCluster, at.Cluster, ofDomain, in.Domain).Replace(v)
				if !slices.Contains(out.Condition[operator][key], v) {
					out.Condition[operator][key] = append(out.Condition[operator][key], v)
				}
			}
			if at.Cluster == "" && slices.Contains(values, ofCluster) {
				out.Condition[operator][key] = []string{"*"}
			}
		}
	}
	return out
}

package awssim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// pcsState is the content of PCS in one region.
type pcsState struct {
	clusters []*pcsCluster // in the order of creation
	tokens   map[tokenKey]pcsAnswer
}

// pcsAnswer remembers with which parameters a client token was used, and the answer.
type pcsAnswer struct {
	params string
	body   []byte
}

// pcsResource has the fields of clusters, node groups and queues that List operations show. Like them it is kept as
// it is on the wire: their exported members have the service model's names.
type pcsResource struct {
	Name       string    `json:"name"`
	ID         string    `json:"id"`
	ARN        string    `json:"arn"`
	ClusterID  string    `json:"clusterId,omitempty"`
	CreatedAt  time.Time `json:"createdAt"`
	ModifiedAt time.Time `json:"modifiedAt"`
	Status     string    `json:"status"`
	Failures   []object  `json:"errorInfo,omitempty"`

	kind string // in PCS's exceptions
	tags map[string]string
}

const (
	kindCluster = "CLUSTER"
	kindGroup   = "COMPUTE_NODE_GROUP"
	kindQueue   = "QUEUE"
)

// Statuses of clusters, node groups and queues.
const (
	statusCreating = "CREATING"
	statusActive   = "ACTIVE"
	statusUpdating = "UPDATING"
	statusDeleting = "DELETING"

	statusCreateFailed = "CREATE_FAILED"
	statusUpdateFailed = "UPDATE_FAILED"
	statusDeleteFailed = "DELETE_FAILED"
)

type pcsObject interface{ resource() *pcsResource }

func (t *pcsResource) resource() *pcsResource { return t }

// pcsRequest is a request of PCS, but for the members of what it creates or updates. The identifiers are resolved.
type pcsRequest struct {
	ClusterID string            `json:"clusterIdentifier"`
	GroupID   string            `json:"computeNodeGroupIdentifier"`
	QueueID   string            `json:"queueIdentifier"`
	GroupName string            `json:"computeNodeGroupName"`
	QueueName string            `json:"queueName"`
	ARN       string            `json:"resourceArn"`
	Tags      map[string]string `json:"tags"`
	Token     string            `json:"clientToken"`
	Most      *int              `json:"maxResults"`
	Next      string            `json:"nextToken"`

	cluster *pcsCluster
	group   *pcsGroup
	queue   *pcsQueue
}

// pcsOperations names every operation of PCS.
func (s *Sim) pcsOperations() map[string]operation {
	operations := map[string]operation{}
	for name, handle := range map[string]func(*call, *pcsRequest) (any, error){
		"GetCluster": func(_ *call, in *pcsRequest) (any, error) { return object{"cluster": in.cluster}, nil },
		"ListClusters": func(c *call, in *pcsRequest) (any, error) {
			return pcsList(c, in, "clusters", c.region.pcs.clusters)
		},
		"UpdateCluster": s.updateCluster,

		"CreateComputeNodeGroup": s.createNodeGroup,
		"GetComputeNodeGroup": func(_ *call, in *pcsRequest) (any, error) {
			return object{"computeNodeGroup": in.group}, nil
		},
		"ListComputeNodeGroups": func(c *call, in *pcsRequest) (any, error) {
			return pcsList(c, in, "computeNodeGroups", in.cluster.groups)
		},
		"UpdateComputeNodeGroup": s.updateNodeGroup,
		"DeleteComputeNodeGroup": s.deleteNodeGroup,

		"CreateQueue": s.createQueue,
		"GetQueue":    func(_ *call, in *pcsRequest) (any, error) { return object{"queue": in.queue}, nil },
		"ListQueues": func(c *call, in *pcsRequest) (any, error) {
			return pcsList(c, in, "queues", in.cluster.queues)
		},
		"UpdateQueue": s.updateQueue,
		"DeleteQueue": s.deleteQueue,

		"TagResource":         s.tagResource,
		"ListTagsForResource": s.tagResource,
	} {
		operations[name] = pcsOperation(handle)
	}

	return operations
}

// pcsOperation makes an operation from a handler: it decodes the request, answers a client token that was seen before
// with the first answer, finds what the request names, and encodes the result.
func pcsOperation(handle func(*call, *pcsRequest) (any, error)) operation {
	return func(c *call) ([]byte, error) {
		var (
			in      pcsRequest
			members map[string]any
		)
		if err := cmp.Or(json.Unmarshal(c.Body, &in), json.Unmarshal(c.Body, &members)); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", c.Operation, err)
		}

		delete(members, "clientToken")

		rest, err := json.Marshal(members)
		if err != nil {
			return nil, err
		}

		p := &c.region.pcs
		key := tokenKey{c.Region, c.Operation, in.Token}
		if first, ok := p.tokens[key]; ok && first.params != string(rest) {
			return nil, pcsConflict(nil, "the client token %s was used before with other parameters", in.Token)
		} else if ok {
			return first.body, nil
		}

		if err := in.find(p); err != nil {
			return nil, err
		}

		out, err := handle(c, &in)
		if err != nil {
			return nil, err
		}

		body, err := json.Marshal(out)
		if err == nil && in.Token != "" {
			p.tokens[key] = pcsAnswer{string(rest), body}
		}

		return body, err
	}
}

func (in *pcsRequest) find(p *pcsState) (err error) {
	if in.ClusterID != "" {
		in.cluster, err = pcsFind(p.clusters, kindCluster, in.ClusterID)
	}

	if err == nil && in.GroupID != "" {
		in.group, err = pcsFind(in.cluster.groups, kindGroup, in.GroupID)
	}

	if err == nil && in.QueueID != "" {
		in.queue, err = pcsFind(in.cluster.queues, kindQueue, in.QueueID)
	}

	return err
}

// pcsFind finds something by its name or id.
func pcsFind[T pcsObject](all []T, kind, identifier string) (found T, err error) {
	for _, one := range all {
		if t := one.resource(); t.ID == identifier || t.Name == identifier {
			return one, nil
		}
	}

	return found, pcsNotFound(kind, identifier)
}

// complete gives a new thing PCS's own members; its ARN follows on that of what it is in.
func (s *Sim) complete(t *pcsResource, kind, in string) {
	t.kind = kind
	if t.ID == "" {
		id := s.newID("pcs")
		t.ID = "pcs_" + id[len(id)-10:]
	}

	t.ARN = in + t.ID
	t.CreatedAt, t.ModifiedAt = s.pcsNow(), s.pcsNow()
}

// change puts a thing into a status such as CREATING, and has done called when PCS has taken its time, unless the
// change fails then.
func (s *Sim) change(c *call, t *pcsResource, status string, done func()) {
	t.Status, t.ModifiedAt = status, s.pcsNow()
	t.Failures = nil

	s.later(time.Duration(s.scenario.PCSDelay), func() {
		t.ModifiedAt = s.pcsNow()

		if c.later != nil {
			t.Status = strings.TrimSuffix(status, "ING") + "E_FAILED"
			t.Failures = []object{{
				"code":    cmp.Or(c.later.Code, "InternalError"),
				"message": c.later.Message,
			}}

			return
		}

		t.Status = statusActive

		done()
	})
}

// pcsNow returns the time as PCS shows it.
func (s *Sim) pcsNow() time.Time { return s.now.UTC().Truncate(time.Millisecond) }

// must refuses a change of something that PCS is changing already.
func (t *pcsResource) must(be ...string) error {
	if slices.Contains(be, t.Status) {
		return nil
	}
	return pcsConflict(t, "%s %s is in status %s, not ACTIVE", t.kind, t.ID, t.Status)
}

// pcsPage bounds a page for which no number is asked, mostPCSPage the number that may be asked for: AWS PCS API
// Reference, ListComputeNodeGroups.
const (
	pcsPage     = 10
	mostPCSPage = 100
)

// pcsList returns a page of a list, in the order of names.
func pcsList[T pcsObject](c *call, in *pcsRequest, list string, things []T) (any, error) {
	all := []pcsResource{} // an empty list, not null
	for _, one := range things {
		listed := *one.resource()
		listed.Failures = nil // the list does not say why
		all = append(all, listed)
	}

	slices.SortFunc(all, func(a, b pcsResource) int { return strings.Compare(a.Name, b.Name) })

	size := pcsPage
	if in.Most != nil {
		size = *in.Most
	}

	some, next, err := page(c, listing{MaxResults: &size, NextToken: in.Next}, 1, mostPCSPage, false, all)
	if err != nil {
		var v pcsValidation
		v.add("nextToken", "%v", err)

		return nil, v.err()
	}

	answer := object{list: some}
	if next != "" {
		answer["nextToken"] = next
	}

	return answer, nil
}

func checkPCSTags(v *pcsValidation, tags map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		switch {
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			v.add("tags", "the key %q starts with aws:, which is for AWS", key)
		case len(key) < 1 || len(key) > 128:
			v.add("tags", "the key %q has %d characters, a key has 1 to 128", key, len(key))
		case len(tags[key]) > 256:
			v.add("tags", "the value of %q has %d characters, a value has at most 256", key, len(tags[key]))
		}
	}
}

// tagResource tags a cluster, node group or queue, or lists its tags.
func (s *Sim) tagResource(c *call, in *pcsRequest) (any, error) {
	var tagged *pcsResource
	for _, cl := range c.region.pcs.clusters {
		things := []pcsObject{cl}
		for _, g := range cl.groups {
			things = append(things, g)
		}

		for _, q := range cl.queues {
			things = append(things, q)
		}

		for _, one := range things {
			if one.resource().ARN == in.ARN {
				tagged = one.resource()
			}
		}
	}

	if tagged == nil {
		return nil, pcsNotFound("", in.ARN)
	}

	var v pcsValidation
	if checkPCSTags(&v, in.Tags); v.err() != nil {
		return nil, v.err()
	}

	maps.Copy(tagged.tags, in.Tags)

	if c.Operation == "ListTagsForResource" {
		return object{"tags": tagged.tags}, nil
	}

	return object{}, nil
}

// pcsValidation collects the fields of a request that are wrong, for one ValidationException.
type pcsValidation struct {
	fields []map[string]string
}

func (v *pcsValidation) add(field, format string, args ...any) {
	v.fields = append(v.fields, map[string]string{"name": field, "message": fmt.Sprintf(format, args...)})
}

// err returns nil if no field is wrong.
func (v *pcsValidation) err() error {
	if len(v.fields) == 0 {
		return nil
	}

	message := v.fields[0]["message"]
	if name := v.fields[0]["name"]; name != "" {
		message = name + ": " + message
	}

	if more := len(v.fields) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}

	return &APIError{
		Code:    "ValidationException",
		Message: message,
		Detail:  map[string]any{"reason": "fieldValidationFailed", "fieldList": v.fields},
	}
}

// pcsConflict returns the error about an existing resource; about may be nil.
func pcsConflict(about *pcsResource, format string, args ...any) error {
	return pcsErrorAbout("ConflictException", about, format, args...)
}

func pcsQuota(about *pcsResource, format string, args ...any) error {
	e := pcsErrorAbout("ServiceQuotaExceededException", about, format, args...)
	e.Detail["serviceCode"] = "pcs"
	return e
}

func pcsNotFound(kind, id string) error {
	return pcsErrorAbout("ResourceNotFoundException", &pcsResource{
		kind: kind,
		ID:   id,
	}, "no %s has the name or id %q", kind, id)
}

func pcsErrorAbout(code string, about *pcsResource, format string, args ...any) *APIError {
	e := apiErrorf(code, format, args...)
	e.Detail = map[string]any{}
	if about != nil {
		e.Detail["resourceType"] = about.kind
		e.Detail["resourceId"] = about.ID
	}

	return e
}

// pcsError gives an error that arose outside PCS the form of a modelled exception: a fault without a code, a defect of
// the simulator, and exceptions with required members that a fault did not set.
func pcsError(e *APIError) *APIError {
	out := *e
	out.Detail = map[string]any{}
	switch e.Code {
	case "InternalError":
		out.Code = "InternalServerException"
		out.Status = http.StatusInternalServerError
	case "ValidationException":
		out.Detail["reason"] = "other"
	case "ConflictException", "ResourceNotFoundException":
		out.Detail["resourceId"] = ""
		out.Detail["resourceType"] = ""
	case "ServiceQuotaExceededException":
		out.Detail["serviceCode"] = "pcs"
	}

	maps.Copy(out.Detail, e.Detail)

	return &out
}

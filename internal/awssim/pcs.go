package awssim

import (
	"encoding/json"
	"fmt"
	"slices"
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

// pcsCluster is a cluster with all that belongs to it.
type pcsCluster struct {
	pcsWireCluster
	region *region
	tags   map[string]string
	groups []*pcsGroup
	queues []*pcsQueue
}

// pcsGroup is a compute node group.
type pcsGroup struct {
	pcsWireGroup
	tags    map[string]string
	managed string            // id of the launch template that PCS derives from the custom one
	nodes   map[string]string // Slurm node name to id of the instance behind it
	replace map[string]bool   // ids of instances from before an update: PCS replaces each when it is idle
}

type pcsQueue struct {
	pcsWireQueue
	tags map[string]string
}

// Statuses of clusters, node groups and queues.
const (
	statusCreating = "CREATING"
	statusActive   = "ACTIVE"
	statusUpdating = "UPDATING"
	statusDeleting = "DELETING"
	statusDeleted  = "DELETED"
)

// pcsOperations names every operation of PCS.
func (s *Sim) pcsOperations() map[string]operation {
	return map[string]operation{
		"CreateCluster":          pcsOperation(s.createCluster),
		"GetCluster":             pcsOperation(s.getCluster),
		"ListClusters":           pcsOperation(s.listClusters),
		"UpdateCluster":          pcsOperation(s.updateCluster),
		"DeleteCluster":          pcsOperation(s.deleteCluster),
		"CreateComputeNodeGroup": pcsOperation(s.createNodeGroup),
		"GetComputeNodeGroup":    pcsOperation(s.getNodeGroup),
		"ListComputeNodeGroups":  pcsOperation(s.listNodeGroups),
		"UpdateComputeNodeGroup": pcsOperation(s.updateNodeGroup),
		"DeleteComputeNodeGroup": pcsOperation(s.deleteNodeGroup),
		"CreateQueue":            pcsOperation(s.createQueue),
		"GetQueue":               pcsOperation(s.getQueue),
		"ListQueues":             pcsOperation(s.listQueues),
		"UpdateQueue":            pcsOperation(s.updateQueue),
		"DeleteQueue":            pcsOperation(s.deleteQueue),
		"TagResource":            pcsOperation(s.tagResource),
		"UntagResource":          pcsOperation(s.untagResource),
		"ListTagsForResource":    pcsOperation(s.listTagsForResource),

		"RegisterComputeNodeGroupInstance": func(*call) ([]byte, error) {
			return nil, apiErrorf("AccessDeniedException",
				"the simulator registers no instances: its nodes are launched with Sim.LaunchForNodeGroup")
		},
	}
}

// pcsOperation makes an operation from a handler: it checks the request against the service model, decodes it,
// answers a client token that was seen before with the first answer, and encodes the result.
func pcsOperation[In, Out any](handle func(*call, *In) (Out, error)) operation {
	return func(c *call) ([]byte, error) {
		var in In
		if err := json.Unmarshal(c.Body, &in); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", c.Operation, err)
		}
		key, params, err := pcsToken(c)
		if err != nil {
			return nil, err
		}
		tokens := c.region.pcs.tokens
		if first, ok := tokens[key]; ok {
			if first.params != params {
				return nil, pcsConflict("", "", "the client token %s was used before with other parameters", key.token)
			}
			return first.body, nil
		}
		out, err := handle(c, &in)
		if err != nil {
			return nil, err
		}
		body, err := json.Marshal(out)
		if err == nil && key.token != "" {
			tokens[key] = pcsAnswer{params, body}
		}
		return body, err
	}
}

// clientToken takes the token out of a request; the rest of the parameters identifies a repetition. The token is
// empty for an operation without one.
func pcsToken(c *call) (key tokenKey, params string, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(c.Body, &members); err != nil {
		return key, "", err
	}
	key = tokenKey{region: c.Region, operation: c.Operation}
	if raw, ok := members["clientToken"]; ok {
		if err := json.Unmarshal(raw, &key.token); err != nil {
			return key, "", err
		}
		// Bounds of SBClientToken in the service model.
		if n := len(key.token); n < 8 || n > 100 {
			return key, "", pcsInvalid("clientToken", "a client token has 8 to 100 characters, not %d", n)
		}
		delete(members, "clientToken")
	}
	rest, err := json.Marshal(members) // compact, and sorted by name
	return key, string(rest), err
}

// newPCSID makes an id such as pcs_0123456789.
func (s *Sim) newPCSID() string {
	id := s.newID("pcs")
	return "pcs_" + id[len(id)-10:]
}

// after runs f when PCS has taken its time to create, update or delete something.
func (s *Sim) after(f func()) { s.later(time.Duration(s.scenario.PCSDelay), f) }

// pcsNow is the time as PCS shows it.
func (s *Sim) pcsNow() time.Time { return s.now.UTC().Truncate(time.Millisecond) }

// cluster finds a cluster by name or id.
func (p *pcsState) cluster(identifier string) (*pcsCluster, error) {
	for _, cl := range p.clusters {
		if cl.ID == identifier || cl.Name == identifier {
			return cl, nil
		}
	}
	return nil, pcsNotFound(kindCluster, identifier)
}

func (cl *pcsCluster) group(identifier string) (*pcsGroup, error) {
	for _, g := range cl.groups {
		if g.ID == identifier || g.Name == identifier {
			return g, nil
		}
	}
	return nil, pcsNotFound(kindGroup, identifier)
}

func (cl *pcsCluster) queue(identifier string) (*pcsQueue, error) {
	for _, q := range cl.queues {
		if q.ID == identifier || q.Name == identifier {
			return q, nil
		}
	}
	return nil, pcsNotFound(kindQueue, identifier)
}

// slurmVersion turns "25.05" into 2505, and anything else into 0.
func slurmVersion(text string) int {
	var year, month int
	if n, _ := fmt.Sscanf(text, "%2d.%2d", &year, &month); n != 2 || len(text) != 5 {
		return 0
	}
	return year*100 + month
}

// queuesOf names the queues that use a node group.
func (cl *pcsCluster) queuesOf(group string) (names []string) {
	for _, q := range cl.queues {
		if slices.Contains(q.groupIDs(), group) {
			names = append(names, q.Name)
		}
	}
	return names
}

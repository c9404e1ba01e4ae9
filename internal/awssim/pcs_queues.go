package awssim

import "slices"

type createQueueInput struct {
	Cluster            string              `json:"clusterIdentifier"`
	Name               string              `json:"queueName"`
	Groups             []pcsWireQueueGroup `json:"computeNodeGroupConfigurations"`
	SlurmConfiguration pcsSettings         `json:"slurmConfiguration"`
	Tags               map[string]string   `json:"tags"`
}

type queueOutput struct {
	Queue pcsWireQueue `json:"queue"`
}

func (s *Sim) createQueue(c *call, in *createQueueInput) (*queueOutput, error) {
	cl, err := c.region.pcs.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	if cl.Status != statusActive {
		return nil, pcsNotActive(kindCluster, cl.ID, cl.Status)
	}
	if other, err := cl.queue(in.Name); err == nil {
		return nil, pcsConflict(kindQueue, other.ID, "cluster %s has a queue with the name %q", cl.Name, in.Name)
	}
	var v pcsValidation
	checkPCSName(&v, "queueName", in.Name, 25)
	checkPCSTags(&v, in.Tags)
	checkSettings(&v, in.SlurmConfiguration, queueParameters, cl)
	if err := v.err(); err != nil {
		return nil, err
	}
	if err := cl.checkQueueGroups(in.Groups, nil); err != nil {
		return nil, err
	}
	if len(cl.queues) >= clusterQuota {
		return nil, pcsQuota(kindQueue, cl.ID, "cluster %s has %d queues, and the quota is %d", cl.Name, len(cl.queues), clusterQuota)
	}
	q := &pcsQueue{tags: copyTags(in.Tags), pcsWireQueue: pcsWireQueue{
		Name: in.Name, Groups: in.Groups, SlurmConfiguration: in.SlurmConfiguration, Status: statusCreating,
	}}
	s.addQueue(cl, q)
	s.after(func() { q.Status, q.ModifiedAt = statusActive, s.pcsNow() })
	return &queueOutput{q.pcsWireQueue}, nil
}

// addQueue completes a queue with PCS's own choices and adds it to the cluster.
func (s *Sim) addQueue(cl *pcsCluster, q *pcsQueue) {
	if q.ID == "" {
		q.ID = s.newPCSID()
	}
	if q.Groups == nil {
		q.Groups = []pcsWireQueueGroup{} // a required member, so an empty list and not null
	}
	q.ClusterID = cl.ID
	q.ARN = cl.ARN + "/queue/" + q.ID
	q.CreatedAt, q.ModifiedAt = s.pcsNow(), s.pcsNow()
	cl.queues = append(cl.queues, q)
}

// checkQueueGroups refuses groups that do not exist and those that join without being ACTIVE. Members stay, whatever
// their status.
func (cl *pcsCluster) checkQueueGroups(groups []pcsWireQueueGroup, members []string) error {
	seen := map[string]bool{}
	for _, member := range groups {
		if member.ID == "" || seen[member.ID] {
			return pcsInvalid("computeNodeGroupConfigurations", "the id %q is empty or appears twice", member.ID)
		}
		seen[member.ID] = true
		i := slices.IndexFunc(cl.groups, func(g *pcsGroup) bool { return g.ID == member.ID })
		if i < 0 {
			return pcsNotFound(kindGroup, member.ID)
		}
		if g := cl.groups[i]; g.Status != statusActive && !slices.Contains(members, g.ID) {
			return pcsNotActive(kindGroup, g.ID, g.Status)
		}
	}
	return nil
}

type queueInput struct {
	Cluster string `json:"clusterIdentifier"`
	Queue   string `json:"queueIdentifier"`
}

func (p *pcsState) clusterAndQueue(cluster, queue string) (*pcsCluster, *pcsQueue, error) {
	cl, err := p.cluster(cluster)
	if err != nil {
		return nil, nil, err
	}
	q, err := cl.queue(queue)
	return cl, q, err
}

func (s *Sim) getQueue(c *call, in *queueInput) (*queueOutput, error) {
	_, q, err := c.region.pcs.clusterAndQueue(in.Cluster, in.Queue)
	if err != nil {
		return nil, err
	}
	return &queueOutput{q.pcsWireQueue}, nil
}

type listQueuesOutput struct {
	Queues    []pcsWireSummary `json:"queues"`
	NextToken string           `json:"nextToken,omitempty"`
}

func (s *Sim) listQueues(c *call, in *pcsListInput) (*listQueuesOutput, error) {
	cl, err := c.region.pcs.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	var all []pcsWireSummary
	for _, q := range cl.queues {
		all = append(all, pcsWireSummary{Name: q.Name, ID: q.ID, ARN: q.ARN, ClusterID: q.ClusterID,
			CreatedAt: q.CreatedAt, ModifiedAt: q.ModifiedAt, Status: q.Status})
	}
	shown, next, err := pcsPage(all, in.MaxResults, in.NextToken)
	return &listQueuesOutput{shown, next}, err
}

type updateQueueInput struct {
	Cluster            string               `json:"clusterIdentifier"`
	Queue              string               `json:"queueIdentifier"`
	Groups             *[]pcsWireQueueGroup `json:"computeNodeGroupConfigurations"` // replaces the whole list
	SlurmConfiguration pcsSettings          `json:"slurmConfiguration"`
}

func (s *Sim) updateQueue(c *call, in *updateQueueInput) (*queueOutput, error) {
	cl, q, err := c.region.pcs.clusterAndQueue(in.Cluster, in.Queue)
	if err != nil {
		return nil, err
	}
	switch {
	case cl.Status != statusActive:
		return nil, pcsNotActive(kindCluster, cl.ID, cl.Status)
	case q.Status != statusActive && q.Status != "UPDATE_FAILED":
		return nil, pcsNotActive(kindQueue, q.ID, q.Status)
	}
	var v pcsValidation
	if checkSettings(&v, in.SlurmConfiguration, queueParameters, cl); v.err() != nil {
		return nil, v.err()
	}
	if in.Groups != nil {
		if err := cl.checkQueueGroups(*in.Groups, q.groupIDs()); err != nil {
			return nil, err
		}
		q.Groups = *in.Groups
	}
	q.SlurmConfiguration = q.SlurmConfiguration.merge(in.SlurmConfiguration)
	q.Status, q.ModifiedAt = statusUpdating, s.pcsNow()
	answer := &queueOutput{q.pcsWireQueue}
	s.after(func() { q.Status, q.ModifiedAt = statusActive, s.pcsNow() })
	return answer, nil
}

func (s *Sim) deleteQueue(c *call, in *queueInput) (*pcsNothing, error) {
	cl, q, err := c.region.pcs.clusterAndQueue(in.Cluster, in.Queue)
	if err != nil {
		return nil, err
	}
	if q.Status == statusCreating || q.Status == statusUpdating || q.Status == statusDeleting {
		return nil, pcsNotActive(kindQueue, q.ID, q.Status)
	}
	q.Status, q.ModifiedAt = statusDeleting, s.pcsNow()
	s.after(func() {
		q.Status = statusDeleted
		cl.queues = slices.DeleteFunc(cl.queues, func(other *pcsQueue) bool { return other == q })
		// API reference, DeleteQueue: nodes of a group that is in no other queue are terminated.
		for _, g := range cl.groups {
			if slices.Contains(q.groupIDs(), g.ID) && len(cl.queuesOf(g.ID)) == 0 {
				s.terminateNodes(cl, g)
			}
		}
	})
	return &pcsNothing{}, nil
}

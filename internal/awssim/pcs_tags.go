package awssim

import (
	"maps"
	"slices"
	"strings"
)

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

// tagged finds the tags of the cluster, node group or queue with an ARN.
func (p *pcsState) tagged(arn string) (map[string]string, error) {
	for _, cl := range p.clusters {
		if cl.ARN == arn {
			return cl.tags, nil
		}
		for _, g := range cl.groups {
			if g.ARN == arn {
				return g.tags, nil
			}
		}
		for _, q := range cl.queues {
			if q.ARN == arn {
				return q.tags, nil
			}
		}
	}
	return nil, pcsNotFound("", arn)
}

type pcsTagInput struct {
	ARN  string            `json:"resourceArn"`
	Tags map[string]string `json:"tags"`
	Keys []string          `json:"tagKeys"`
}

type pcsTagsOutput struct {
	Tags map[string]string `json:"tags"`
}

func (s *Sim) tagResource(c *call, in *pcsTagInput) (*pcsNothing, error) {
	tags, err := c.region.pcs.tagged(in.ARN)
	if err != nil {
		return nil, err
	}
	var v pcsValidation
	if checkPCSTags(&v, in.Tags); v.err() != nil {
		return nil, v.err()
	}
	maps.Copy(tags, in.Tags)
	return &pcsNothing{}, nil
}

func (s *Sim) untagResource(c *call, in *pcsTagInput) (*pcsNothing, error) {
	tags, err := c.region.pcs.tagged(in.ARN)
	if err != nil {
		return nil, err
	}
	for _, key := range in.Keys {
		delete(tags, key)
	}
	return &pcsNothing{}, nil
}

func (s *Sim) listTagsForResource(c *call, in *pcsTagInput) (*pcsTagsOutput, error) {
	tags, err := c.region.pcs.tagged(in.ARN)
	return &pcsTagsOutput{tags}, err
}

package awssim

import (
	"maps"
	"regexp"
	"slices"
)

// showsTags tells whether an instance finds its tags in its metadata: the launch says so, else the account's default
// (EC2 User Guide, "Order of precedence for instance metadata options").
func (r *region) showsTags(d launchData) bool {
	if d.MetadataOptions != nil && d.MetadataOptions.InstanceMetadataTags != "" {
		return d.MetadataOptions.InstanceMetadataTags == "enabled"
	}
	return r.metadataTags
}

var metadataTagKey = regexp.MustCompile(`^[0-9a-zA-Z\-_+=,.@:]{1,255}$`)

// checkTagKeys refuses a launch with a tag key that cannot be in the path of instance metadata. Code and message as in
// aws/karpenter-provider-aws, issue 1527, and seek-oss/aec, pull request 411.
func (r *region) checkTagKeys(o launchOrder) error {
	if !r.showsTags(o.launchData) {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(o.tags)) {
		if !metadataTagKey.MatchString(key) || slices.Contains([]string{".", "..", "_index"}, key) {
			return apiErrorf("InvalidParameterValue", "'%s' is not a valid tag key. Tag keys must match pattern ([0-9a-zA-Z\\\\-_+=,.@:]{1,255}), "+
				"and must not be a reserved name ('.', '..', '_index')", key)
		}
	}
	return nil
}

func (s *Sim) getInstanceMetadataDefaults(c *call, _ *struct{}) (any, error) {
	account := object{}
	if c.region.metadataTags {
		account["InstanceMetadataTags"] = "enabled"
	}
	return object{"AccountLevel": account}, nil
}

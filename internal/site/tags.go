package site

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// metadataKey matches the tag keys that EC2 takes if instance metadata shows tags: the key is part of
// a path there (EC2 User Guide, "View tags for your EC2 instances using instance metadata").
var metadataKey = regexp.MustCompile(`^[0-9a-zA-Z\-_+=,.@:]{1,255}$`)

// reservedKeys are EC2's own names in that path.
var reservedKeys = []string{".", "..", "_index"}

// tagKeys finds tag keys that make EC2 refuse every launch.
func tagKeys(s Launch) []capacity.Problem {
	shown := s.Template.ShowsTags(s.MetadataTags)
	if !shown {
		return nil
	}
	var bad []string
	for _, key := range s.Template.InstanceTagKeys {
		if !metadataKey.MatchString(key) || slices.Contains(reservedKeys, key) {
			bad = append(bad, fmt.Sprintf("%q", key))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	who := "the template"
	if !s.Template.MetadataTags {
		who = "the account's default"
	}
	fix := "rename the tag in the template with letters, digits and _.:=+-@, only"
	if s.Provider == capacity.ProviderPCS {
		fix += ", or set MetadataOptions.InstanceMetadataTags to disabled there"
	}
	return s.problem(capacity.TagKey, fix,
		"launch template %s tags instances with %s, and by %s their metadata shows tags: EC2 refuses every launch for such a key",
		s.Source, strings.Join(bad, " and "), who)
}

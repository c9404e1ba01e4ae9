package ec2

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func tagMap(tags []types.Tag) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	m := map[string]string{}
	for _, t := range tags {
		m[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return m
}

// tagList is in the order of the keys, so that equal requests are equal bytes, as a
// ClientToken demands.
func tagList(m map[string]string) []types.Tag {
	var tags []types.Tag
	for _, key := range slices.Sorted(maps.Keys(m)) {
		tags = append(tags, types.Tag{Key: aws.String(key), Value: aws.String(m[key])})
	}
	return tags
}

// tagged lists the tags for each kind of resource; nil without tags, since EC2 refuses an empty
// list.
func tagged(m map[string]string, kinds ...types.ResourceType) []types.TagSpecification {
	if len(m) == 0 {
		return nil
	}
	var specs []types.TagSpecification
	for _, kind := range kinds {
		specs = append(specs, types.TagSpecification{ResourceType: kind, Tags: tagList(m)})
	}
	return specs
}

// filterEscapes escapes the wildcards in the value of a filter: EC2 User Guide, "List and filter
// your resources".
var filterEscapes = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`)

// tagFilter matches resources with exactly one of these values for a tag.
func tagFilter(key string, values ...string) types.Filter {
	var exact []string
	for _, v := range values {
		exact = append(exact, filterEscapes.Replace(v))
	}
	return filter("tag:"+key, exact...)
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// unique drops empty and repeated ids. An empty list must never reach EC2, which
// would take it for "all".
func unique(ids []string) []string {
	var out []string
	for _, id := range ids {
		if id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

package awssim

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// tagSpecification tags the things that a call creates. Its wire name is TagSpecification.N or TagSpecifications.N,
// by operation.
type tagSpecification struct {
	ResourceType string
	Tags         []tag
}

type tag struct{ Key, Value string }

// maxTags is EC2's limit of user tags on one resource.
const maxTags = 50

// specifiedTags collects the tags for a resource type. A resource type that the call does not create is refused.
func specifiedTags(specs []tagSpecification, resourceType string, others ...string) (map[string]string, error) {
	tags := map[string]string{}
	for _, spec := range specs {
		if spec.ResourceType != resourceType {
			if !slices.Contains(others, spec.ResourceType) {
				return nil, apiErrorf("InvalidParameterValue",
					"'%s' is not a valid taggable resource type for this operation.", spec.ResourceType)
			}

			continue
		}

		if err := checkTags(spec.Tags); err != nil {
			return nil, err
		}

		for _, t := range spec.Tags {
			tags[t.Key] = t.Value
		}
	}

	if len(tags) > maxTags {
		return nil, tooManyTags()
	}

	return tags, nil
}

func tooManyTags() error {
	return apiErrorf("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
}

func checkTags(tags []tag) error {
	for _, t := range tags {
		switch {
		case t.Key == "":
			return apiErrorf("InvalidParameterValue", "Tag key cannot be empty")
		case strings.HasPrefix(strings.ToLower(t.Key), "aws:"):
			return apiErrorf(
				"InvalidParameterValue",
				"Value ( %s ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal "+
					"use",
				t.Key,
			)
		case utf8.RuneCountInString(t.Key) > 127: // both lengths: EC2 API Reference, Tag
			return apiErrorf("InvalidParameterValue", "Tag key exceeds the maximum length of 127 characters")
		case utf8.RuneCountInString(t.Value) > 256:
			return apiErrorf("InvalidParameterValue", "Tag value exceeds the maximum length of 256 characters")
		}
	}

	return nil
}

type createTagsInput struct {
	Resources []string
	Tags      []tag
}

// createTags tags launch templates, instances and reservations: the product tags all else as it makes it.
func (s *Sim) createTags(c *call, in *createTagsInput) (any, error) {
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}

	for _, id := range in.Resources {
		tags, err := c.region.tagsOf(id)
		if err != nil {
			return nil, err
		}

		c.region.keepTags(id, tags)

		for _, one := range in.Tags {
			tags[one.Key] = one.Value
		}
	}

	return nil, nil
}

// tagsOf returns the tags of a resource, to change them.
func (r *region) tagsOf(id string) (map[string]string, error) {
	if i := r.instances[id]; i != nil {
		return i.Tags, nil
	}

	if res := r.reservations[id]; res != nil {
		return res.tags, nil
	}

	if strings.HasPrefix(id, "i-") {
		return nil, instanceNotFound(id)
	}

	if strings.HasPrefix(id, "cr-") {
		return nil, reservationNotFound(id)
	}

	if !strings.HasPrefix(id, "lt-") {
		return nil, apiErrorf("InvalidID", "The ID '%s' is not valid, or the simulator does not tag it", id)
	}

	t, err := r.template(id, "")
	if err != nil {
		return nil, err
	}

	return t.tags, nil
}

func wireTags(tags map[string]string) []tag {
	out := make([]tag, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, tag{k, tags[k]})
	}

	return out
}

// tokenKey is a client token in the scope in which it must be unique.
type tokenKey struct{ region, operation, token string }

// tokenUse remembers with which parameters a token was used, and how to answer again; replay is nil if the run failed.
type tokenUse struct {
	params string
	replay func() (any, error)
}

// idempotent runs an operation once per client token. A second call with the same token and
// parameters is answered by replay, which shows the present state of what the first call made; one
// with other parameters is an error. A failed run leaves the token unused, except in RunInstances, where it binds the
// token to its parameters (seen by ubicloud/ubicloud, pull request 5898).
func (s *Sim) idempotent(c *call, token string, run func() (replay func() (any, error), err error)) (any, error) {
	if len(token) > 64 {
		return nil, apiErrorf(
			"InvalidParameterValue",
			"Value (%s) for parameter clientToken is invalid. It is longer than 64 characters",
			token,
		)
	}

	key := tokenKey{c.Region, c.Operation, token}
	params := fingerprint(c.form)
	if token != "" {
		if use, ok := s.tokens[key]; ok {
			if use.params != params {
				return nil, apiErrorf("IdempotentParameterMismatch",
					"Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
			}

			if use.replay != nil {
				return use.replay()
			}
		}
	}

	replay, err := run()
	if err != nil {
		if token != "" && c.Operation == "RunInstances" {
			s.tokens[key] = tokenUse{params: params}
		}
		return nil, err
	}

	if token != "" {
		s.tokens[key] = tokenUse{params, replay}
	}

	return replay()
}

// fingerprint returns the request without its token.
func fingerprint(form url.Values) string {
	rest := url.Values{}
	for k, v := range form {
		if k != "ClientToken" {
			rest[k] = v
		}
	}

	return rest.Encode()
}

package awssim

import (
	"net/url"
)

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
		return nil, apiErrorf("InvalidParameterValue", "Value (%s) for parameter clientToken is invalid. It is longer than 64 characters", token)
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

// fingerprint is the request without its token.
func fingerprint(form url.Values) string {
	rest := url.Values{}
	for k, v := range form {
		if k != "ClientToken" {
			rest[k] = v
		}
	}
	return rest.Encode()
}

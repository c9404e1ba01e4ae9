package ec2

import (
	"slices"
	"strings"
)

// withoutBad calls EC2 with ids, each of which is sent once. EC2 refuses a whole call
// for one bad id, with a code that begins with codePrefix: then the bad one is set
// aside and the rest is sent again. Where EC2's message does not name it, they are
// sent one by one. It returns EC2's error for each bad id; an error of any other code
// ends it.
func withoutBad(ids []string, codePrefix string, call func(ids []string) error) (bad map[string]error, err error) {
	bad = map[string]error{}
	rest := unique(ids)
	for len(rest) > 0 {
		err := call(rest)
		if err == nil {
			return bad, nil
		}
		if !strings.HasPrefix(Code(err), codePrefix) {
			return bad, err
		}
		if len(rest) == 1 {
			bad[rest[0]] = err
			return bad, nil
		}
		named := namedIn(err.Error(), rest)
		if named == "" {
			return bad, oneByOne(rest, codePrefix, call, bad)
		}
		bad[named] = err
		rest = slices.DeleteFunc(rest, func(id string) bool { return id == named })
	}
	return bad, nil
}

func oneByOne(ids []string, codePrefix string, call func(ids []string) error, bad map[string]error) error {
	for _, id := range ids {
		err := call([]string{id})
		switch {
		case err == nil:
		case strings.HasPrefix(Code(err), codePrefix):
			bad[id] = err
		default:
			return err
		}
	}
	return nil
}

// namedIn is the id that a message names; the longest, since one id can be the
// beginning of another. This only saves calls: a wrong guess would be asked again.
func namedIn(message string, ids []string) string {
	longest := ""
	for _, id := range ids {
		if strings.Contains(message, id) && len(id) > len(longest) {
			longest = id
		}
	}
	return longest
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

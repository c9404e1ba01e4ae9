package awssim

import (
	"encoding/base64"
	"slices"
	"strings"
)

// pageToken marks the content of a token before it is encoded.
const pageToken = "after "

// page returns one page of summaries in the order of names. PCS takes 1 to 100 results a page. The token holds the last
// name shown, so that what is created or deleted between two pages changes nothing else.
func pcsPage(all []pcsWireSummary, maxResults *int, token string) (shown []pcsWireSummary, next string, err error) {
	size := 100
	if maxResults != nil {
		if size = *maxResults; size < 1 || size > 100 {
			return nil, "", pcsInvalid("maxResults", "%d is not between 1 and 100", size)
		}
	}
	slices.SortFunc(all, func(a, b pcsWireSummary) int { return strings.Compare(a.Name, b.Name) })
	if token != "" {
		text, err := base64.RawURLEncoding.DecodeString(token)
		last, ok := strings.CutPrefix(string(text), pageToken)
		if err != nil || !ok {
			return nil, "", pcsInvalid("nextToken", "this is not a token that PCS gave")
		}
		all = slices.DeleteFunc(all, func(s pcsWireSummary) bool { return s.Name <= last })
	}
	if len(all) <= size {
		return append([]pcsWireSummary{}, all...), "", nil // an empty list, not null
	}
	return all[:size], base64.RawURLEncoding.EncodeToString([]byte(pageToken + all[size-1].Name)), nil
}

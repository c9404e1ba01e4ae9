package ec2

import "slices"

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

package capacity

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// socketsOf matches the suffix that Slurm adds to a node's resource: "(S:0-1)", "(IDX:0,2)".
var socketsOf = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\([^()]*\)`) })

// GPUs counts the GPUs in a list of generic resources: a node's "gpu:h100:8(S:0-1),shard:16", or a job's
// "gres:gpu:24" (22.05) and "gres/gpu:h100=24". An entry without a number counts one.
func GPUs(gres string) int {
	total := 0
	if strings.Contains(gres, "(") {
		gres = socketsOf().ReplaceAllString(gres, "")
	}
	for item := range strings.SplitSeq(gres, ",") {
		parts := strings.FieldsFunc(item, func(r rune) bool { return strings.ContainsRune(":/=", r) })
		if len(parts) > 0 && parts[0] == "gres" {
			parts = parts[1:]
		}
		if len(parts) == 0 || parts[0] != "gpu" {
			continue
		}
		n, err := strconv.ParseUint(parts[len(parts)-1], 10, 16)
		if err != nil {
			n = 1
		}
		total += int(n)
	}
	return total
}

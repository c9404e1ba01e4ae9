package slurm

import "github.com/pcs-capacity/pcs-capacity/internal/hostlist"

// Expand returns the node names of a Slurm hostlist, in its order and with its duplicates: "gpu-[1-2,7]" is gpu-1,
// gpu-2, gpu-7. An empty list has no names; too many names are an error.
func Expand(list string) ([]string, error) { return hostlist.Expand(list) }

// Compress writes node names as one hostlist, sorted as [SortHosts] sorts and without
// duplicates: "gpu-[1-4,7],login". It does not check the names.
func Compress(names []string) string { return hostlist.Compress(names) }

// SortHosts returns the names sorted and without duplicates: by prefix, then by the value of the number at the end.
// This is the order in which scontrol pairs node names with addresses when both come from [Compress].
func SortHosts(names []string) []string { return hostlist.Sort(names) }

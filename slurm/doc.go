// Package slurm is the adapter to a running Slurm: it runs scontrol, squeue and others, and turns what they print into
// plain Go values. No text of theirs leaves this package.
//
// It follows three rules, each learned from a failure:
//
//   - What users can write (comments, job names) ends with a mark that is
//     random for each call: a comment may hold newlines, and in one-line
//     output such a newline forges fields.
//   - What only administrators can write (nodes, partitions, reservations,
//     configuration) is read as one-line text: scontrol 22.05 has no JSON, and
//     the text has kept its form up to 26.05.
//   - Nothing is passed through a shell, and every value that becomes part of
//     an argument is checked first.
//
// Works with Slurm 22.05 and newer. Tested with real output of 22.05, 24.11,
// 25.05, 25.11 and 26.05; what differs by version is a method of Version.
package slurm

// Package toy has mutants of each kind.
package toy

import "log/slog"

// Clamp is tested at both ends.
func Clamp(n, least, most int) int {
	if n < least {
		n = least
	} else if n > most {
		n = most
	}
	return n
}

// Sum would not end if it did not count.
func Sum(most int) int {
	sum, n := 0, 0
	for n < most {
		n++
		if n == 3 {
			continue
		}
		sum += n
	}
	slog.Default().Info("summed", "numbers", n)
	return sum
}

// Both is tested with one of its conditions alone.
func Both(one, other bool) bool { return one && other }

// Untested is not called.
func Untested(n int) int { return -n }

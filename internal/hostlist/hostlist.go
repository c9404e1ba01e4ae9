// Package hostlist reads and writes Slurm's hostlists, such as gpu-[1-4,7]: sets of node names as settings, tags and
// scontrol have them. [Expand] and [Compress] are all that most callers need. It runs no program: a test compares it
// with what scontrol makes of the same lists.
package hostlist

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Max is the most names that [Expand] returns: Slurm's own bound for one range (MAX_RANGE in src/common/hostlist.c) and
// for the nodes of a cluster.
const Max = 64 * 1024

// ErrInvalid is wrapped by every error of [Expand].
var ErrInvalid = errors.New("invalid hostlist")

// Expand returns the node names of a Slurm hostlist, in its order and with its duplicates: "gpu-[1-2,7]" is gpu-1,
// gpu-2, gpu-7. An empty list has no names.
//
// Names consist of letters, digits, '-', '_' and '.'. A name may hold several brackets ("r[1-2]n[1-4]", the last one
// turns fastest) and text after them, which 22.05 itself refuses and newer versions take. "[08-10]" keeps its zeros.
// The error wraps [ErrInvalid]; so does more than [Max] names.
func Expand(hostlist string) ([]string, error) {
	if hostlist == "" {
		return nil, nil
	}

	var hosts []string
	for _, word := range splitOutsideBrackets(hostlist) {
		names, err := expandWord(word, Max-len(hosts))
		if err != nil {
			return nil, fmt.Errorf("%w %s: %w", ErrInvalid, Quote(hostlist), err)
		}

		hosts = append(hosts, names...)
	}

	return hosts, nil
}

// Quote shows text in an error: at most its first 200 bytes, since a hostlist can be long.
func Quote(s string) string {
	if len(s) > 200 {
		return strconv.Quote(s[:200]) + "…"
	}
	return strconv.Quote(s)
}

// splitOutsideBrackets splits at the commas that are not inside a bracket.
func splitOutsideBrackets(list string) []string {
	var words []string

	inside, from := false, 0
	for i := range len(list) {
		switch list[i] {
		case '[':
			inside = true
		case ']':
			inside = false
		case ',':
			if !inside {
				words = append(words, list[from:i])
				from = i + 1
			}
		}
	}

	return append(words, list[from:])
}

// expandWord expands one comma-separated element into at most limit names.
func expandWord(word string, limit int) ([]string, error) {
	if word == "" {
		return nil, errors.New("it has an empty name")
	}

	names := []string{""}
	for rest := word; rest != ""; {
		literal, after, bracket := strings.Cut(rest, "[")
		if err := CheckName(literal); err != nil {
			return nil, err
		}

		numbers := []string{""}
		rest = ""
		if bracket {
			ranges, tail, closed := strings.Cut(after, "]")
			if !closed {
				return nil, errors.New("a bracket is not closed")
			}

			var err error

			numbers, err = expandRanges(ranges, limit)
			if err != nil {
				return nil, err
			}

			rest = tail
		}

		if len(names)*len(numbers) > limit {
			return nil, tooMany()
		}

		names = product(names, literal, numbers, strings.Contains(rest, "["))
	}

	return names, nil
}

// product is in the order of scontrol: of several brackets the last changes fastest, and then the first. more: another
// bracket follows.
func product(heads []string, literal string, numbers []string, more bool) []string {
	names := make([]string, 0, len(heads)*len(numbers))
	if more {
		for _, number := range numbers {
			for _, head := range heads {
				names = append(names, head+literal+number)
			}
		}

		return names
	}

	for _, head := range heads {
		for _, number := range numbers {
			names = append(names, head+literal+number)
		}
	}

	return names
}

func tooMany() error { return fmt.Errorf("more than %d names", Max) }

// expandRanges expands the inside of a bracket: "1-4,7" or "08-10". The width of the first number of a range is the
// width of all its numbers.
func expandRanges(ranges string, limit int) ([]string, error) {
	var numbers []string
	for one := range strings.SplitSeq(ranges, ",") {
		first, last, isRange := strings.Cut(one, "-")
		if !isRange {
			last = first
		}

		low, err := parseIndex(first)
		if err != nil {
			return nil, err
		}

		high, err := parseIndex(last)
		if err != nil {
			return nil, err
		}

		if high < low {
			return nil, fmt.Errorf("range %q runs backwards", one)
		}

		if high-low >= limit-len(numbers) {
			return nil, tooMany()
		}

		for n := low; n <= high; n++ {
			numbers = append(numbers, fmt.Sprintf("%0*d", len(first), n))
		}
	}

	return numbers, nil
}

// maxIndexDigits bounds the number at the end of a name, so that it fits an int everywhere. Longer runs of digits are
// split: the rest is prefix.
const maxIndexDigits = 9

func parseIndex(digits string) (int, error) {
	if len(digits) == 0 || len(digits) > maxIndexDigits || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a number of 1 to %d digits", digits, maxIndexDigits)
	}
	return strconv.Atoi(digits)
}

// CheckName refuses what no node name has: anything but letters, digits, '-', '_' and '.'.
func CheckName(name string) error {
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return fmt.Errorf("%q is not allowed in a node name", c)
		}
	}

	return nil
}

// Compress writes node names as one Slurm hostlist, sorted as [Sort] sorts and without duplicates: "gpu-[1-4,7],login".
// Only the number at the end of a name is folded, which is what Slurm prints too. It does not check the names;
// Expand(Compress(names)) is the sorted set.
func Compress(names []string) string {
	hosts := Sort(names)

	var out strings.Builder
	for i := 0; i < len(hosts); {
		first := parseHost(hosts[i])
		if i > 0 {
			out.WriteByte(',')
		}

		end := i + 1
		for end < len(hosts) && first.width > 0 && parseHost(hosts[end]).sameGroup(first) {
			end++
		}

		out.WriteString(first.prefix)
		out.WriteString(bracket(hosts[i:end]))
		i = end
	}

	return out.String()
}

// bracket writes the numbers of names that share a prefix.
func bracket(hosts []string) string {
	first := parseHost(hosts[0])
	if len(hosts) == 1 {
		return first.digits()
	}

	var ranges []string
	for i := 0; i < len(hosts); {
		low := parseHost(hosts[i])
		high := low
		for i++; i < len(hosts); i++ {
			next := parseHost(hosts[i])
			// 08, 09, 10 is one range: 10 is what %02d prints. 9, 09 is not.
			if next.index != high.index+1 || next.digits() != fmt.Sprintf("%0*d", low.width, next.index) {
				break
			}

			high = next
		}

		if low == high {
			ranges = append(ranges, low.digits())
		} else {
			ranges = append(ranges, low.digits()+"-"+high.digits())
		}
	}

	return "[" + strings.Join(ranges, ",") + "]"
}

// Sort returns the names sorted and without duplicates: by prefix, then by the value of the number at the end, so gpu-9
// comes before gpu-10. This is the order in which scontrol pairs node names with addresses when both come from
// [Compress].
func Sort(names []string) []string {
	sorted := slices.Clone(names)
	slices.SortFunc(sorted, func(a, b string) int {
		x, y := parseHost(a), parseHost(b)
		return cmp.Or(NaturalCompare(x.prefix, y.prefix), cmp.Compare(min(x.width, 1), min(y.width, 1)),
			cmp.Compare(x.index, y.index), cmp.Compare(x.width, y.width))
	})

	return slices.Compact(sorted)
}

// host is a node name cut before the number at its end; width 0: no number.
type host struct {
	prefix string
	index  int
	width  int
}

func parseHost(name string) host {
	at := len(name)
	for at > 0 && len(name)-at < maxIndexDigits && '0' <= name[at-1] && name[at-1] <= '9' {
		at--
	}

	h := host{prefix: name[:at], width: len(name) - at}
	if h.width > 0 {
		h.index, _ = strconv.Atoi(name[at:]) // at most 9 digits: cannot fail
	}

	return h
}

func (h host) digits() string {
	if h.width == 0 {
		return ""
	}
	return fmt.Sprintf("%0*d", h.width, h.index)
}

func (h host) sameGroup(other host) bool { return h.width > 0 && h.prefix == other.prefix }

// NaturalCompare compares runs of digits by value (r2n before r10n) and everything else by bytes. Equal only when the
// strings are equal.
func NaturalCompare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		dx, dy := leadingDigits(x), leadingDigits(y)
		if dx != "" && dy != "" {
			vx, vy := strings.TrimLeft(dx, "0"), strings.TrimLeft(dy, "0")
			if c := cmp.Or(cmp.Compare(len(vx), len(vy)), cmp.Compare(vx, vy)); c != 0 {
				return c
			}

			x, y = x[len(dx):], y[len(dy):]

			continue
		}

		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}

		x, y = x[1:], y[1:]
	}

	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

func leadingDigits(s string) string {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}

	return s[:n]
}

package slurm

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// MaxComment is the most bytes that slurmctld takes in a comment
// (MAX_COMMENT_LEN in slurmctld's job manager); it refuses longer ones.
const MaxComment = 1024

// Clean makes text fit for a Slurm field that others read line by line: one
// line, printable, valid UTF-8, at most limit bytes.
func Clean(text string, limit int) string {
	var out strings.Builder
	for _, word := range strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}) {
		if out.Len() > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(word)
	}
	clean := out.String()
	if len(clean) <= limit {
		return clean
	}
	for limit > 0 && !utf8.RuneStart(clean[limit]) {
		limit--
	}
	return strings.TrimRight(clean[:limit], " ")
}

// fields reads one record of "scontrol --oneliner show": Key=value pairs
// between spaces, "(null)" as empty. It stops before the first key in
// freeText, whose values may hold anything, and keeps the first of two equal
// keys. A value with spaces in it (OS=Linux 6.1 …) keeps its first word.
func fields(line string, freeText ...string) map[string]string {
	for _, key := range freeText {
		line, _, _ = strings.Cut(line, " "+key+"=")
	}
	pairs := make(map[string]string)
	for word := range strings.FieldsSeq(line) {
		key, value, ok := strings.Cut(word, "=")
		if _, seen := pairs[key]; !ok || seen {
			continue
		}
		if value == "(null)" {
			value = ""
		}
		pairs[key] = value
	}
	return pairs
}

// records cuts the output of "scontrol --oneliner show" into records. A line
// that does not begin with key is the rest of a text with a newline in it.
func records(output []byte, key string) []string {
	var found []string
	for line := range strings.SplitSeq(string(output), "\n") {
		if strings.HasPrefix(line, key+"=") {
			found = append(found, line)
		}
	}
	return found
}

// unread is the first of a record's pairs that cannot be read; text is "" while all can.
type unread struct {
	pairs map[string]string
	text  string
}

// readKey reads the value of a key: one that cannot be read is zero, and its record goes on.
func readKey[T any](u *unread, key string, read func(string) (T, error)) T {
	value, err := read(u.pairs[key])
	if err != nil && u.text == "" {
		u.text = fmt.Sprintf("%s: %v", key, err)
	}
	return value
}

func splitList(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// checkName refuses what must not become part of a scontrol argument.
func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("the name of the %s is empty", what)
	}
	if err := hostlist.CheckName(name); err != nil {
		return fmt.Errorf("%s %q: %w", what, name, err)
	}
	return nil
}

// nodeArgument checks node names and writes them as one hostlist.
func nodeArgument(nodes []string) (string, error) {
	if len(nodes) == 0 {
		return "", errors.New("no nodes are named")
	}
	for _, node := range nodes {
		if err := checkName("node", node); err != nil {
			return "", err
		}
	}
	return Compress(nodes), nil
}

// quote shows what is wrong in an error: at most the first 200 bytes.
func quote(s string) string { return hostlist.Quote(s) }

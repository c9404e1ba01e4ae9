package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim/shapes"
)

// docPages are all of docs/, and the pages beside it, such as the README.
func docPages(t *testing.T) []string {
	t.Helper()

	pages, err := filepath.Glob("../../docs/*.md")
	beside, err2 := filepath.Glob("../../*.md")
	if err != nil || err2 != nil || len(pages) == 0 || !slices.Contains(beside, "../../README.md") {
		t.Fatalf("docs: %v, %v, %v, %v", pages, beside, err, err2)
	}

	return append(pages, beside...)
}

func readDoc(t *testing.T, path string) string {
	t.Helper()

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

var (
	// prompt is what stands before a command in a block.
	prompt = regexp.MustCompile(`^(?:\$ )?(?:sudo )?pcs-capacity `)
	// inSentence is a command within a sentence.
	inSentence = regexp.MustCompile("`pcs-capacity\\s([^`]+)`")
)

// blockCommands are the command lines of pcs-capacity in the code blocks of a page, whole.
func blockCommands(page string) (lines []string) {
	inside := false
	for line := range strings.SplitSeq(strings.ReplaceAll(page, "\\\n", ""), "\n") {
		if strings.HasPrefix(line, "```") {
			inside = !inside
		} else if found := prompt.FindString(line); inside && found != "" {
			lines = append(lines, "pcs-capacity "+line[len(found):])
		}
	}

	return lines
}

// words are those of a simple command: up to a comment, a redirection or the next command.
func words(line string) []string {
	all := strings.Fields(line)
	if i := slices.IndexFunc(all, func(w string) bool { return strings.ContainsAny(w[:1], "#|&;<>") }); i >= 0 {
		all = all[:i]
	}

	return all
}

// parse reads a command line as the program does, without running it.
func parse(t *testing.T, args []string) (*kong.Context, error) {
	t.Helper()

	var cli CLI

	parser, err := newParser(context.Background(), &cli)
	if err != nil {
		t.Fatal(err)
	}

	parser.Stdout, parser.Exit = new(bytes.Buffer), func(int) {}

	return parser.Parse(args)
}

// TestCommandsInDocs: every command line in a block of the docs is one that the program takes, and one within a
// sentence at least has a command and flags that exist. Each command is in a block or a sentence somewhere.
func TestCommandsInDocs(t *testing.T) {
	shown := map[string]bool{}
	for _, path := range docPages(t) {
		page := readDoc(t, path)
		for _, line := range blockCommands(page) {
			command, err := parse(t, words(line)[1:])
			if err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(path), line, err)
				continue
			}

			shown[command.Selected().Path()] = true
		}

		for _, found := range inSentence.FindAllStringSubmatch(page, -1) {
			_, err := parse(t, strings.Fields(found[1]))
			// A sentence may leave out required arguments.
			if err != nil && !strings.HasPrefix(err.Error(), "missing flags:") &&
				!strings.HasPrefix(err.Error(), "expected ") {
				t.Errorf("%s: `pcs-capacity %s`: %v", filepath.Base(path), found[1], err)
			}
		}
	}

	for _, command := range leaves(t) {
		if !shown[command.Path()] {
			t.Errorf("no block in the docs shows %s", command.Path())
		}
	}
}

// leaves are the commands that do something.
func leaves(t *testing.T) (all []*kong.Node) {
	t.Helper()

	var cli CLI

	parser, err := newParser(context.Background(), &cli)
	if err != nil {
		t.Fatal(err)
	}

	return parser.Model.Leaves(true)
}

// TestCommandsAreListed compares docs/commands.md with the command line. UPDATE_TRANSCRIPTS=1 writes it.
func TestCommandsAreListed(t *testing.T) {
	const path, begin = "../../docs/commands.md", "<!-- commands -->\n"

	page := readDoc(t, path)
	head, _, found := strings.Cut(page, begin)
	if !found {
		t.Fatalf("%s has no list", path)
	}

	var want strings.Builder
	want.WriteString(head + begin)

	for _, command := range leaves(t) {
		fmt.Fprintf(
			&want,
			"- `%s`: %s\n",
			strings.TrimPrefix(strings.ReplaceAll(command.FullPath(), "pcs-capacity ", ""), " "),
			command.Help,
		)
	}

	if page == want.String() {
		return
	}

	if os.Getenv("UPDATE_TRANSCRIPTS") == "" {
		t.Fatalf("%s is not what the program has; UPDATE_TRANSCRIPTS=1 writes it", path)
	}

	if err := os.WriteFile(path, []byte(want.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestQuickStarts runs testdata/docs/*.txtar, in an account with the ids that the docs use.
func TestQuickStarts(t *testing.T) {
	runTranscripts(t, "testdata/docs", func(s *awssim.Scenario) {
		text, err := os.ReadFile(simWorld)
		if err != nil {
			panic(err)
		}

		docs, err := awssim.ParseScenario(
			simWorld,
			[]byte(strings.NewReplacer(
				"cr-0e2000000000000a1",
				"cr-0123456789abcdef0",
				"subnet-0e200000000000a01",
				"subnet-0123456789abcdef0",
				`"ec2-nodes"`,
				`"nodes"`,
			).Replace(string(text))),
		)
		if err != nil {
			panic(err)
		}

		*s = *docs
	})
}

// TestQuickStartsAreRun: the transcript of a quick start has the settings of its page, and runs its
// commands, these and in this order.
func TestQuickStartsAreRun(t *testing.T) {
	settingsBlock := regexp.MustCompile("(?s)```toml\n(.*?)```")
	line := regexp.MustCompile(`(?m)^!? ?exec (pcs-capacity .*)$|^exec script -qec '(pcs-capacity [^']*)'`)
	for _, name := range []string{"quick-start-pcs", "quick-start-slurm"} {
		var ran, want []string

		page, transcript := readDoc(t, "../../docs/"+name+".md"), readDoc(t, "testdata/docs/"+name+".txtar")
		if settings := settingsBlock.FindStringSubmatch(page); settings == nil ||
			!strings.Contains(transcript, settings[1]) {
			t.Errorf("%s: the transcript has other settings than the page: %q", name, settings)
		}

		for _, found := range line.FindAllStringSubmatch(transcript, -1) {
			ran = append(ran, strings.Join(words(found[1]+found[2]), " "))
		}

		for _, command := range blockCommands(page) {
			want = append(want, strings.Join(words(command), " "))
		}

		if len(want) == 0 || !slices.Equal(ran, want) {
			t.Errorf(
				"%s: the transcript runs\n  %s\nand the page shows\n  %s",
				name,
				strings.Join(ran, "\n  "),
				strings.Join(want, "\n  "),
			)
		}
	}
}

// TestBlocksInDocsFitATerminal: no line of a code block is longer than a terminal of 100 columns:
// there it would be broken within a word, and on a page it is cut off.
func TestBlocksInDocsFitATerminal(t *testing.T) {
	for _, path := range docPages(t) {
		fenced, before := false, ""
		indented := false // a block that four blanks make
		for i, line := range strings.Split(readDoc(t, path), "\n") {
			if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
				fenced = !fenced
			}

			indented = strings.HasPrefix(line, "    ") && (indented || before == "")
			if n := utf8.RuneCountInString(line); (fenced || indented) && n > columns {
				t.Errorf("%s:%d: %d columns: %s", filepath.Base(path), i+1, n, line)
			}

			before = line
		}
	}
}

// TestCallsOfAssumptions: each call of assumptions.md that is written out has the options that AWS's service model
// requires, so that a reader who types it learns more than that one is missing.
func TestCallsOfAssumptions(t *testing.T) {
	call := regexp.MustCompile("`aws (ec2|pcs|resource-groups) ([a-z-]+)([^`]*)`(, (?:again|as above))?")
	word := regexp.MustCompile(`[A-Z]?[a-z]+`)
	// The CLI gives these itself.
	given := []string{"client-token", "min-count", "max-count"}

	calls := 0
	for _, found := range call.FindAllStringSubmatch(readDoc(t, "../../docs/assumptions.md"), -1) {
		service, command, options, refers := found[1], found[2], found[3], found[4] == ", as above"
		operation := ""
		for part := range strings.SplitSeq(command, "-") {
			operation += strings.ToUpper(part[:1]) + part[1:]
		}

		if refers {
			continue
		}

		calls++

		var wrong *shapes.Error

		err := shapes.CheckJSON(service, operation, []byte("{}"))
		if err != nil && !errors.As(err, &wrong) {
			t.Errorf("%s: %v", command, err)
			continue
		}

		if wrong == nil {
			continue
		}

		for _, violation := range wrong.Violations {
			option := strings.ToLower(strings.Join(word.FindAllString(violation.Path, -1), "-"))
			if violation.Kind == shapes.Missing && !slices.Contains(given, option) &&
				!strings.Contains(options, " --"+option) {
				t.Errorf("%s lacks --%s", command, option)
			}
		}
	}

	if calls < 15 {
		t.Errorf("%d calls are found", calls)
	}
}

// TestLinksInDocs: a link within the docs leads to a file that is there, and to a heading of it.
func TestLinksInDocs(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]*))?\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	gone := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, path := range docPages(t) {
		for _, found := range link.FindAllStringSubmatch(readDoc(t, path), -1) {
			to := path
			if found[1] != "" {
				to = filepath.Join(filepath.Dir(path), found[1])
			}
			// The packages have docs/ and nothing beside it.
			if inDocs := filepath.Base(filepath.Dir(path)) == "docs"; inDocs && filepath.Dir(to) != filepath.Dir(path) {
				t.Errorf("%s: a link leads out of docs/ to %s", filepath.Base(path), to)
			}

			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", filepath.Base(path), err)
				continue
			}

			there := found[2] == ""
			if !there {
				for _, h := range heading.FindAllStringSubmatch(readDoc(t, to), -1) {
					anchor := strings.ReplaceAll(gone.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")
					there = there || anchor == found[2]
				}
			}

			if !there {
				t.Errorf("%s: %s has no heading #%s", filepath.Base(path), filepath.Base(to), found[2])
			}
		}
	}
}

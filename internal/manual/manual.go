// Package manual writes the manual pages of a program from its command line, in the Markdown that go-md2man reads. The
// programs' hidden command for it is called by `make packages`, so the pages never differ from --help.
package manual

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Command writes one page for the program and for each of its commands into a folder. It is
// for the build, and in no help.
type Command struct {
	Dir string `arg:"" type:"existingdir" help:"Folder for the pages."`
}

func (c Command) Run(app *kong.Kong) error {
	for name, text := range Pages(app.Model) {
		if err := os.WriteFile(filepath.Join(c.Dir, name+".1.md"), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing manual pages: %w", err)
		}
	}

	return nil
}

// Lister is a command whose page has a list under a heading of its own: terms, each with its explanation.
type Lister interface {
	List() (heading string, terms [][2]string)
}

// Pages returns the pages of section 1 by name: "git", "git-commit" and so on.
func Pages(app *kong.Application) map[string]string {
	pages := map[string]string{}

	var visit func(n *kong.Node)

	visit = func(n *kong.Node) {
		pages[pageName(n)] = page(app, n)
		for _, child := range commands(n) {
			visit(child)
		}
	}
	visit(app.Node)

	return pages
}

func commands(n *kong.Node) []*kong.Node {
	return slices.DeleteFunc(
		slices.Clone(n.Children),
		func(c *kong.Node) bool { return c.Hidden || c.Type != kong.CommandNode },
	)
}

func pageName(n *kong.Node) string { return strings.ReplaceAll(n.FullPath(), " ", "-") }

func page(app *kong.Application, n *kong.Node) string {
	var b strings.Builder

	write := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	name := pageName(n)
	// The program's own description begins with a line that says what it is.
	short, detail, _ := strings.Cut(n.Help, "\n")
	if n.Detail != "" {
		detail = n.Detail
	}

	write(
		"%% %q \"1\" \"\" %q \"\"\n\n# NAME\n\n%s - %s\n\n",
		strings.ToUpper(name),
		app.Name,
		name,
		escape(strings.ToLower(short[:1])+strings.TrimSuffix(short[1:], ".")),
	)
	// Only the name of the whole program is a program.
	summary := strings.TrimPrefix(strings.TrimPrefix(n.Summary(), n.Path()), " ")
	write("# SYNOPSIS\n\n**%s** %s\n\n", n.FullPath(), escape(summary))

	detail = strings.TrimSpace(detail)
	if detail != "" {
		write("# DESCRIPTION\n\n%s\n\n", paragraphs(detail))
	}

	var below, arguments [][2]string
	for _, c := range commands(n) {
		below = append(below, [2]string{"**" + pageName(c) + "**(1)", c.Help})
	}

	for _, a := range n.Positional {
		arguments = append(arguments, [2]string{"*" + escape(a.Name) + "*", a.Help})
	}

	list(&b, "COMMANDS", below)
	list(&b, "ARGUMENTS", arguments)
	list(&b, "OPTIONS", flags(n))

	if l, lists := n.Target.Interface().(Lister); lists {
		heading, terms := l.List()
		for i, term := range terms {
			terms[i][0] = "**" + escape(term[0]) + "**"
		}

		list(&b, heading, terms)
	}

	if n.Parent == nil {
		write("# EXIT STATUS\n\n**0** yes or done, **1** no or failed, **2** usage or configuration.\n\n")
		return b.String()
	}

	write("# SEE ALSO\n\n**%s**(1): the flags of every command\n", pageName(n.Parent))

	return b.String()
}

// list writes terms, each with its explanation, if there are any.
func list(b *strings.Builder, heading string, terms [][2]string) {
	for i, term := range terms {
		if i == 0 {
			fmt.Fprintf(b, "# %s\n\n", heading)
		}

		fmt.Fprintf(b, "%s\n: %s\n\n", term[0], escape(term[1]))
	}
}

func flags(n *kong.Node) (terms [][2]string) {
	for _, f := range n.Flags {
		if f.Hidden || f.Name == "help" && n.Parent != nil {
			continue
		}

		help := f.Help
		if f.Required {
			help += " Required."
		} else if f.HasDefault && !f.IsBool() && !strings.Contains(strings.ToLower(help), "default") {
			help += " Default: " + f.Default + "."
		}

		terms = append(terms, [2]string{"**" + escape(f.String()) + "**", help})
	}

	return terms
}

// paragraphs keeps what is indented as it is, and escapes the rest.
func paragraphs(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "  " + line // code, in Markdown
		} else {
			lines[i] = escape(line)
		}
	}

	return strings.Join(lines, "\n")
}

var markdown = strings.NewReplacer(
	`\`, `\\`, `*`, `\*`, `_`, `\_`, `<`, `\<`, `>`, `\>`, `[`, `\[`, `]`, `\]`, `#`, `\#`, `|`, `\|`,
)

// escape keeps text from being read as Markdown, but for what stands in backquotes, which are ours.
func escape(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = markdown.Replace(parts[i])
	}

	return strings.Join(parts, "`")
}

// CommandOf names the command that a mistake in a command line is of, for its help; the program if there is none.
func CommandOf(mistake error, program string) string {
	wrong := new(kong.ParseError)
	if errors.As(mistake, &wrong) && wrong.Context.Selected() != nil {
		return wrong.Context.Selected().FullPath()
	}

	return program
}

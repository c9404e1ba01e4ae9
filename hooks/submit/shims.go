package submit

import (
	_ "embed"
	"fmt"
	"strings"
)

var (
	//go:embed judge.lua
	judgeLua string
	//go:embed cli_filter.lua
	cliFilterLua string
	//go:embed job_submit.lua
	jobSubmitLua string
)

// CLIFilter is the text of cli_filter.lua for a site: planPath is the plan in
// stateDir, filterPath the absolute path of pcs-capacity-filter. Slurm refuses
// every submission on a host whose cli_filter.lua is missing or wrong, so write it
// beside its place and rename it.
func CLIFilter(planPath, stateDir, filterPath string) string {
	return script(cliFilterLua, planPath, stateDir, filterPath)
}

// JobSubmit is the text of job_submit.lua for a site; the paths are as in [CLIFilter], except that they are in
// local_dir, on a disk of slurmctld's own machine.
func JobSubmit(planPath, stateDir, filterPath string) string {
	return script(jobSubmitLua, planPath, stateDir, filterPath)
}

// LoadLine is the last line of a site's own cli_filter.lua or job_submit.lua; it loads our script from a file. Our
// script wraps the site's functions: they run first, and their refusals stand. Without the file, the site's script
// works alone.
func LoadLine(path string) string { return "pcall(dofile, " + luaString(path) + ")" }

// script puts the shared judgement and the paths into a script.
func script(text, planPath, stateDir, filterPath string) string {
	text = strings.Replace(text, "-- @JUDGE@\n", judgeLua, 1)
	return strings.NewReplacer(
		"@PLAN@", luaString(planPath),
		"@QUOTED_PLAN@", luaString(shellWord(planPath)),
		"@STATE_DIR@", luaString(stateDir),
		"@FILTER@", luaString(filterPath),
		"@QUOTED_FILTER@", luaString(shellWord(filterPath)),
	).Replace(text)
}

// shellWord quotes text for sh.
func shellWord(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// luaString quotes text for Lua 5.1. Everything but letters, digits and the usual
// punctuation of paths is written as \ddd, so that no byte can end the string.
func luaString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("/._- +,:@=", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\%03d`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

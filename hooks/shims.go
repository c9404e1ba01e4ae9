package hooks

import (
	_ "embed"
	"fmt"
	"strings"
)

var (
	//go:embed common.lua
	commonLua string
	//go:embed quick.lua
	quickLua string
	//go:embed rooms.lua
	roomsLua string
	//go:embed ask.lua
	askLua string
	//go:embed is_step.lua
	isStepLua string
	//go:embed managed.lua
	managedLua string
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
	return render(cliFilterLua, planPath, stateDir, filterPath)
}

// JobSubmit is the text of job_submit.lua for a site; the paths are as those of
// [CLIFilter], but of the local_dir, on a disk of slurmctld's own machine.
func JobSubmit(planPath, stateDir, filterPath string) string {
	return render(jobSubmitLua, planPath, stateDir, filterPath)
}

// LoadLine is the last line of a site's own cli_filter.lua or job_submit.lua that loads
// ours from a file. Ours takes the site's functions in: they run first, and what they
// refuse is refused. Without the file, the site's script works on alone.
func LoadLine(path string) string { return "pcall(dofile, " + luaString(path) + ")" }

// render puts the parts into a shim, then the paths into all of it.
func render(shim, planPath, stateDir, filterPath string) string {
	script := strings.Replace(shim, "-- @COMMON@", strings.TrimSuffix(commonLua, "\n"), 1)
	script = strings.NewReplacer(
		"@QUICK@", luaLines(quickLua),
		"@ROOMS@", luaLines(roomsLua),
		"@ASK@", luaLines(askLua),
		"@IS_STEP@", luaLines(isStepLua),
		"@MANAGED@", luaLines(managedLua),
	).Replace(script)
	return luaPaths(planPath, stateDir, filterPath).Replace(script)
}

// luaPaths puts the paths into a script or a part, which none of them can end: see luaString.
func luaPaths(planPath, stateDir, filterPath string) *strings.Replacer {
	return strings.NewReplacer(
		"@PLAN@", luaString(planPath),
		"@QUOTED_PLAN@", luaString(shellWord(planPath)),
		"@STATE_DIR@", luaString(stateDir),
		"@FILTER@", luaString(filterPath),
		"@QUOTED_FILTER@", luaString(shellWord(filterPath)),
	)
}

// luaLines quotes a part of our own scripts for Lua 5.1. Its comments and what it is indented
// by are left out: sbatch would have to read over them each time.
func luaLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimLeft(line, " "); line != "\n" && !strings.HasPrefix(line, "--") {
			b.WriteString(line)
		}
	}
	return "[==[\n" + b.String() + "]==]"
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

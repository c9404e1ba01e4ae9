package submit

import (
	_ "embed"
	"fmt"
	"strings"
)

var (
	//go:embed common.lua
	commonLua string
	//go:embed cli_filter.lua
	cliFilterLua string
	//go:embed job_submit.lua
	jobSubmitLua string

	//go:embed plain.lua
	plainLua string
	//go:embed gpus.lua
	gpusLua string
	//go:embed is_step.lua
	isStepLua string
	//go:embed managed.lua
	managedLua string
	//go:embed named.lua
	namedLua string
	//go:embed quick.lua
	quickLua string
	//go:embed rooms.lua
	roomsLua string
	//go:embed ask.lua
	askLua string
)

// luaPart is a chunk that is given the function part, and returns a function.
type luaPart struct{ name, text string }

// The parts of the shims; cli_filter.lua reads from its top to the one that it needs.
var (
	jobSubmitParts = []luaPart{{"gpus", gpusLua}, {"named", namedLua}, {"quick", quickLua}, {"rooms", roomsLua}, {"ask", askLua}}
	cliFilterParts = append([]luaPart{{"plain", plainLua}, {"is_step", isStepLua}, {"managed", managedLua}}, jobSubmitParts...)
)

// CLIFilter is the text of cli_filter.lua for a site: planPath is the plan in
// stateDir, filterPath the absolute path of pcs-capacity-filter. Slurm refuses
// every submission on a host whose cli_filter.lua is missing or wrong, so write it
// beside its place and rename it.
func CLIFilter(planPath, stateDir, filterPath string) string {
	var lines strings.Builder
	for _, part := range cliFilterParts {
		fmt.Fprintf(&lines, "--%s %s\n", part.name, strings.Join(luaCode(part.text), " "))
	}
	head, body, _ := strings.Cut(cliFilterLua, "-- @PARTS@\n")
	script := head + lines.String() + strings.Join(luaCode(withParts(body, "")), "\n") + "\n"
	return withPaths(script, planPath, stateDir, filterPath)
}

// JobSubmit is the text of job_submit.lua for a site; the paths are as those of
// [CLIFilter], but of the local_dir, on a disk of slurmctld's own machine.
func JobSubmit(planPath, stateDir, filterPath string) string {
	return withPaths(withParts(jobSubmitLua, luaChunks(jobSubmitParts)), planPath, stateDir, filterPath)
}

// LoadLine is the last line of a site's own cli_filter.lua or job_submit.lua that loads
// ours from a file. Ours takes the site's functions in: they run first, and what they
// refuse is refused. Without the file, the site's script works on alone.
func LoadLine(path string) string { return "pcall(dofile, " + luaString(path) + ")" }

// withParts puts the parts into a shim.
func withParts(shim, parts string) string {
	return strings.NewReplacer("-- @PARTS@\n", parts, "-- @COMMON@\n", commonLua).Replace(shim)
}

// withPaths puts the paths into a script; nothing may look for Lua in it afterwards.
func withPaths(script, planPath, stateDir, filterPath string) string {
	return strings.NewReplacer(
		"@PLAN@", luaString(planPath),
		"@QUOTED_PLAN@", luaString(shellWord(planPath)),
		"@STATE_DIR@", luaString(stateDir),
		"@FILTER@", luaString(filterPath),
		"@QUOTED_FILTER@", luaString(shellWord(filterPath)),
	).Replace(script)
}

// luaChunks are parts as they are, which set the table parts.
func luaChunks(parts []luaPart) string {
	var b strings.Builder
	for _, part := range parts {
		fmt.Fprintf(&b, "\nparts.%s = (function(...)\n%send)(part)\n", part.name, part.text)
	}
	return b.String()
}

// luaCode are the lines of a text without its comments and what it is indented by: sbatch would
// have to read over them each time.
func luaCode(text string) []string {
	var code []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "-- ")
		if line = strings.TrimSpace(line); line != "" {
			code = append(code, line)
		}
	}
	return code
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

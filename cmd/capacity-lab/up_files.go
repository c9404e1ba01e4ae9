package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// environment makes the product find the lab instead of AWS.
func (l *lab) environment() []string {
	env := append(l.sim.Env(), "AWS_EC2_METADATA_DISABLED=true") // the machine may be a real instance
	if l.Plain {
		return env // Slurm is elsewhere
	}
	return append(env, "SLURM_CONF="+l.path("etc", "slurm.conf"))
}

// writeEnv writes DIR/env, to be sourced by a shell.
func (l *lab) writeEnv() error {
	var b strings.Builder
	b.WriteString("# Source this to talk to the lab.\n")
	// Either would send calls elsewhere.
	b.WriteString("unset AWS_PROFILE AWS_SESSION_TOKEN AWS_IGNORE_CONFIGURED_ENDPOINT_URLS\n")
	b.WriteString(exports(l.environment()))
	if l.Slurm != "" {
		fmt.Fprintf(&b, "export PATH=%s:\"$PATH\"\n", shellQuote(filepath.Join(l.Slurm, "bin")))
	}
	fmt.Fprintf(&b, "export PATH=%s:%s:\"$PATH\"\n", shellQuote(l.path("bin")), shellQuote(l.Bin))
	return os.WriteFile(l.envFile(), []byte(b.String()), 0o644)
}

// program is the path of a program that Slurm calls: beside the product's command, or where a package has it.
func (l *lab) program(name string) string {
	packaged := filepath.Join(l.Bin, "../libexec/pcs-capacity", name)
	if _, err := os.Stat(packaged); err == nil {
		return packaged
	}
	return filepath.Join(l.Bin, name)
}

// writeHook writes a wrapper around one of the product's programs. Slurm gives its power programs an empty environment;
// on a real controller they find the region and credentials of the machine's instance role, in the lab here.
func (l *lab) writeHook(program string) (string, error) {
	target := l.program(program)
	if info, err := os.Stat(target); err != nil || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%s is not there or cannot be executed: build the product's programs and name their folder with --bin", target)
	}
	text := "#!/bin/sh\n# Stands for the instance role of a real controller.\n" + exports(l.environment()) + "exec " + shellQuote(target) + " \"$@\"\n"
	path := l.path("hooks", program)
	return path, os.WriteFile(path, []byte(text), 0o755)
}

// prologs are the lines of slurm.conf that make the product's program Prolog and TaskProlog.
// Without it the lab runs without them. Every instance has its metadata at one address; here
// all of them are one machine, so that a wrapper says where those of the node are.
func (l *lab) prologs() ([]string, error) {
	program := l.program("pcs-capacity-prolog")
	if _, err := os.Stat(program); err != nil {
		l.log.Warn("no Prolog: the product's program is not there", "path", program)
		return nil, nil
	}
	wrapper := l.path("hooks", "pcs-capacity-prolog")
	text := fmt.Sprintf("#!/bin/sh\n# Stands for the address at which a real instance finds its metadata.\n"+
		"read -r AWS_EC2_METADATA_SERVICE_ENDPOINT <\"%s\" && export AWS_EC2_METADATA_SERVICE_ENDPOINT\nexec %s\n",
		metadataFile(l.Dir, "$SLURMD_NODENAME"), shellQuote(program))
	// The TaskProlog runs as the job's user, who may not reach a program that was built in
	// somebody's folder; Slurm fails tasks whose TaskProlog does not start.
	task := l.path("hooks", "pcs-capacity-taskprolog")
	taskText := fmt.Sprintf("#!/bin/sh\n[ -x %[1]s ] || exit 0\nexec %[1]s\n", shellQuote(program))
	if err := errors.Join(os.WriteFile(wrapper, []byte(text), 0o755), os.WriteFile(task, []byte(taskText), 0o755)); err != nil {
		return nil, err
	}
	return []string{"PrologFlags=Alloc", "Prolog=" + wrapper, "TaskProlog=" + task}, nil
}

// productConfig is the product's config.toml: the part that both modes share.
var productConfig = template.Must(template.New("config.toml").Parse(`# Written by capacity-lab up.
region = "{{.Region}}"
{{- if .Cluster}}
cluster = "{{.Cluster}}"
{{- end}}
state_dir = "{{.StateDir}}"
local_dir = "{{.LocalDir}}"

[timing]
{{- if .Short}}
# The lab's blocks are minutes long, so everything is.
poll = "2s"
drain_margin = "30s"
boot_allowance = "30s"
{{- end}}
reclaim_lead = "{{.Lead}}"

[log]
dir = "{{.LogDir}}"
`))

// writeProductConfig writes config.toml where the product looks first: in pcs-capacity/ beside slurm.conf.
func (l *lab) writeProductConfig(cluster, partitions string) error {
	lead := cmp.Or(time.Duration(l.scenario.ReclaimLead), 30*time.Minute)
	var b strings.Builder
	err := productConfig.Execute(&b, map[string]any{
		"Region":   l.region(),
		"Cluster":  cluster,
		"StateDir": l.path("state-pcs-capacity"),
		"LocalDir": l.path("local-pcs-capacity"),
		"LogDir":   l.path("log"),
		"Lead":     lead,
		"Short":    lead < 10*time.Minute,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(l.path("etc", "pcs-capacity", "config.toml"), []byte(b.String()+partitions), 0o644)
}

// emptyCLIFilter lets every submission through.
const emptyCLIFilter = `function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
`

// luaHooks are the product's Lua shims. Without the product's filter the lab runs without them.
func (l *lab) luaHooks() (cliFilter, jobSubmit string) {
	filter := l.program("pcs-capacity-filter")
	if _, err := os.Stat(filter); err != nil {
		l.log.Warn("no Lua hooks: the product's filter is not there", "path", filter)
		return emptyCLIFilter, ""
	}
	shared, local := l.path("state-pcs-capacity"), l.path("local-pcs-capacity")
	return submit.CLIFilter(state.Dir(shared).PlanPath(), shared, filter), submit.JobSubmit(state.Dir(local).PlanPath(), local, filter)
}

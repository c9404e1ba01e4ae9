package hookinstall

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// controller is a slurmctld under systemd that starts as long as nothing is wrong with its files.
type controller struct {
	*site
	plugins string                   // PluginDir
	denied  bool                     // systemctl may not restart it
	busy    int                      // counts the questions that it does not answer yet
	wrong   func(conf string) string // its log, if it does not start with slurm.conf
	down    bool
	starts  int
}

func newController(t *testing.T, wrong func(conf string) string) *controller {
	c := &controller{site: newSite(t), plugins: t.TempDir(), wrong: wrong}
	c.plugin("job_submit_lua.so")

	return c
}

func (c *controller) plugin(name string) {
	c.Helper()

	if err := os.WriteFile(filepath.Join(c.plugins, name), nil, 0o644); err != nil {
		c.Fatal(err)
	}
}

func (c *controller) text() string {
	c.Helper()

	text, err := os.ReadFile(filepath.Join(c.dir, "slurm.conf"))
	if err != nil {
		c.Fatal(err)
	}

	return string(text)
}

func (c *controller) Jobs(context.Context) ([]capacity.Job, error) { return nil, nil }

func (c *controller) Config(context.Context) (slurm.Config, error) {
	if c.busy > 0 {
		c.busy--
		return slurm.Config{}, slurm.ErrUnreachable
	}

	return slurm.Config{
		PluginDirs: []string{c.plugins, "/no/such/folder"},
		LogFile:    filepath.Join(c.dir, "slurmctld.log"),
	}, nil
}

func (c *controller) Systemctl(_ context.Context, args ...string) error {
	switch {
	case args[0] == "is-active" && c.down:
		return errors.New("inactive")
	case args[0] == "is-active":
		return nil
	case c.denied:
		return errors.New("access denied")
	}

	c.starts++
	complaint := c.wrong(c.text())
	c.down = complaint != ""

	log, err := os.OpenFile(filepath.Join(c.dir, "slurmctld.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = log.WriteString(complaint)
	}

	return errors.Join(err, log.Close())
}

func (c *controller) settings(installed bool) Settings {
	c.Helper()
	running, _ := c.Config(c.Context())

	return Settings{
		SlurmConf: c.conf(),
		Pending:   c.running != installed,
		Restarts:  true,
		Slurm:     c,
		Running:   running,
	}
}

func (c *controller) install() error {
	p := Plan{World: c}

	err := errors.Join(
		p.Install(c.script()),
		p.InstallSettings(c.Context(), c.settings(true), fileHeader+"JobSubmitPlugins=lua\n", fileHeader),
	)
	if err != nil {
		return err
	}

	return p.Apply(c.Context(), func(Change) {})
}

// files are the names of those in the folder of slurm.conf, without the log.
func (c *controller) files() string {
	c.Helper()

	all, err := os.ReadDir(c.dir)
	if err != nil {
		c.Fatal(err)
	}

	var names []string
	for _, one := range all {
		if one.Name() != "slurmctld.log" {
			names = append(names, one.Name())
		}
	}

	return strings.Join(names, " ")
}

// Complaints of slurmctld 22.05, as its log has them.
const (
	noPlugin = `[2026-11-29T05:49:13.219] error: Configured MailProg is invalid
[2026-11-29T05:49:13.223] error: cannot create job_submit context for job_submit/lua
[2026-11-29T05:49:13.223] fatal: failed to initialize job_submit plugin
`
	noNodes = `[2026-11-29T05:49:12.210] error: get_addr_info: getaddrinfo() failed: Name or service not known: No error, attempt number 4
[2026-11-29T05:49:13.211] error: _find_node_record: lookup failure for node "gone-1"
[2026-11-29T05:49:13.211] error: _find_node_record: lookup failure for node "gone-2"
[2026-11-29T05:49:13.211] fatal: Invalid node names in partition old
`
	ownLine = "PartitionName=old \\\n  Nodes=gone-[1-2]\n"
)

// A slurmctld that ran before an edit runs after it, or the error names the line of the site's that keeps it from that.
func TestRestartThatFails(t *testing.T) {
	withOurs := func(complaint string) func(string) string {
		return func(conf string) string {
			if strings.Contains(conf, IncludeFile) {
				return complaint
			}

			return ""
		}
	}
	with := func(line, complaint string) func(string) string {
		return func(conf string) string {
			if strings.Contains(conf, line) {
				return complaint
			}

			return ""
		}
	}

	for _, c := range []struct {
		name      string
		own       string // what slurmctld has not read yet
		wrong     func(conf string) string
		change    func(*controller)
		want, not string
		starts    int
		keeps     bool // our files stay
	}{
		{
			name:   "no plugin",
			wrong:  withOurs(noPlugin),
			change: func(c *controller) { os.Remove(filepath.Join(c.plugins, "job_submit_lua.so")) },
			want:   "this Slurm has no job_submit_lua.so in ",
			not:    "/no/such/folder",
		},
		{
			name:   "the folder of plugins is on another host",
			wrong:  withOurs(""),
			change: func(c *controller) { os.RemoveAll(c.plugins) },
			starts: 1,
			keeps:  true,
		},
		{
			name:  "a plugin that cannot be loaded",
			wrong: withOurs(noPlugin),
			want: `with this change slurmctld does not start: its log says "failed to initialize job_submit ` +
				`plugin". The former files are back, and slurmctld runs again`,
			starts: 2,
		},
		{
			name:  "a line of the site's",
			own:   ownLine,
			wrong: with("PartitionName=old", noNodes),
			want: "does not start with them either, because of a line that slurmctld had not read yet, and that " +
				"pcs-capacity did not write: DIR/slurm.conf:5: PartitionName=old Nodes=gone-[1-2]; correct it",
			starts: 2,
		},
		{
			name:   "a line of the site's that no line tells",
			own:    ownLine,
			wrong:  with("PartitionName=old", "slurmctld: fatal: Unable to process configuration file\n"),
			want:   "does not start with them either; correct what its log complains about",
			starts: 2,
		},
		{
			name:   "systemctl may not",
			wrong:  withOurs(""),
			change: func(c *controller) { c.denied = true },
			want:   "restart slurmctld: access denied; run this again to continue",
			keeps:  true,
		},
		{
			name:   "slurmctld that takes its time",
			wrong:  withOurs(""),
			change: func(c *controller) { c.busy = 1 },
			starts: 1,
			keeps:  true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newController(t, c.wrong)
			s.write("slurm.conf", siteConf+c.own)
			s.write("slurmctld.log", noNodes) // of years ago

			before := s.files()
			if c.change != nil {
				c.change(s)
			}

			err := s.install()
			said := strings.ReplaceAll(errorText(err), s.dir, "DIR")
			if (c.want == "") != (err == nil) || !strings.Contains(said, c.want) ||
				c.not != "" && strings.Contains(said, c.not) {
				t.Errorf("%s", said)
			}

			if s.starts != c.starts {
				t.Errorf("it was started %d times", s.starts)
			}

			if back := s.files() == before && s.text() == siteConf+c.own; back == c.keeps {
				t.Errorf("files %s; slurm.conf is\n%s", s.files(), s.text())
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}

	return err.Error()
}

// Where a removal meets a line of the site's that slurmctld does not start with, ours are back.
func TestRemovalThatFails(t *testing.T) {
	s := newController(t, func(string) string { return "" })
	if err := s.install(); err != nil {
		t.Fatal(err)
	}

	s.running = true
	installed := s.text() + ownLine
	s.write("slurm.conf", installed)
	before := s.files()
	s.wrong = func(string) string { return noNodes }

	p := Plan{World: s}
	if err := p.RemoveSettings(t.Context(), s.settings(false), s.script()); err != nil {
		t.Fatal(err)
	}

	err := p.Apply(t.Context(), func(Change) {})
	if !strings.Contains(errorText(err), "slurm.conf:6: PartitionName=old Nodes=gone-[1-2]") || s.files() != before ||
		s.text() != installed {
		t.Errorf("%v, files %s; slurm.conf is\n%s", err, s.files(), s.text())
	}
}

// slurmctld's complaints name lines in their own words.
func TestComplaintsOfLines(t *testing.T) {
	s := newSite(t)
	s.write("slurm.conf", siteConf+`SelectType=select/cons_foo
JobSubmitPlugins=partition,nope
NodeName=cpu-1
Foo=bar
PartitionName=all Nodes=ALL State=WHAT
DownNodes=zz-1 State=DOWN
`)

	for complaints, want := range map[string]string{
		"Can't find plugin for select/cons_foo": "slurm.conf:5: SelectType=select/cons_foo",
		"cannot find job_submit plugin for job_submit/nope|" +
			"failed to initialize job_submit plugin": "slurm.conf:6: JobSubmitPlugins=partition,nope",
		"Duplicated NodeName cpu-1 in the config file": "slurm.conf:7: NodeName=cpu-1",
		"_parse_next_key: Parsing error at unrecognized key: Foo|" +
			"Unable to process configuration file": "slurm.conf:8: Foo=bar",
		`Bad value "WHAT" for State|` +
			`Unable to process configuration file`: "slurm.conf:9: PartitionName=all Nodes=ALL State=WHAT",
		`lookup failure for node "gpu-2"|attempt number 4|out of luck`: "nodes.conf:1: NodeName=cpu-1,gpu-[1-2] CPUs=4",
		"out of luck": "",
	} {
		where, text := s.conf().findComplaint(strings.Split(complaints, "|"))
		if got := strings.TrimPrefix(where, s.dir+"/"); want != "" && got+": "+text != want || want == "" && got != "" {
			t.Errorf("%s: %s: %s", complaints, got, text)
		}
	}
}

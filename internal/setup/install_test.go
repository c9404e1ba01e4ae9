package setup_test

import (
	"bytes"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hookinstall"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// node is a node without a package, whose package manager and AWS CLI are played.
type node struct {
	*testing.T
	dir string
}

func newNode(t *testing.T) *node {
	n := &node{t, t.TempDir()}
	for _, folder := range []string{"slurm-25.05", "slurm-25.11"} {
		if err := os.MkdirAll(filepath.Join(n.dir, "pcs", folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	n.play("pcs-capacity", "exit 1")
	n.play("logger", ":")

	return n
}

func (n *node) play(program, script string) {
	n.Helper()

	err := os.MkdirAll(filepath.Join(n.dir, "bin"), 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(n.dir, "bin", program), []byte("#!/bin/sh\n"+script+"\n"), 0o755)
	}

	if err != nil {
		n.Fatal(err)
	}
}

// run runs the script, which always goes well, and returns what it said.
func (n *node) run(from string, env ...string) string {
	n.Helper()
	cmd := exec.CommandContext(n.Context(), "sh", "-c", setup.InstallScript, "sh", from)
	cmd.Env = append(
		[]string{
			"PATH=" + filepath.Join(n.dir, "bin"),
			"PCS_CAPACITY_PCS_FOLDER=" + filepath.Join(n.dir, "pcs"),
			"PCS_CAPACITY_PAUSE=0",
			"TMPDIR=" + n.dir,
			"NODE=" + n.dir,
		},
		env...)

	out, err := cmd.CombinedOutput()
	if err != nil {
		n.Errorf("it failed: %v\n%s", err, out)
	}

	return string(out)
}

// letsThrough fails unless Slurm takes a script, which lets a job through.
func (n *node) letsThrough(filter string) {
	n.Helper()

	check := `slurm = {SUCCESS = 0}; dofile(arg[1])
assert(slurm_cli_setup_defaults({}, nil) == 0 and slurm_cli_pre_submit({}, 0) == 0)
assert(slurm_cli_post_submit(0, 1, 0) == 0)`
	script := filepath.Join(n.dir, "check.lua")
	if err := os.WriteFile(script, []byte(check), 0o644); err != nil {
		n.Fatal(err)
	}

	if out, err := exec.Command("lua5.1", script, filter).CombinedOutput(); err != nil {
		n.Errorf("%v: %s", err, out)
	}
}

// Where a package comes from, and how it is installed.
func TestInstallScriptInstalls(t *testing.T) {
	server := httptest.NewTLSServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "the package") }),
	)
	defer server.Close()

	n := newNode(t)
	ca := filepath.Join(n.dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o644); err != nil {
		t.Fatal(err)
	}

	shared := filepath.Join(n.dir, "shared.rpm")
	if err := os.WriteFile(shared, []byte("the package"), 0o644); err != nil {
		t.Fatal(err)
	}

	n.play("aws", `[ "$*" = "s3 cp --only-show-errors s3://bucket/x.deb $5" ] && echo the package >"$5"`)
	// The first time somebody else holds the lock.
	n.play("dpkg", `[ "$1" = --install ] && grep -q 'the package' "$2" || exit 3
[ -e "$NODE/unlocked" ] || { : >"$NODE/unlocked"; echo "dpkg frontend lock was locked by another process"; exit 2; }
echo "dpkg $1" >>"$NODE/installed"`)
	n.play(
		"rpm",
		`[ "$1 $2" = "--upgrade --replacepkgs" ] && grep -q 'the package' "$3" && echo "rpm $1" >>"$NODE/installed"`,
	)

	for _, from := range []string{"s3://bucket/x.deb", server.URL + "/x.deb?X-Amz-Signature=secret&b=c", shared} {
		if said := n.run(from, "CURL_CA_BUNDLE="+ca); !strings.Contains(
			said,
			"installed "+strings.Split(from, "?")[0]+"\n",
		) ||
			strings.Contains(said, "secret") {
			t.Errorf("%s: %s", from, said)
		}
	}

	installed, _ := os.ReadFile(filepath.Join(n.dir, "installed"))
	if string(installed) != "dpkg --install\ndpkg --install\nrpm --upgrade\n" {
		t.Errorf("installed: %s", installed)
	}
}

// Before anything else, a node gets a cli_filter.lua that lets every job through. One that is there is left alone, and
// the package's comes in place of ours.
func TestInstallScriptWritesTheFilter(t *testing.T) {
	n := newNode(t)
	n.play("rpm", `[ -e "$NODE/pcs/slurm-25.11/cli_filter.lua" ] || exit 4
echo package is for another architecture; exit 1`)
	n.play("curl", "exit 22")

	own := filepath.Join(n.dir, "pcs", "slurm-25.05", "cli_filter.lua")
	there := filepath.Join(n.dir, "x.rpm")
	for _, file := range []string{own, there} {
		if err := os.WriteFile(file, []byte("-- the site's own\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	filter := filepath.Join(n.dir, "pcs", "slurm-25.11", "cli_filter.lua")
	for _, c := range []struct{ from, says string }{
		{"cli_filter", ""},
		{"https://127.0.0.1/x.rpm", "https://127.0.0.1/x.rpm was not installed; this node runs jobs without it\n"},
		{there, "package is for another architecture"},
	} {
		_ = os.Remove(filter)
		said := n.run(c.from)
		text, err := os.ReadFile(filter)
		if err != nil || !strings.Contains(said, filter+" lets every job through\n") || !strings.Contains(said, c.says) ||
			(c.says == "") != (strings.Count(said, "\n") == 1) {
			t.Errorf("%s: %s, %v", c.from, said, err)
		}

		// hooks install takes its place.
		if first, _, _ := strings.Cut(string(text), "\n"); !strings.HasPrefix(first, "-- "+hookinstall.Header) {
			t.Errorf("%s: the script begins %s", c.from, first)
		}
	}

	if said := n.run("cli_filter"); said != "" {
		t.Errorf("again: %s", said)
	}

	n.letsThrough(filter)
	n.play("rpm", ":")

	for says, program := range map[string]string{
		"-- the filter":            `[ "$*" = "hooks print cli_filter" ] && echo "-- the filter"`,
		"-- " + hookinstall.Header: "echo half of it; exit 1",
	} {
		n.play("pcs-capacity", program)

		_ = os.Remove(filter)

		n.run(there)

		if text, _ := os.ReadFile(filter); !strings.HasPrefix(string(text), says) {
			t.Errorf("with the package that says %s: %s", program, text)
		}
	}

	if text, _ := os.ReadFile(own); string(text) != "-- the site's own\n" {
		t.Errorf("the site's own script is now %s", text)
	}

	if left, _ := filepath.Glob(filepath.Join(n.dir, "tmp.*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestInstallHooks: nodes of PCS get the script after what --like has them run. It stays until it is to install
// something else, in the next slot too; that replaces nodes, so it is refused while some run.
func TestInstallHooks(t *testing.T) {
	const site = "#cloud-config\nmounts: []\n"

	w := newAccount(t, func(s *awssim.Scenario) { s.Regions[0].LaunchTemplates[0].UserData = mime(site) })
	has := func(group, what string) {
		t.Helper()

		data := w.template(w.group(group)).UserData
		parts := pcs.Parts(data)

		is := capacity.LaunchTemplate{UserData: data}.Installs()
		if is != what || len(parts) != 2 || string(parts[0]) != mime(site) {
			t.Errorf("%s installs %q: %s", group, is, data)
		}
	}

	r := w.request(openBlock)
	r.InstallHooks = "cli_filter"
	p := w.run(r)

	if says := detail(p, "user data"); says != "of compute, then installs cli_filter" {
		t.Errorf("the plan says %q", says)
	}

	has("gpu-a", "cli_filter")

	for _, like := range []string{"compute", ""} {
		for _, again := range []string{"cli_filter", ""} {
			r.Like = like
			r.InstallHooks = again
			if p := w.plan(r); !p.Done() {
				t.Errorf("again with --like %q and %q: %v", like, again, p.Steps())
			}
		}
	}

	w.run(w.request(laterBlock))
	has("gpu-b", "cli_filter")

	r = w.request(laterBlock)
	r.InstallHooks = "https://bucket/x.deb?X-Amz-Signature=a&b=c"
	p = w.run(r)

	if says := detail(p, "user data"); says != "of compute, then installs https://bucket/x.deb, changed" {
		t.Errorf("the plan says %q", says)
	}

	has("gpu-b", r.InstallHooks)

	if _, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1"); err != nil {
		t.Fatal(err)
	}

	r.Reservation = openBlock
	if p := w.plan(r); !slices.Equal(codes(p), []string{"in-use"}) {
		t.Errorf("under jobs: %v", p.Mismatches())
	}
}

// mime returns user data as somebody else has written it for PCS.
func mime(part string) string {
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\n" + part +
		"--b--\n"
}

// A script of another version stays as it is: with it would change the launch template, and so the nodes.
func TestInstallHooksOfAnotherVersion(t *testing.T) {
	older := strings.Replace(setup.InstallScript, "'URL'", "'cli_filter'", 1)
	older = strings.Replace(older, "exit 0\n", "exit 0 # as ever\n", 1)

	data, err := pcs.UserData([]byte(older))
	if err != nil {
		t.Fatal(err)
	}

	w := newAccount(t, func(s *awssim.Scenario) { s.Regions[0].LaunchTemplates[0].UserData = string(data) })
	for _, what := range []string{"cli_filter", "", "s3://bucket/x.rpm"} {
		r := w.request(openBlock)
		r.InstallHooks = what
		w.run(r)

		t1 := w.template(w.group("gpu-a"))
		if kept := bytes.Equal(t1.UserData, data); kept != (what != "s3://bucket/x.rpm") || len(pcs.Parts(t1.UserData)) != 1 {
			t.Errorf("with %q it is kept: %t\n%s", what, kept, t1.UserData)
		}
	}
}

func TestCheckInstallHooks(t *testing.T) {
	for what, good := range map[string]bool{
		"":                                 true,
		"cli_filter":                       true,
		"s3://bucket/pool/x_1.0_amd64.deb": true,
		"https://host/x.rpm?X-Amz-Signature=a%2Fb&c=d": true,
		"job_submit":                      false,
		"none":                            false,
		"/tmp/x.deb":                      false,
		"http://host/x.deb":               false,
		"https://host/x.tgz":              false,
		"https://host/'$(reboot)'.deb":    false,
		"https://host/x.deb\nreboot":      false,
		"https://host/x.deb?a=$(reboot)'": false,
	} {
		if err := setup.CheckInstallHooks(what); (err == nil) != good {
			t.Errorf("%q: %v", what, err)
		}
	}
}

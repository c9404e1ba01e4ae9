package setup_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/setup"
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

// A node that cannot install the package, and that PCS tells to run a cli_filter.lua, has one
// that lets every job through. One that is there is left alone.
func TestInstallScriptWithoutAPackage(t *testing.T) {
	n := newNode(t)
	n.play("rpm", "echo package is for another architecture; exit 1")
	n.play("curl", "exit 22")

	own := filepath.Join(n.dir, "pcs", "slurm-25.05", "cli_filter.lua")
	if err := os.WriteFile(own, []byte("-- the site's own\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	there := filepath.Join(n.dir, "x.rpm")
	if err := os.WriteFile(there, nil, 0o644); err != nil {
		t.Fatal(err)
	}

	for from, why := range map[string]string{
		"https://127.0.0.1/x.rpm": "",
		there:                     "package is for another architecture",
	} {
		if said := n.run(from); !strings.Contains(said, from+" was not installed; this node runs jobs without it\n") ||
			!strings.Contains(said, why) {
			t.Errorf("%s: %s", from, said)
		}
	}

	if text, _ := os.ReadFile(own); string(text) != "-- the site's own\n" {
		t.Errorf("the site's own script is now %s", text)
	}

	check := `slurm = {SUCCESS = 0}; dofile(arg[1])
assert(slurm_cli_setup_defaults({}, nil) == 0 and slurm_cli_pre_submit({}, 0) == 0)
assert(slurm_cli_post_submit(0, 1, 0) == 0)`
	script := filepath.Join(n.dir, "check.lua")
	if err := os.WriteFile(script, []byte(check), 0o644); err != nil {
		t.Fatal(err)
	}

	filter := filepath.Join(n.dir, "pcs", "slurm-25.11", "cli_filter.lua")
	if out, err := exec.Command("lua5.1", script, filter).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}

	if left, _ := filepath.Glob(filepath.Join(n.dir, "tmp.*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

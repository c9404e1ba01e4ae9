package setup_test

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

const packageAt = "s3://bucket/pcs-capacity_1.0.0_amd64.deb"

// parts are those of user data, in the order in which cloud-init runs them.
func parts(t *testing.T, data []byte) []string {
	t.Helper()
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%v in %q", err, data)
	}
	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for reader := multipart.NewReader(message.Body, parameters["boundary"]); ; {
		part, err := reader.NextPart()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
}

// order names the parts of user data.
func order(t *testing.T, data []byte) string {
	var names []string
	for _, part := range parts(t, data) {
		switch {
		case part == setup.InstallScript(packageAt):
			names = append(names, "install")
		case strings.HasPrefix(part, setup.NodeScript("")[:100]):
			names = append(names, "slurmd")
		default:
			names = append(names, "site")
		}
	}
	return strings.Join(names, " ")
}

func TestInstallFromInUserData(t *testing.T) {
	const site = "#!/bin/sh\nmount /shared\n"
	for name, c := range map[string]struct {
		onEC2 bool
		like  string
		site  string
		want  string
	}{
		"PCS, an archive of a group": {false, "compute", "", "site install"},
		"PCS, a script":              {false, "compute", site, "site install"},
		"EC2, nothing":               {true, "", "", "install slurmd"},
		"EC2, a script":              {true, "", site, "site install slurmd"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, nil)
			r := w.request(openBlock)
			if c.onEC2 {
				r = w.requestOnEC2(openBlock)
			}
			r.Like, r.UserData, r.InstallFrom = c.like, []byte(c.site), packageAt
			read := func() []byte {
				if c.onEC2 {
					template, _ := w.named(templateName)
					return template.UserData
				}
				return w.template(w.group("gpu-a")).UserData
			}
			p := w.run(r)
			if got := order(t, read()); got != c.want || detail(p, "package") != packageAt {
				t.Errorf("parts %q, want %q; the plan says %q", got, c.want, detail(p, "package"))
			}
			again := r
			if again.UserData = nil; !c.onEC2 {
				again.Like = ""
			}
			if p := w.plan(again); !p.Done() {
				t.Errorf("again: %s %+v", actions(p), p.Steps())
			}
			again.InstallFrom = "/shared/pcs-capacity.rpm"
			w.run(again)
			if data := string(read()); strings.Count(data, "pcs-capacity-install: installs") != 1 || !strings.Contains(data, "\nFROM=${1:-'/shared/pcs-capacity.rpm'}\n") {
				t.Errorf("another package: %s", data)
			}
			again.InstallFrom = ""
			if p := w.plan(again); !p.Done() {
				t.Errorf("without the flag: %s", actions(p))
			}
		})
	}
	w := newAccount(t, nil)
	for _, from := range []string{"http://host/x.deb", "ftp://host/x.deb", "x.deb", "s3://bucket/x.tar", "/x.deb';reboot;'", "/a b.deb", "https://host/x.deb?a=$(reboot)"} {
		r := w.request(openBlock)
		r.InstallFrom = from
		if p := w.plan(r); !slices.Equal(codes(p), []string{"install-from"}) {
			t.Errorf("%s: %v", from, p.Mismatches)
		}
	}
}

const scriptAt = "s3://bucket/install.sh"

// A script is a lifecycle action of PCS behind those of the site, and stays with the node group.
func TestInstallFromByLifecycleAction(t *testing.T) {
	w := newAccount(t, nil)
	w.post("UpdateComputeNodeGroup", `{"clusterIdentifier":"ml","computeNodeGroupIdentifier":"compute","nodeLifecycleActions":
		{"scriptCachingPolicy":"CACHE_ONCE","stages":{"nodeBootstrapped":[{"name":"home","arguments":["fs-1"],"scriptSource":{"scriptLocation":"s3://bucket/home.sh","s3VersionId":"v1"}}],
		"nodeReady":[{"name":"log","scriptSource":{"scriptLocation":"https://example.com/log.sh"}}]}}}`)
	r := w.request(openBlock)
	r.InstallFrom = scriptAt
	p := w.run(r)
	const plan = "nodeBootstrapped: home, pcs-capacity-install; nodeReady: log"
	if detail(p, "lifecycle actions") != plan || detail(p, "script") != scriptAt || detail(p, "package") != "" {
		t.Errorf("the plan says %+v", p.Steps())
	}
	want := func(script string) pcs.LifecycleActions {
		return pcs.LifecycleActions(`{"scriptCachingPolicy":"CACHE_ONCE","stages":{"nodeBootstrapped":[
			{"name":"home","arguments":["fs-1"],"scriptSource":{"scriptLocation":"s3://bucket/home.sh","s3VersionId":"v1"}},
			{"name":"pcs-capacity-install","onError":"CONTINUE","executionPolicy":"FIRST_BOOT_ONLY","scriptSource":{"scriptLocation":"` + script + `"}}],
			"nodeReady":[{"name":"log","scriptSource":{"scriptLocation":"https://example.com/log.sh"}}]}}`)
	}
	has := func(when, group, script string) {
		t.Helper()
		if g := w.group(group); !g.Actions.Equal(want(script)) {
			t.Errorf("%s, %s has %s", when, group, g.Actions.Canonical())
		}
	}
	has("with --like", "gpu-a", scriptAt)
	if data := w.template(w.group("gpu-a")).UserData; bytes.Contains(data, []byte("pcs-capacity-install")) {
		t.Errorf("the user data installs too: %s", data)
	}
	if p := w.plan(r); !p.Done() {
		t.Errorf("again: %s", actions(p))
	}
	other := r
	other.InstallFrom = "https://example.com/a/install.sh?X-Amz-Signature=0a"
	if p := w.run(other); detail(p, "script") != "https://example.com/a/install.sh" {
		t.Errorf("the plan says %q", detail(p, "script"))
	}
	has("with another script", "gpu-a", other.InstallFrom)
	next := w.request(laterBlock) // --like has no such action, and the flag is left out
	w.run(next)
	has("the next reservation", "gpu-b", other.InstallFrom)

	next.InstallFrom = packageAt
	if p := w.plan(next); len(p.Mismatches) != 1 || !strings.Contains(p.Mismatches[0].Text(), "nodes run lifecycle action pcs-capacity-install from "+other.InstallFrom+" already") {
		t.Errorf("a package besides: %v", p.Mismatches)
	}

	launched, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1")
	if err != nil || !slices.Equal(launched.Actions, []string{"nodeBootstrapped home", "nodeBootstrapped pcs-capacity-install", "nodeReady log"}) {
		t.Errorf("a node ran %v, %v", launched.Actions, err)
	}
	w.tear(w.teardown("gpu-b"))
	if g, found := w.inventory().Group("gpu-b"); found {
		t.Errorf("teardown left %+v", g)
	}
}

// Where nodes would not run the script, nothing is made; without the check they come up without it.
func TestInstallFromByNoLifecycleAction(t *testing.T) {
	full := `{"name":"s0","scriptSource":{"scriptLocation":"s3://bucket/s.sh"}}`
	for n := range 19 {
		full += strings.Replace(`,{"name":"s0","scriptSource":{"scriptLocation":"s3://bucket/s.sh"}}`, "s0", fmt.Sprint("s", n+1), 1)
	}
	for name, c := range map[string]struct {
		from   string
		onEC2  bool
		agent  string
		stages string
		data   string
		says   string
	}{
		"both":           {from: scriptAt, data: setup.InstallScript(packageAt), says: "the user data installs the package already"},
		"self-managed":   {from: scriptAt, onEC2: true, says: "install-from: --install-from s3://bucket/install.sh cannot be used: a script is a lifecycle action of PCS, and with --provider ec2 there are none"},
		"a path":         {from: "/shared/install.sh", says: "install-from: --install-from /shared/install.sh cannot be used: PCS fetches a script from s3://BUCKET/KEY or an https:// URL"},
		"HTTP":           {from: "http://example.com/install.sh", says: "install-from: --install-from http://example.com/install.sh cannot be used: PCS fetches"},
		"a host alone":   {from: "https://host/install.sh", says: "install-from: --install-from https://host/install.sh cannot be used: PCS fetches"},
		"too long":       {from: "s3://bucket/" + strings.Repeat("a", 1024) + ".sh", says: "of up to 1024 characters"},
		"no room":        {from: scriptAt, stages: full, says: "stage nodeBootstrapped has 20 scripts, and PCS takes no more"},
		"an older agent": {from: scriptAt, agent: "1.4.0-1", says: "pcs-agent: image " + image + " (aws-pcs-ready-dlami-base-ubuntu2404-x86_64-20260522) has PCS agent 1.4.0-1, which runs no lifecycle actions (nodeBootstrapped: pcs-capacity-install)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, func(s *awssim.Scenario) {
				if c.agent != "" {
					s.Regions[0].Images[0].Description = "with NVIDIA drivers. PCS Agent: " + c.agent + "."
				}
			})
			if c.stages != "" {
				w.post("UpdateComputeNodeGroup", `{"clusterIdentifier":"ml","computeNodeGroupIdentifier":"compute","nodeLifecycleActions":{"stages":{"nodeBootstrapped":[`+c.stages+`]}}}`)
			}
			r := w.request(openBlock)
			if c.onEC2 {
				r = w.requestOnEC2(openBlock)
			}
			r.InstallFrom, r.UserData = c.from, []byte(c.data)
			p := w.plan(r)
			if len(p.Mismatches) != 1 || !strings.Contains(string(p.Mismatches[0].Code)+": "+p.Mismatches[0].Text(), c.says) {
				t.Errorf("%q, want %q", p.Mismatches, c.says)
			}
			if c.agent == "" {
				return
			}
			p.Mismatches = nil
			if err := w.setup.Apply(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if launched, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1"); err != nil || len(launched.Actions) > 0 {
				t.Errorf("a node with agent %s ran %v, %v", c.agent, launched.Actions, err)
			}
		})
	}
}

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
	cmd := exec.CommandContext(n.Context(), "sh", "-c", setup.InstallScript(from))
	cmd.Env = append([]string{"PATH=" + filepath.Join(n.dir, "bin"), "PCS_CAPACITY_PCS_FOLDER=" + filepath.Join(n.dir, "pcs"), "PCS_CAPACITY_PAUSE=0", "TMPDIR=" + n.dir, "NODE=" + n.dir}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.Errorf("it failed: %v\n%s", err, out)
	}
	return string(out)
}

// Where a package comes from, and how it is installed.
func TestInstallScriptInstalls(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "the package") }))
	defer server.Close()
	n := newNode(t)
	ca := filepath.Join(n.dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o644); err != nil {
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
	n.play("rpm", `[ "$1 $2" = "--upgrade --replacepkgs" ] && grep -q 'the package' "$3" && echo "rpm $1" >>"$NODE/installed"`)
	for _, from := range []string{"s3://bucket/x.deb", server.URL + "/x.deb?X-Amz-Signature=secret&b=c", shared} {
		if said := n.run(from, "CURL_CA_BUNDLE="+ca); !strings.Contains(said, "installed "+strings.Split(from, "?")[0]+"\n") || strings.Contains(said, "secret") {
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
	for from, why := range map[string]string{"https://127.0.0.1/x.rpm": "", there: "package is for another architecture"} {
		if said := n.run(from); !strings.Contains(said, from+" was not installed; this node runs jobs without it\n") || !strings.Contains(said, why) {
			t.Errorf("%s: %s", from, said)
		}
	}
	if text, _ := os.ReadFile(own); string(text) != "-- the site's own\n" {
		t.Errorf("the site's own script is now %s", text)
	}
	check := `slurm = {SUCCESS = 0}; dofile(arg[1])
assert(slurm_cli_setup_defaults({}, nil) == 0 and slurm_cli_pre_submit({}, 0) == 0 and slurm_cli_post_submit(0, 1, 0) == 0)`
	script := filepath.Join(n.dir, "check.lua")
	if err := os.WriteFile(script, []byte(check), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("lua5.1", script, filepath.Join(n.dir, "pcs", "slurm-25.11", "cli_filter.lua")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(n.dir, "tmp.*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

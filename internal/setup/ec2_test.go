package setup_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
)

const (
	mark         = "linux/0123456789abcdef"
	templateName = "pcs-capacity-" + mark + "-gpu"
)

// requestOnEC2 is what most tests ask for, for self-managed Slurm.
func (w *account) requestOnEC2(reservation string) setup.Request {
	return setup.Request{
		Provider:    capacity.ProviderEC2,
		Mark:        mark,
		Queue:       "gpu",
		NodeGroup:   "gpu",
		Reservation: reservation,
		Like:        "ec2-nodes",
		SubnetIDs:   []string{subnetA},
		MaxNodes:    4,
		ConfigPath:  w.configPath(),
	}
}

func (w *account) named(name string) (capacity.LaunchTemplate, bool) {
	w.Helper()

	t, found, err := w.ec2.LaunchTemplate(w.Context(), name, "")
	if err != nil {
		w.Fatal(err)
	}

	return t, found
}

// TestNodesFindTheirNames launches nodes from the template, as the hook does, and runs their user data.
func TestNodesFindTheirNames(t *testing.T) {
	w := newAccount(
		t,
		func(s *awssim.Scenario) { s.Regions[0].LaunchTemplates[1].UserData = "#!/bin/sh\ntouch first\n" },
	)
	r := w.requestOnEC2(openBlock)
	r.ConfServer = "head"
	w.run(r)

	server := httptest.NewServer(w.sim.Handler())
	defer server.Close()

	var names []string
	for i := range 9 {
		names = append(names, fmt.Sprintf("gpu-%d", i+1), fmt.Sprintf("rack%03d", i+5))
	}

	names = names[:16]
	slices.Sort(names)
	list := hostlist.Compress(names)

	names, err := hostlist.Expand(list)
	if err != nil {
		t.Fatal(err)
	}

	halves := []string{hostlist.Compress(names[:9]), hostlist.Compress(names[9:])}
	names = slices.Concat(must(hostlist.Expand(halves[0])), must(hostlist.Expand(halves[1])))

	launched, err := w.ec2.Launch(
		t.Context(),
		capacity.Launch{
			LaunchTemplate: templateName + ":$Latest",
			InstanceType:   "p5.48xlarge",
			SubnetID:       subnetA,
			ReservationID:  openBlock,
			Kind:           capacity.CapacityBlock,
			Count:          16,
			ClientToken:    "t",
			Tags:           capacity.NodesTags(halves),
		},
	)
	if err != nil {
		t.Fatal(err)
	}

	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "slurmd"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	script := filepath.Join(bin, "user-data")
	if err := os.WriteFile(script, []byte(setup.NodeScript("head")), 0o755); err != nil {
		t.Fatal(err)
	}

	template, _ := w.named(templateName)
	if at := strings.Index(string(template.UserData), setup.NodeScript("head")); at < strings.Index(
		string(template.UserData),
		"touch first",
	) {
		t.Errorf("user data:\n%s", template.UserData)
	}

	root := t.TempDir() // of the instance
	path := bin + ":" + os.Getenv("PATH")

	run := func(id string) (string, error) {
		command := exec.CommandContext(t.Context(), script)

		command.Env = append(
			os.Environ(),
			"PATH="+path,
			"SLURM_CONF=/nowhere",
			"PCS_CAPACITY_PAUSE=0",
			"PCS_CAPACITY_ROOT="+root,
			"AWS_EC2_METADATA_SERVICE_ENDPOINT="+server.URL+"/_sim/metadata/"+id,
		)
		out, err := command.CombinedOutput()

		return string(out), err
	}
	for i, instance := range launched {
		if out, err := run(instance.ID); err != nil || out != "-N "+names[i]+" --conf-server head\n" {
			t.Errorf("instance %d is %q, not %s: %v", i, out, names[i], err)
		}
	}
	// The controller answers only the third time, as one that is being restarted.
	late := "#!/bin/sh\necho x >>" + bin + "/tries\n[ $(wc -l <" + bin + "/tries) -gt 2 ] && echo \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "slurmd"), []byte(late), 0o755); err != nil {
		t.Fatal(err)
	}

	if out, err := run(launched[0].ID); err != nil || out != "-N "+names[0]+" --conf-server head\n" {
		t.Errorf("with a controller that answers late: %q, %v", out, err)
	}
	// With systemd it runs as a unit that is started again, and needrestart and apt leave it alone.
	for _, dir := range []string{
		"run/systemd/system", "etc/systemd/system", "etc/needrestart/conf.d", "etc/apt/apt.conf.d",
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	systemctl := "#!/bin/sh\necho systemctl \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte(systemctl), 0o755); err != nil {
		t.Fatal(err)
	}

	if out, err := run(launched[0].ID); err != nil ||
		out != "systemctl daemon-reload\nsystemctl enable --now pcs-capacity-slurmd.service\n" {
		t.Errorf("with systemd: %q, %v", out, err)
	}

	for file, want := range map[string]string{
		"etc/systemd/system/pcs-capacity-slurmd.service": "\nExecStart=" + bin + "/slurmd -D -N " + names[0] +
			" --conf-server head\n",
		"etc/needrestart/conf.d/pcs-capacity.conf": "{override_rc}{qr(slurm|munge)} = 0;\n",
		"etc/apt/apt.conf.d/90pcs-capacity":        "Package-Blacklist",
	} {
		if text, err := os.ReadFile(filepath.Join(root, file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s%v", file, text, err)
		}
	}

	path = bin // a minimal image

	if out, err := run(launched[0].ID); err == nil || out != "pcs-capacity: the image has no curl; install it there\n" {
		t.Errorf("without curl: %q, %v", out, err)
	}

	path = bin + ":" + os.Getenv("PATH")

	if out, err := run("i-0000000000000000f"); err == nil || !strings.Contains(out, "does not say which node this is") {
		t.Errorf("an instance without metadata: %q, %v", out, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// write writes config.toml.
func (w *account) write(text string) {
	w.Helper()

	if err := os.MkdirAll(filepath.Dir(w.configPath()), 0o755); err != nil {
		w.Fatal(err)
	}

	if err := os.WriteFile(w.configPath(), []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func TestR9_SetupOnEC2LeavesForeignTemplates(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.requestOnEC2(openBlock))

	template, _ := w.named(templateName)
	if err := w.ec2.TagLaunchTemplate(t.Context(), template.ID,
		map[string]string{capacity.TagCluster: "linux/fedcba9876543210"}); err != nil {
		t.Fatal(err)
	}

	w.written()

	r := w.requestOnEC2(openBlock)
	r.EFA = capacity.NoEFA
	if p := w.plan(r); !slices.Equal(codes(p), []string{"not-ours"}) {
		t.Errorf("%v", p.Mismatches())
	}

	w.tear(w.teardownOnEC2())

	if _, found := w.named(templateName); !found || len(w.written()) > 0 {
		t.Error("the launch template of another cluster is changed")
	}
}

func (w *account) teardownOnEC2() setup.Request {
	w.setup.Slurm = slurmAway{}
	return setup.Request{Provider: capacity.ProviderEC2, Mark: mark, Queue: "gpu", Config: w.config()}
}

// launch starts an instance as ResumeProgram does.
func (w *account) launch(cluster, partition, node string) string {
	w.Helper()

	all, err := w.ec2.Launch(
		w.Context(),
		capacity.Launch{
			ClientToken:    cluster + partition + node,
			LaunchTemplate: templateName,
			InstanceType:   "p5.48xlarge",
			SubnetID:       subnetA,
			Kind:           capacity.OnDemand,
			Count:          1,
			Tags: map[string]string{
				capacity.TagCluster:   cluster,
				capacity.TagPartition: partition,
				capacity.TagNodes:     node,
			},
		},
	)
	if err != nil {
		w.Fatal(err)
	}

	return all[0].ID
}

// Teardown ends the instances of what it removes, and no others (R9).
func TestR9_TeardownOnEC2EndsItsInstances(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.requestOnEC2(openBlock))

	if err := w.sim.SetCapacity(region, "us-east-2a", "p5.48xlarge", 6); err != nil {
		t.Fatal(err)
	}

	names := map[string]string{}
	for _, i := range []struct{ cluster, partition, node string }{
		{mark, "gpu", "gpu-1"},
		{mark, "gpu", "gpu-2"},
		{mark, "gpu", "old-7"},
		{mark, "other", "other-1"},
		{"linux/fedcba9876543210", "gpu", "gpu-3"},
	} {
		names[w.launch(i.cluster, i.partition, i.node)] = i.node
	}

	left := func() []string {
		var nodes []string
		for _, i := range w.sim.Instances(region) {
			if i.State == "running" || i.State == "pending" {
				nodes = append(nodes, names[i.ID])
			}
		}

		slices.Sort(nodes)

		return nodes
	}

	var drained []string

	slurm := slurmOf{slots: map[string]setup.SlurmSlot{"gpu": {Jobs: []string{"12"}}}, drained: &drained}

	request := func(group string, force bool) setup.Request {
		r := w.teardownOnEC2()
		w.setup.Slurm, r.NodeGroup, r.Force = slurm, group, force
		return r
	}
	if p := w.planTeardown(request("", false)); len(p.Mismatches()) != 1 || p.Mismatches()[0].Code != "jobs-run" {
		t.Errorf("with a job: %v", p.Mismatches())
	}
	// A node group alone, by force; one of its instances comes after the plan.
	p := w.planTeardown(request("gpu", true))
	want := []string{
		"drain Slurm nodes gpu",
		"terminate instances gpu",
		"delete file gpu.toml",
		"delete launch template " + filepath.Base(templateName),
	}
	slices.Sort(want)

	if got := slices.Sorted(slices.Values(stepsOf(p))); !slices.Equal(got, want) || len(p.Texts(capacity.Note)) != 1 ||
		p.Texts(capacity.Note)[0] != "job 12 is running on these nodes; jobs end with their nodes" {
		t.Errorf("steps %q, warnings %q", got, p.Texts(capacity.Note))
	}

	names[w.launch(mark, "gpu", "gpu-4")] = "gpu-4"
	w.fault(
		awssim.Fault{
			Effect:    awssim.FailBefore,
			Operation: "TerminateInstances",
			Count:     1,
			Code:      "UnauthorizedOperation",
		},
	)

	if err := w.setup.Apply(t.Context(), p); err == nil {
		t.Error("the failure is not told")
	}

	w.sim.ClearFaults()

	slurm.slots = nil

	w.tear(request("gpu", false))

	if got := left(); !slices.Equal(got, []string{"gpu-3", "old-7", "other-1"}) {
		t.Errorf("after node group gpu, left: %v", got)
	}
	// Of all the queue nothing is left but the instance of a node group that the settings lost long ago.
	drained = nil
	p = w.tear(request("", false))
	if got := left(); !slices.Equal(got, []string{"gpu-3", "other-1"}) || !slices.Equal(drained, []string{"old-7"}) {
		t.Errorf("after the queue, left: %v; drained %v; %v", got, drained, stepsOf(p))
	}

	if p := w.planTeardown(request("", false)); !p.Done() {
		t.Errorf("again: %v", stepsOf(p))
	}
}

package slurmlab

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// writeConfig writes every file that the daemons read.
func (c *Cluster) writeConfig(cfg Config) error {
	for _, name := range cfg.nodes() {
		if _, has := c.nodePort[name]; !has {
			c.nodePort[name] = c.firstPort + firstNodePort + len(c.nodePort)
		}
	}

	if len(c.nodePort) > blockSize-firstNodePort {
		return fmt.Errorf("too many nodes: a cluster has ports for %d", blockSize-firstNodePort)
	}

	c.cfg = cfg
	if err := c.writeKey(); err != nil {
		return err
	}

	if err := c.writeScripts(); err != nil {
		return err
	}

	gres, err := c.writeGPUs()
	if err != nil {
		return err
	}

	files := map[string]string{
		"slurm.conf":     c.slurmConf(),
		"gres.conf":      cmp.Or(cfg.GresConf, gres),
		"cli_filter.lua": cfg.CLIFilterLua,
		"job_submit.lua": cfg.JobSubmitLua,
	}
	if c.version >= 2400 { // 22.05 does not know the setting
		files["cgroup.conf"] = "CgroupPlugin=disabled\n"
	}

	for name, content := range files {
		if content == "" && name != "gres.conf" {
			continue
		}

		if err := writeFile(filepath.Join(c.dir, "etc", name), content, 0o644); err != nil {
			return err
		}
	}

	if cfg.Accounting {
		// slurmdbd refuses one that others can read.
		return writeFile(filepath.Join(c.dir, "etc", "slurmdbd.conf"), c.slurmdbdConf(), 0o600)
	}

	return nil
}

// writeFile replaces a file in one step: a command that starts at this moment reads the old or the new one.
func writeFile(path, content string, mode os.FileMode) error {
	return renameio.WriteFile(
		path,
		[]byte(content),
		mode,
		renameio.IgnoreUmask(),
		renameio.WithTempDir(filepath.Dir(path)),
	)
}

// writeKey makes the cluster's secret at its first start.
func (c *Cluster) writeKey() error {
	path := filepath.Join(c.dir, "etc", "munge.key")
	if _, err := os.Stat(path); err == nil {
		return nil
	}

	key := make([]byte, 128)
	rand.Read(key)

	return os.WriteFile(path, key, 0o600)
}

// writeGPUs makes the devices of fake GPUs and returns gres.conf. A GPU without a file is dropped by slurmd ("Ignoring
// file-less GPU"), and then the node is drained. Copies of /dev/null give jobs CUDA_VISIBLE_DEVICES; where they cannot
// be made (no root), plain files still schedule, but jobs are not told which GPUs they have.
func (c *Cluster) writeGPUs() (string, error) {
	var gres strings.Builder

	most := 0
	for _, group := range c.cfg.groups() {
		if group.GPUs == 0 {
			continue
		}

		most = max(most, group.GPUs)
		fmt.Fprintf(&gres, "NodeName=%s Name=gpu File=%s/dev/gpu[0-%d] Flags=nvidia_gpu_env\n",
			group.Hostlist(), c.dir, group.GPUs-1)
	}

	for i := range most {
		path := filepath.Join(c.dir, "dev", fmt.Sprintf("gpu%d", i))
		if _, err := os.Stat(path); err == nil {
			continue
		}

		const devNull = 1<<8 | 3 // major 1, minor 3: null(4)
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, devNull); err != nil {
			if err := os.WriteFile(path, nil, 0o666); err != nil {
				return "", err
			}
		}
	}

	return gres.String(), nil
}

// slurmConf returns the text of slurm.conf.
func (c *Cluster) slurmConf() string {
	cfg := c.cfg
	overridden := map[string]bool{}
	for _, line := range cfg.Extra {
		key, _, _ := strings.Cut(line, "=")
		overridden[strings.ToLower(strings.TrimSpace(key))] = true
	}

	var b strings.Builder
	b.WriteString("# Written by slurmlab; changed at the next start or reload.\n")

	for _, s := range c.settings() {
		if s.value != "" && !overridden[strings.ToLower(s.key)] {
			fmt.Fprintf(&b, "%s=%s\n", s.key, s.value)
		}
	}

	var last []string // as those who add one write it
	for _, line := range cfg.Extra {
		if strings.HasPrefix(line, "Include ") {
			last = append(last, line+"\n")
		} else if !strings.HasSuffix(line, "=") {
			fmt.Fprintln(&b, line)
		}
	}

	for _, group := range cfg.groups() {
		c.writeNodes(&b, group)
	}

	for _, partition := range cfg.partitions() {
		fmt.Fprintln(&b, partition)
	}

	return b.String() + strings.Join(last, "")
}

type setting struct{ key, value string }

// settings returns those of the whole cluster. Sources: slurm.conf(5); for what measurements added, the comments here.
func (c *Cluster) settings() []setting {
	cfg := c.cfg
	in := func(parts ...string) string { return filepath.Join(append([]string{c.dir}, parts...)...) }

	var privateData string
	if c.version < 2302 {
		privateData = "cloud" // else 22.05 hides nodes that are powered down
	}

	var cliFilter, jobSubmit string
	if cfg.CLIFilterLua != "" {
		cliFilter = "lua"
	}

	if cfg.JobSubmitLua != "" {
		jobSubmit = "lua"
	}

	var alwaysOn []string
	for _, group := range cfg.groups() {
		if group.AlwaysOn {
			alwaysOn = append(alwaysOn, group.Hostlist())
		}
	}

	resume := cfg.ResumeProgram
	suspend := cfg.SuspendProgram
	if resume == "" {
		resume = in("bin", "resume")
		suspend = in("bin", "suspend")
	}

	var accounting []setting
	if cfg.Accounting {
		accounting = []setting{
			{"AccountingStorageType", "accounting_storage/slurmdbd"},
			{"AccountingStorageHost", "localhost"},
			{"AccountingStoragePort", fmt.Sprint(c.firstPort + accountingPort)},
			// Without it a user may write any account.
			{"AccountingStorageEnforce", "associations"},
			// What asks slurmdbd takes the socket of munged from here, not from AuthInfo.
			{"AccountingStoragePass", c.mungeSocket()},
		}
	}

	return append(accounting, []setting{
		{"ClusterName", clusterName},
		{"SlurmctldHost", "localhost"},
		{"SlurmctldPort", fmt.Sprint(c.firstPort + controllerPort)},
		{"SlurmdPort", fmt.Sprint(c.firstPort + ownerPort)},
		{"SlurmUser", c.user},
		{"SlurmdUser", c.user},
		// A requeued job waits one second longer than cred_expire; 5 is the minimum.
		{"AuthInfo", "socket=" + c.mungeSocket() + ",cred_expire=5"},
		{"StateSaveLocation", in("state")},
		{"SlurmdSpoolDir", in("spool", "%n")},
		{"SlurmctldPidFile", in("run", "slurmctld.pid")},
		{"SlurmdPidFile", in("run", "slurmd-%n.pid")},
		{"SlurmctldLogFile", c.Log("slurmctld")},
		{"SlurmdLogFile", c.Log("slurmd-%n")},
		{"SlurmctldDebug", "debug"},
		{"SlurmdDebug", "debug"},
		{"DebugFlags", "Power,NO_CONF_HASH"}, // a reload changes the hash under running slurmds
		{"ProctrackType", "proctrack/linuxproc"},
		{"JobAcctGatherType", "jobacct_gather/none"},
		{"SelectType", "select/cons_tres"},
		{"SelectTypeParameters", "CR_CPU_Memory"},
		{"DefMemPerCPU", "1"}, // else one job takes all memory of a node
		{"SchedulerParameters", schedulerParameters(c.version)},
		{"ReturnToService", "2"},
		{"GresTypes", "gpu"},
		{"SlurmdParameters", "config_overrides"}, // nodes may claim more CPUs than there are
		{"PrivateData", privateData},
		{"CliFilterPlugins", cliFilter},
		{"JobSubmitPlugins", jobSubmit},
		{"PrologSlurmctld", in("bin", "prologctld")},
		{"ResumeProgram", resume},
		{"SuspendProgram", suspend},
		{"ResumeFailProgram", cfg.ResumeFailProgram},
		{"ResumeTimeout", seconds(cfg.ResumeTimeout)},
		{"SuspendTimeout", seconds(cfg.SuspendTimeout)},
		{"SuspendTime", seconds(cfg.SuspendTime)},
		{"SuspendExcNodes", strings.Join(alwaysOn, ",")},
		{"ResumeRate", "0"},
		{"SuspendRate", "0"},
		{"TreeWidth", "65533"}, // slurmd must not resolve the names of cloud nodes
		{"SlurmctldParameters", "idle_on_node_suspend,power_save_interval=1,power_save_min_interval=0"},
		{"SlurmctldTimeout", "30"},
		{"SlurmdTimeout", "30"},
	}...)
}

const clusterName = "lab"

// seconds rounds up to whole seconds.
func seconds(d time.Duration) string {
	return fmt.Sprint(int64((d + time.Second - 1) / time.Second))
}

// writeNodes writes the NodeName lines of a group. Cloud nodes have no address: it is set when a machine is there.
func (c *Cluster) writeNodes(b *strings.Builder, group NodeGroup) {
	state := "CLOUD"
	if group.Prefix == c.cfg.Static.Prefix {
		state = "UNKNOWN NodeAddr=127.0.0.1"
	}

	for i := range group.Count {
		name := group.Name(i + 1)
		fmt.Fprintf(
			b,
			"NodeName=%s Port=%d CPUs=%d RealMemory=%d State=%s",
			name,
			c.nodePort[name],
			group.CPUs,
			group.MemoryMB,
			state,
		)

		if group.GPUs > 0 {
			fmt.Fprintf(b, " Gres=gpu:%d", group.GPUs)
		}

		if group.Features != "" {
			fmt.Fprintf(b, " Features=%s", group.Features)
		}

		fmt.Fprintf(b, " %s\n", group.Options)
	}
}

// partitions returns the PartitionName lines. The first one of the static group is the default.
func (cfg Config) partitions() (lines []string) {
	nodes := map[string][]string{}
	for name := range cfg.Partitions {
		nodes[name] = nil
	}

	for _, group := range cfg.groups() {
		for name := range strings.SplitSeq(group.Partition, ",") {
			nodes[name] = append(nodes[name], group.Hostlist())
		}
	}

	standard, _, _ := strings.Cut(cfg.Static.Partition, ",")
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		line := "PartitionName=" + name + " State=UP " + cfg.Partitions[name]
		if len(nodes[name]) > 0 {
			line += " Nodes=" + strings.Join(nodes[name], ",")
		}

		if name == standard {
			line += " Default=YES"
		}

		if name != "" { // of groups in no partition
			lines = append(lines, line)
		}
	}

	return lines
}

// schedulerParameters look for work often. From 25.11 on they also say how long a requeued job
// waits; before, cred_expire does.
func schedulerParameters(version int) string {
	const always = "bf_interval=2,sched_interval=2,batch_sched_delay=0"
	if version >= 2511 {
		return always + ",requeue_delay=2"
	}

	return always
}

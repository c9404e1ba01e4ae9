package slurm

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Config is the configuration of the running slurmctld, as far as this project needs it. Times are zero where Slurm has
// none; lists are empty.
type Config struct {
	ClusterName         string
	Version             Version        // slurmctld's, which may be newer than that of the commands
	ConfPath            string         // slurm.conf, as slurmctld knows it
	Backups             []string       // the hosts that take slurmctld over
	PluginDirs          []string       // on slurmctld's host
	LogFile             string         // slurmctld's; "" where it logs to syslog alone
	StateSaveLocation   string         // slurmctld's folder, which the controllers of a cluster share
	KillWait            time.Duration  // between TERM and KILL at the end of a job
	SlurmUID            int            // the number of SlurmUser
	OverTime            capacity.Limit // OverTimeLimit: how much longer than its limit a job may run
	ResumeTimeout       time.Duration
	SuspendTimeout      time.Duration
	SuspendTime         time.Duration // 0: idle nodes are never powered down
	SuspendExcNodes     string        // a hostlist, perhaps with ":count" suffixes
	SuspendExcParts     []string
	ResumeProgram       string
	SuspendProgram      string
	ResumeFailProgram   string
	PrivateData         []string
	JobSubmitPlugins    []string // names without their kind: lua
	CliFilterPlugins    []string // the same
	SlurmctldParameters []string
	ConfServer          string // slurmctld's HOST[:PORT] for slurmd --conf-server
	SchedulerParameters []string
	CliFilterScript     string   // that CliFilterParameters names, from 25.11 on; "" for cli_filter.lua beside slurm.conf
	Prolog              string   // one pattern, or several; "" if none
	TaskProlog          string   // "" if none
	NoRequeue           bool     // a job is requeued only if it asks for it (JobRequeue=0)
	AccountingEnforce   []string // the words of AccountingStorageEnforce
	Accounts            bool     // what ran is kept in a database, which sacct reads
	Preemption          capacity.Preemption
}

// Accounting says what Slurm knows of accounts. Each word of AccountingStorageEnforce but "no…"
// brings associations with it: slurm.conf(5).
func (c Config) Accounting() capacity.Accounting {
	switch {
	case slices.ContainsFunc(c.AccountingEnforce, func(word string) bool { return !strings.HasPrefix(word, "no") }):
		return capacity.AccountsChecked
	case c.Accounts:
		return capacity.AccountsWritten
	}

	return capacity.NoAccounting
}

// ChecksLimits reports whether Slurm holds jobs to the limits of QOS and associations.
func (c Config) ChecksLimits() bool {
	return slices.Contains(c.AccountingEnforce, "limits") || slices.Contains(c.AccountingEnforce, "safe")
}

// ShowsPoweredDown reports whether Slurm shows nodes that are powered down.
func (c Config) ShowsPoweredDown() bool {
	return c.Version.AtLeast(23, 2, 0) || slices.Contains(c.PrivateData, "cloud")
}

// CrossesFences reports whether a job with --time-min starts in front of a reservation that its
// whole limit does not leave room for, and keeps that limit.
func (c Config) CrossesFences() bool {
	return slices.Contains(c.SchedulerParameters, "time_min_as_soft_limit")
}

// LacksPlugin reports whether none of PluginDir's folders that are on this host has a file, and which these are.
// Without any of them it reports false: another host's plugins are not known here.
func (c Config) LacksPlugin(file string) (folders []string, missing bool) {
	for _, folder := range c.PluginDirs {
		if _, err := os.Stat(folder); err != nil {
			continue
		}

		folders = append(folders, folder)

		if _, err := os.Stat(filepath.Join(folder, file)); err == nil {
			return nil, false
		}
	}

	return folders, len(folders) > 0
}

// Config asks slurmctld for its configuration.
func (c *Client) Config(ctx context.Context) (Config, error) {
	out, err := c.run(ctx, "scontrol", "show", "config")
	if err != nil {
		return Config{}, fmt.Errorf("reading Slurm's configuration: %w", err)
	}

	config, err := parseConfig(out)
	if err != nil {
		return Config{}, fmt.Errorf("reading Slurm's configuration: %w", err)
	}

	return config, nil
}

// confServer names the first controller by its address, if slurm.conf has one: NAME(ADDRESS).
func confServer(values map[string]string) string {
	host, address, _ := strings.Cut(values["SlurmctldHost[0]"], "(")
	host = cmp.Or(strings.TrimSuffix(address, ")"), host)
	if port := values["SlurmctldPort"]; host != "" && port != "" && port != "6817" && !strings.Contains(port, "-") {
		return host + ":" + port
	}

	return host
}

func parseConfig(output []byte) (Config, error) {
	values := make(map[string]string)
	for line := range strings.SplitSeq(string(output), "\n") {
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if _, seen := values[key]; !ok || seen {
			continue // later sections, such as the cgroup one, reuse keys
		}

		switch value {
		case "(null)", "N/A", "(none)", "none":
			value = ""
		}

		values[key] = value
	}

	// Everything else may be missing in some version; without this, nobody knows which.
	version, err := ParseVersion(values["SLURM_VERSION"])
	if err != nil {
		return Config{}, err
	}

	config := Config{
		ClusterName:         values["ClusterName"],
		Version:             version,
		ConfPath:            values["SLURM_CONF"],
		PluginDirs:          filepath.SplitList(values["PluginDir"]),
		LogFile:             values["SlurmctldLogFile"],
		StateSaveLocation:   values["StateSaveLocation"],
		SuspendExcNodes:     values["SuspendExcNodes"],
		SuspendExcParts:     splitList(values["SuspendExcParts"]),
		ResumeProgram:       values["ResumeProgram"],
		SuspendProgram:      values["SuspendProgram"],
		ResumeFailProgram:   values["ResumeFailProgram"],
		JobSubmitPlugins:    plugins(values["JobSubmitPlugins"], "job_submit/"),
		CliFilterPlugins:    plugins(values["CliFilterPlugins"], "cli_filter/"),
		SlurmctldParameters: splitList(values["SlurmctldParameters"]),
		ConfServer:          confServer(values),
		SchedulerParameters: splitList(values["SchedulerParameters"]),
		CliFilterScript:     CLIFilterScript(values["CliFilterParameters"]),
		Prolog:              cmp.Or(values["Prolog"], values["Prolog[0]"]), // newer versions number them
		TaskProlog:          cmp.Or(values["TaskProlog"], values["TaskProlog[0]"]),
		PrivateData:         splitList(values["PrivateData"]),
		NoRequeue:           values["JobRequeue"] == "0",
		AccountingEnforce:   splitList(values["AccountingStorageEnforce"]),
		Accounts:            values["AccountingStorageType"] == "accounting_storage/slurmdbd",
		Preemption:          capacity.ParsePreemption(values["PreemptType"], values["PreemptMode"]),
	}
	config.Preemption.NoGraceTime = !version.HasGraceTime()

	exempt, err := capacity.ParseLimit(values["PreemptExemptTime"])
	if err == nil && exempt.Bounded() {
		config.Preemption.ExemptTime = exempt.Duration()
	}

	// The first host is the primary controller; the others take over from it.
	for i := 1; values[fmt.Sprintf("SlurmctldHost[%d]", i)] != ""; i++ {
		host, _, _ := strings.Cut(values[fmt.Sprintf("SlurmctldHost[%d]", i)], "(") // its address
		config.Backups = append(config.Backups, host)
	}

	_, uid, _ := strings.Cut(values["SlurmUser"], "(") // slurm(64030)
	config.SlurmUID, _ = strconv.Atoi(strings.TrimSuffix(uid, ")"))

	config.OverTime, err = overTime(values["OverTimeLimit"])
	if err != nil {
		return Config{}, fmt.Errorf("OverTimeLimit: %w", err)
	}

	for key, into := range map[string]*time.Duration{
		"KillWait":       &config.KillWait,
		"ResumeTimeout":  &config.ResumeTimeout,
		"SuspendTimeout": &config.SuspendTimeout,
		"SuspendTime":    &config.SuspendTime,
	} {
		*into, err = configSeconds(values[key])
		if err != nil {
			return Config{}, fmt.Errorf("%s: %w", key, err)
		}
	}

	return config, nil
}

// CLIFilterScript returns the path in a value of CliFilterParameters; "" if it has none.
func CLIFilterScript(parameters string) string {
	for _, one := range splitList(parameters) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(one), "cli_filter_lua_path="); ok {
			return path
		}
	}

	return ""
}

// configSeconds reads "30 sec". "NONE", "INFINITE" and -1 switch a timer off.
func configSeconds(text string) (time.Duration, error) {
	switch strings.ToUpper(text) {
	case "", "NONE", "INFINITE", "UNLIMITED":
		return 0, nil
	}

	number, _, _ := strings.Cut(text, " ")

	seconds, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of seconds", text)
	}

	if seconds < 0 || seconds >= 0xfffffffe { // NO_VAL and INFINITE of slurm.h
		return 0, nil
	}

	return time.Duration(seconds) * time.Second, nil
}

// overTime reads "10 min", or of a partition "10": minutes, none or no limit at all.
func overTime(text string) (capacity.Limit, error) {
	number, _, _ := strings.Cut(text, " ")
	switch number {
	case "", "NONE":
		return capacity.Limit{}, nil
	case "UNLIMITED":
		return capacity.NoLimit, nil
	}

	minutes, err := strconv.Atoi(number)
	if err != nil || minutes < 0 {
		return capacity.Limit{}, fmt.Errorf("%q is not a number of minutes", text)
	}

	return capacity.Minutes(minutes), nil
}

// plugins returns the names in a list of plugins, where each may have its kind before it.
func plugins(list, kind string) []string {
	names := splitList(list)
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, kind)
	}

	return names
}

// Never is a time that does not come.
const Never = time.Duration(math.MaxInt64)

// ShortestResumeTimeout returns the least ResumeTimeout of the named partitions.
func (c Config) ShortestResumeTimeout(partitions []capacity.SlurmPartition, names []string) time.Duration {
	shortest := Never
	for _, p := range partitions {
		if slices.Contains(names, p.Name) {
			shortest = min(shortest, cmp.Or(p.ResumeTimeout, c.ResumeTimeout))
		}
	}

	if shortest == Never {
		return c.ResumeTimeout
	}

	return shortest
}

// PowersDown reports whether Slurm powers a node down that is idle for long enough. The
// longest SuspendTime of its partitions counts, else that of slurm.conf.
func (c Config) PowersDown(n capacity.Node, partitions []capacity.SlurmPartition) bool {
	var after time.Duration
	for _, p := range partitions {
		if slices.Contains(n.Partitions, p.Name) {
			after = max(after, p.SuspendTime)
		}
	}

	after = cmp.Or(after, c.SuspendTime)

	return after > 0 && after != Never && !slices.Contains(c.excludedNodes(), n.Name) &&
		!slices.ContainsFunc(c.SuspendExcParts, func(name string) bool { return slices.Contains(n.Partitions, name) })
}

// excludeCount matches the number of nodes that stay up, of those before it: slurm.conf(5), SuspendExcNodes.
var excludeCount = regexp.MustCompile(`:[0-9]+`)

// excludedNodes lists the nodes of SuspendExcNodes.
func (c Config) excludedNodes() []string {
	names, err := hostlist.Expand(excludeCount.ReplaceAllString(c.SuspendExcNodes, ""))
	if err != nil {
		return nil
	}

	return names
}

// Partitions returns all partitions, hidden ones too.
func (c *Client) Partitions(ctx context.Context) ([]capacity.SlurmPartition, error) {
	out, err := c.run(ctx, "scontrol", "--all", "--oneliner", "show", "partition")
	if err != nil {
		return nil, fmt.Errorf("listing partitions: %w", err)
	}

	return parsePartitions(out), nil
}

func parsePartitions(output []byte) (partitions []capacity.SlurmPartition) {
	for _, line := range records(output, "PartitionName") {
		pairs := fields(line)
		partition := capacity.SlurmPartition{
			Name:    pairs["PartitionName"],
			Default: pairs["Default"] == "YES",
			State:   pairs["State"],

			PreemptMode: pairs["PreemptMode"],
		}
		if qos := pairs["QoS"]; qos != "N/A" {
			partition.QOS = qos
		}

		if accounts := pairs["AllowAccounts"]; accounts != "ALL" {
			partition.AllowAccounts = splitList(accounts)
		}

		u := unread{pairs: pairs}
		partition.Nodes = readKey(&u, "Nodes", hostlist.Expand)
		partition.MaxTime = readKey(&u, "MaxTime", capacity.ParseLimit)
		partition.DefaultTime = readKey(&u, "DefaultTime", capacity.ParseLimit)
		partition.DefaultTime = cmp.Or(partition.DefaultTime, partition.MaxTime) // as Slurm does
		partition.OverTime = readKey(&u, "OverTimeLimit", overTime)
		partition.ResumeTimeout = readKey(&u, "ResumeTimeout", partitionSeconds)
		partition.PriorityTier = readKey(&u, "PriorityTier", priorityTier)
		partition.GraceTime = readKey(&u, "GraceTime", configSeconds)
		partition.SuspendTime = readKey(&u, "SuspendTime", partitionSeconds)
		partition.Unread = u.text
		partitions = append(partitions, partition)
	}

	return partitions
}

// priorityTier reads a number, which is 1 unless it is set: slurm.conf(5).
func priorityTier(text string) (int, error) { return strconv.Atoi(cmp.Or(text, "1")) }

// partitionSeconds reads "30". GLOBAL leaves it to slurm.conf.
func partitionSeconds(text string) (time.Duration, error) {
	switch text {
	case "", "GLOBAL":
		return 0, nil
	case "INFINITE":
		return Never, nil
	}

	return configSeconds(text)
}

// sitePrefix begins a line of IncludeFile that keeps what the site's slurm.conf says itself of a setting of ours.
const sitePrefix = "# slurm.conf itself has "

// SiteLine returns the line that keeps the site's value of a setting: ResumeProgram and SuspendProgram of
// ours call the site's for nodes that are not ours, and lists are merged.
func SiteLine(setting, value string) string { return sitePrefix + setting + "=" + value + "\n" }

// SiteValue returns the value that a text of IncludeFile keeps for a setting; "" if none.
func SiteValue(text, setting string) string { return valueAfter(text, sitePrefix+setting+"=") }

// SiteProgram returns the program that is kept beside the slurm.conf for a setting; "" if none.
func SiteProgram(conf, setting string) string {
	return includedValue(cmp.Or(conf, DefaultConf), sitePrefix+setting+"=")
}

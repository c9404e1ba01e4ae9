package slurm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Config is what slurmctld runs with, as far as this project asks.
type Config struct {
	ClusterName string
	Version     Version // slurmctld's
	ConfPath    string  // slurm.conf, as slurmctld knows it
	// Backups are the hosts that take slurmctld over.
	Backups []string
	// StateSaveLocation is slurmctld's folder, which the controllers of a cluster share.
	StateSaveLocation string
	KillWait          time.Duration
	// SlurmUID is the number of SlurmUser.
	SlurmUID int
	// OverTime is OverTimeLimit: how much longer than its limit a job may run.
	OverTime          capacity.Limit
	ResumeTimeout     time.Duration
	SuspendTimeout    time.Duration
	SuspendTime       time.Duration // 0: idle nodes are never powered down
	SuspendExcNodes   string        // hostlist, possibly with ":count" suffixes; empty: none
	SuspendExcParts   []string
	ResumeProgram     string
	SuspendProgram    string
	ResumeFailProgram string
	PrivateData       []string
	// JobSubmitPlugins and CliFilterPlugins are names without their kind: lua.
	JobSubmitPlugins    []string
	CliFilterPlugins    []string
	SlurmctldParameters []string
	// ConfServer is slurmctld's HOST[:PORT] for slurmd --conf-server.
	ConfServer          string
	SchedulerParameters []string
	// CliFilterScript is the script that CliFilterParameters names; "" for cli_filter.lua in the
	// folder of slurm.conf. From 25.11 on.
	CliFilterScript string
	// Prolog is a pattern, or several; as TaskProlog "" if there is none.
	Prolog, TaskProlog string
	// NoRequeue: a job is requeued only if it asks for it (JobRequeue=0).
	NoRequeue bool
	// AccountingEnforce are the words of AccountingStorageEnforce; empty: none.
	AccountingEnforce []string
	// Accounts: what ran is kept in a database, which sacct reads.
	Accounts bool
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
	version, err := ParseVersion(values["SLURM_VERSION"])
	if err != nil {
		return Config{}, err
	}
	config := Config{
		ClusterName: values["ClusterName"],
		Version:     version,
		ConfPath:    values["SLURM_CONF"],

		StateSaveLocation: values["StateSaveLocation"],

		SuspendExcNodes: values["SuspendExcNodes"],
		SuspendExcParts: splitList(values["SuspendExcParts"]),
		ResumeProgram:   values["ResumeProgram"],

		SuspendProgram:    values["SuspendProgram"],
		ResumeFailProgram: values["ResumeFailProgram"],

		JobSubmitPlugins:    plugins(values["JobSubmitPlugins"], "job_submit/"),
		CliFilterPlugins:    plugins(values["CliFilterPlugins"], "cli_filter/"),
		SlurmctldParameters: splitList(values["SlurmctldParameters"]),
		ConfServer:          confServer(values),
		SchedulerParameters: splitList(values["SchedulerParameters"]),
		CliFilterScript:     CLIFilterScript(values["CliFilterParameters"]),
		// Newer versions number them.
		Prolog:      firstOf(values["Prolog"], values["Prolog[0]"]),
		TaskProlog:  firstOf(values["TaskProlog"], values["TaskProlog[0]"]),
		PrivateData: splitList(values["PrivateData"]),

		NoRequeue: values["JobRequeue"] == "0",

		AccountingEnforce: splitList(values["AccountingStorageEnforce"]),
		Accounts:          values["AccountingStorageType"] == "accounting_storage/slurmdbd",
	}
	for i := 1; values[fmt.Sprintf("SlurmctldHost[%d]", i)] != ""; i++ {
		host, _, _ := strings.Cut(values[fmt.Sprintf("SlurmctldHost[%d]", i)], "(") // its address
		config.Backups = append(config.Backups, host)
	}
	_, uid, _ := strings.Cut(values["SlurmUser"], "(") // slurm(64030)
	config.SlurmUID, _ = strconv.Atoi(strings.TrimSuffix(uid, ")"))
	if config.OverTime, err = overTime(values["OverTimeLimit"]); err != nil {
		return Config{}, fmt.Errorf("OverTimeLimit: %w", err)
	}
	for key, into := range map[string]*time.Duration{
		"KillWait":       &config.KillWait,
		"ResumeTimeout":  &config.ResumeTimeout,
		"SuspendTimeout": &config.SuspendTimeout,
		"SuspendTime":    &config.SuspendTime,
	} {
		if *into, err = configSeconds(values[key]); err != nil {
			return Config{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	return config, nil
}

// CLIFilterScript is the path in a value of CliFilterParameters; "" if it has none.
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

// plugins are the names in a list of plugins, where each may have its kind before it.
func plugins(list, kind string) []string {
	names := splitList(list)
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, kind)
	}
	return names
}

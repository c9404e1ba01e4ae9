package awssim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// pcsSettings is a structure of PCS that the simulator keeps and gives back without reading most of it. Its shape was
// checked with the request.
type pcsSettings map[string]any

// merge lays an update over the settings: structures are merged, anything else is replaced.
func (s pcsSettings) merge(update pcsSettings) pcsSettings {
	merged := pcsSettings{}
	maps.Copy(merged, s)
	for name, value := range update {
		if value == nil {
			continue
		}
		newer, isStructure := value.(map[string]any)
		older, wasStructure := merged[name].(map[string]any)
		if isStructure && wasStructure {
			value = map[string]any(pcsSettings(older).merge(newer))
		}
		merged[name] = value
	}
	return merged
}

// number reads an integer member; ok is false if it is not there.
func (s pcsSettings) number(name string) (n int, ok bool) {
	f, ok := s[name].(float64) // as encoding/json decodes numbers
	return int(f), ok
}

// custom reads slurmCustomSettings as a map.
func (s pcsSettings) custom() map[string]string {
	list, _ := s["slurmCustomSettings"].([]any)
	custom := map[string]string{}
	for _, item := range list {
		setting, _ := item.(map[string]any)
		name, _ := setting["parameterName"].(string)
		custom[name], _ = setting["parameterValue"].(string)
	}
	return custom
}

// mode reads the mode of accounting and slurmRest.
func (s pcsSettings) mode(name string) string {
	structure, _ := s[name].(map[string]any)
	mode, _ := structure["mode"].(string)
	return mode
}

// Names of Slurm parameters that PCS lets users set: AWS PCS User Guide, "Configuring Slurm settings".
var (
	clusterParameters = strings.Fields(`AccountingStorageEnforce AccountingStorageTRES AccountingStoreFlags
		AuthAltParameters CliFilterParameters CliFilterPlugins CommunicationParameters DefMemPerCPU Epilog
		EnforcePartLimits FairShareDampeningFactor FirstJobId HealthCheckInterval HealthCheckNodeState
		HealthCheckProgram JobRequeue LaunchParameters Licenses MetricsType MinJobAge OverTimeLimit
		PreemptExemptTime PreemptMode PreemptParameters PreemptType PriorityCalcPeriod PriorityDecayHalfLife
		PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityUsageResetPeriod PriorityWeightAge
		PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition
		PriorityWeightQOS PriorityWeightTRES Prolog PrologFlags RequeueExit RequeueExitHold
		SchedulerParameters SelectTypeParameters SrunPortRange TaskEpilog TaskPluginParam TaskProlog
		TrackWCKey UnkillableStepProgram UnkillableStepTimeout`)
	groupParameters = strings.Fields(`CpuSpecList Features Gres MemSpecLimit Parameters RealMemory Sockets Weight`)
	queueParameters = strings.Fields(`AllowAccounts AllowQos Default DefaultTime DenyAccounts DenyQos ExclusiveUser
		GraceTime MaxTime OverSubscribe OverTimeLimit PowerDownOnIdle PreemptMode PriorityJobFactor
		PriorityTier QOS TRESBillingWeights`)
)

// checkSettings refuses Slurm parameters that PCS does not know for this kind of resource.
func checkSettings(v *pcsValidation, s pcsSettings, known []string, cluster *pcsCluster) {
	const field = "slurmConfiguration.slurmCustomSettings"
	custom := s.custom()
	for _, name := range slices.Sorted(maps.Keys(custom)) {
		if !slices.Contains(known, name) {
			v.add(field, "the Slurm parameter %q is not supported here", name)
		}
	}
	version := slurmVersion(cluster.Scheduler.Version)
	if plugin, ok := custom["CliFilterPlugins"]; ok {
		if plugin != "cli_filter/lua" {
			v.add(field, "CliFilterPlugins must be cli_filter/lua, not %q", plugin)
		}
		if version < 2411 {
			v.add(field, "CliFilterPlugins needs Slurm 24.11, the cluster has %s", cluster.Scheduler.Version)
		}
	}
	if age, ok := custom["MinJobAge"]; ok {
		if n, err := strconv.Atoi(age); err != nil || n < 5 {
			v.add(field, "MinJobAge must be 5 or more, not %q", age)
		}
	}
}

// checkGres refuses a Gres that no record of gres.conf stands behind: AWS PCS User Guide,
// "Configuring custom GRES settings", "Constraints between gres.conf and the Gres setting". That is so for
// GPUs too, which PCS derives from the instance type where Gres is not set at all.
func checkGres(v *pcsValidation, s pcsSettings) {
	declared := map[string]bool{}
	records, _ := s["gresCustomSettings"].([]any)
	for _, item := range records {
		record, _ := item.(map[string]any)
		if name, ok := record["Name"].(string); ok {
			declared[name] = true
		}
		if detects, ok := record["AutoDetect"].(string); ok && detects != "off" {
			declared["gpu"] = true
		}
	}
	for _, entry := range strings.Split(s.custom()["Gres"], ",") {
		if name, _, _ := strings.Cut(entry, ":"); name != "" && !declared[name] {
			v.add("slurmConfiguration.slurmCustomSettings", "Gres names %q, which no record of gresCustomSettings declares", name)
		}
	}
}

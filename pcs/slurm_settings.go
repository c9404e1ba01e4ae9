package pcs

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
)

// typeSettings describe the hardware of a node, so they go with its instance type.
var typeSettings = []string{"CpuSpecList", "MemSpecLimit", "Parameters", "RealMemory", "Sockets"}

// Gres is a setting that PCS takes only together with records of gres.conf (gresCustomSettings),
// which the SDK does not have. Without both, PCS describes the GPUs of a type itself: AWS PCS User
// Guide, "Configuring custom GRES settings".
const Gres = "Gres"

// SettingsFor are the group's Slurm settings that suit nodes of an instance type, never Gres;
// dropped names the settings that describe the hardware of another type.
func (g NodeGroup) SettingsFor(instanceType string) (kept map[string]string, dropped []string) {
	kept = maps.Clone(g.SlurmSettings)
	delete(kept, Gres)
	if slices.Contains(g.InstanceTypes, instanceType) {
		return kept, nil
	}
	for _, name := range typeSettings {
		if _, has := kept[name]; has {
			delete(kept, name)
			dropped = append(dropped, name)
		}
	}
	return kept, dropped
}

// SettingsText is Slurm settings in words: "Features=a, Weight=10".
func SettingsText(settings map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		parts = append(parts, name+"="+settings[name])
	}
	return strings.Join(parts, ", ")
}

// SettingsLines is Slurm settings as lines of slurm.conf.
func SettingsLines(settings map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		b.WriteString(name + "=" + settings[name] + "\n")
	}
	return b.String()
}

func settingsMap(list []types.SlurmCustomSetting) map[string]string {
	if len(list) == 0 {
		return nil
	}
	all := map[string]string{}
	for _, s := range list {
		all[str(s.ParameterName)] = str(s.ParameterValue)
	}
	return all
}

func settingsList(settings map[string]string) []types.SlurmCustomSetting {
	list := []types.SlurmCustomSetting{}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, types.SlurmCustomSetting{ParameterName: aws.String(name), ParameterValue: aws.String(settings[name])})
	}
	return list
}

// withSettings are all Slurm settings of a queue, the wanted ones included; nil if it has them
// already. PCS only takes the whole list.
func (q Queue) withSettings(want map[string]string) map[string]string {
	merged := maps.Clone(q.SlurmSettings)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, want)
	if maps.Equal(merged, q.SlurmSettings) || len(want) == 0 {
		return nil
	}
	return merged
}

package awssim

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The lifecycle actions of a node group are kept and given back as they came. Names, enumerations and required members
// are checked with the request; what is here are the patterns and bounds of the service model.
var (
	actionStages   = []string{"nodeBootstrapped", "nodeReady"}
	actionName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 _-]{0,63}$`)
	scriptLocation = regexp.MustCompile(`^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+|https://([a-zA-Z0-9]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}(:[0-9]{1,5})?([/?#]\S*)?)$`)
	scriptChecksum = regexp.MustCompile(`^[a-fA-F0-9]{64}$`)
)

// actionsAgent is the first agent of PCS that runs lifecycle actions; an older one ignores them: AWS PCS User Guide,
// "Configure node lifecycle actions in AWS PCS". An image says in its description which agent it has.
var (
	actionsAgent = []int{1, 5, 0, 1}
	imageAgent   = regexp.MustCompile(`PCS Agent: (\d+)\.(\d+)\.(\d+)-(\d+)`)
)

const maxScripts, maxArguments, maxArgument, maxLocation = 20, 20, 256, 1024

// scripts are those of a stage.
func (s pcsSettings) scripts(stage string) (all []pcsSettings, there bool) {
	stages, _ := s["stages"].(map[string]any)
	list, there := stages[stage].([]any)
	for _, one := range list {
		script, _ := one.(map[string]any)
		all = append(all, script)
	}
	return all, there
}

func (s pcsSettings) text(member string) string {
	text, _ := s[member].(string)
	return text
}

func checkActions(v *pcsValidation, actions pcsSettings) {
	for _, stage := range actionStages {
		scripts, there := actions.scripts(stage)
		field := "nodeLifecycleActions.stages." + stage
		if there && (len(scripts) < 1 || len(scripts) > maxScripts) {
			v.add(field, "has %d scripts, a stage has 1 to %d", len(scripts), maxScripts)
		}
		names := map[string]bool{}
		for _, script := range scripts {
			name := script.text("name")
			if !actionName.MatchString(name) || names[name] {
				v.add(field, "%q is not a unique name of up to 64 letters, digits, spaces, underscores and hyphens", name)
			}
			names[name] = true
			source, _ := script["scriptSource"].(map[string]any)
			location, checksum := pcsSettings(source).text("scriptLocation"), pcsSettings(source).text("checksum")
			if !scriptLocation.MatchString(location) || len(location) > maxLocation {
				v.add(field, "%q is neither s3://BUCKET/KEY nor an HTTPS URL", location)
			}
			if checksum != "" && !scriptChecksum.MatchString(checksum) {
				v.add(field, "%q is not a SHA-256 checksum of 64 hexadecimal characters", checksum)
			}
			if source["s3VersionId"] != nil && !strings.HasPrefix(location, "s3://") {
				v.add(field, "s3VersionId is for an Amazon S3 URI, not %q", location)
			}
			arguments, _ := script["arguments"].([]any)
			if len(arguments) > maxArguments {
				v.add(field, "%q has %d arguments, a script has up to %d", name, len(arguments), maxArguments)
			}
			for _, argument := range arguments {
				if text, _ := argument.(string); len(text) > maxArgument {
					v.add(field, "an argument of %q has %d characters, of %d", name, len(text), maxArgument)
				}
			}
		}
	}
}

// bootActions are the scripts that a node of PCS runs when it boots: "nodeBootstrapped mount".
func (s *Sim) bootActions(r *region, i *instance) (ran []string) {
	_, g, err := s.findNodeGroup(i.Tags[tagClusterID], i.Tags[tagGroupID])
	image := r.image(i.ImageID)
	if err != nil || image == nil || image.oldAgent() {
		return nil
	}
	for _, stage := range actionStages {
		scripts, _ := g.NodeLifecycleActions.scripts(stage)
		for _, script := range scripts {
			ran = append(ran, stage+" "+script.text("name"))
		}
	}
	return ran
}

// oldAgent reports whether the image says that its agent runs no lifecycle actions.
func (i *ImageScenario) oldAgent() bool {
	var version []int
	for _, part := range imageAgent.FindStringSubmatch(i.Description) {
		if n, err := strconv.Atoi(part); err == nil {
			version = append(version, n)
		}
	}
	return version != nil && slices.Compare(version, actionsAgent) < 0
}

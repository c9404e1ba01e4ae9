package pcs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// LifecycleActions are the nodeLifecycleActions of a node group, as PCS said them: scripts that
// mount file systems and install software when a node boots. The SDK has no field for them, so they
// go over the wire as they came. nil stands for none.
type LifecycleActions json.RawMessage

// Script is one that nodes run at their boot.
type Script struct {
	Name   string       `json:"name"`
	Source ScriptSource `json:"scriptSource"`
	// OnError and Policy are as PCS has them: CONTINUE, FIRST_BOOT_ONLY.
	OnError string `json:"onError,omitempty"`
	Policy  string `json:"executionPolicy,omitempty"`
}

// ScriptSource is where a node fetches a script from.
type ScriptSource struct {
	Location string `json:"scriptLocation"`
}

// The stages of a node's boot: before slurmd starts, and after it has registered.
const bootstrapped, ready = "nodeBootstrapped", "nodeReady"

// scripts are those of a stage; of actions in a form that this version does not know there are none.
func (a LifecycleActions) scripts(stage string) []Script {
	var said struct {
		Stages map[string][]Script `json:"stages"`
	}
	_ = json.Unmarshal(a, &said) // String says that the form is not known
	return said.Stages[stage]
}

// FromS3 reports whether nodes fetch a script from Amazon S3.
func (a LifecycleActions) FromS3() bool {
	return slices.ContainsFunc(slices.Concat(a.scripts(bootstrapped), a.scripts(ready)), func(s Script) bool {
		return strings.HasPrefix(s.Source.Location, "s3://")
	})
}

// lifecycleMember is their name on the wire.
const lifecycleMember = "nodeLifecycleActions"

// lifecycleActions are nil where PCS says nothing of importance.
func lifecycleActions(raw json.RawMessage) LifecycleActions {
	if emptyValue(raw) {
		return nil
	}
	return LifecycleActions(bytes.Clone(raw))
}

// MarshalJSON writes them as they are.
func (a LifecycleActions) MarshalJSON() ([]byte, error) { return json.RawMessage(a).MarshalJSON() }

// Equal compares what both say, in any order of members.
func (a LifecycleActions) Equal(b LifecycleActions) bool { return a.Canonical() == b.Canonical() }

// Canonical is the same text for all that say the same; "" for none.
func (a LifecycleActions) Canonical() string {
	var said any
	if json.Unmarshal(a, &said) != nil {
		return string(a)
	}
	text, _ := json.Marshal(said) // what has been decoded can be encoded
	return string(text)
}

// String names the scripts of each stage: "nodeBootstrapped: mount, runtime". It is "" for none.
func (a LifecycleActions) String() string {
	if len(a) == 0 {
		return ""
	}
	var stages []string
	for _, stage := range []string{bootstrapped, ready} {
		var names []string
		for _, s := range a.scripts(stage) {
			names = append(names, s.Name)
		}
		if len(names) > 0 {
			stages = append(stages, stage+": "+strings.Join(names, ", "))
		}
	}
	if stages == nil {
		return "in a form that this version does not know"
	}
	return strings.Join(stages, "; ")
}

// compared is the setting of a comparison. No actions wanted leaves those that are there.
func (a LifecycleActions) compared(want LifecycleActions) Setting {
	if want == nil {
		want = a
	}
	s := Setting{Name: "lifecycle actions", Now: a.String(), Want: want.String()}
	if !a.Equal(want) && s.Now == s.Want {
		s.Want += " (changed)"
	}
	return s
}

// sendActions adds lifecycle actions to a request; none leaves it as it is.
func sendActions(actions LifecycleActions) func(*pcs.Options) {
	add := func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (middleware.SerializeOutput, middleware.Metadata, error) {
		fail := func(err error) (middleware.SerializeOutput, middleware.Metadata, error) {
			return middleware.SerializeOutput{}, middleware.Metadata{}, fmt.Errorf("adding the lifecycle actions: %w", err)
		}
		request, ok := in.Request.(*smithyhttp.Request)
		if !ok {
			return fail(fmt.Errorf("the request is a %T", in.Request))
		}
		var members map[string]json.RawMessage
		if err := json.NewDecoder(request.GetStream()).Decode(&members); err != nil {
			return fail(err)
		}
		members[lifecycleMember] = json.RawMessage(actions)
		body, err := json.Marshal(members)
		if err != nil {
			return fail(err)
		}
		if in.Request, err = request.SetStream(bytes.NewReader(body)); err != nil {
			return fail(err)
		}
		return next.HandleSerialize(ctx, in)
	}
	return func(o *pcs.Options) {
		if len(actions) == 0 {
			return
		}
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Serialize.Insert(middleware.SerializeMiddlewareFunc("LifecycleActions", add), "OperationSerializer", middleware.After)
		})
	}
}

package pcs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// LifecycleActions are the nodeLifecycleActions of a node group, as PCS said them: scripts that
// mount file systems and install software when a node boots. The SDK has no field for them, so they
// go over the wire as they came. nil stands for none.
type LifecycleActions json.RawMessage

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
	type script struct {
		Name string `json:"name"`
	}
	var said struct {
		Stages struct {
			Bootstrapped []script `json:"nodeBootstrapped"`
			Ready        []script `json:"nodeReady"`
		} `json:"stages"`
	}
	_ = json.Unmarshal(a, &said) // what has another form is named below
	var stages []string
	add := func(stage string, scripts []script) {
		var names []string
		for _, s := range scripts {
			names = append(names, s.Name)
		}
		if len(names) > 0 {
			stages = append(stages, stage+": "+strings.Join(names, ", "))
		}
	}
	add("nodeBootstrapped", said.Stages.Bootstrapped)
	add("nodeReady", said.Stages.Ready)
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

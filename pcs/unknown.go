package pcs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// collectUnknown makes a read add to names the settings in its answer that this version of the SDK
// has no field for: the SDK drops them silently. The thing is the named member of the answer, and T
// its type in the SDK. Those in kept are known to this program, and come as PCS said them.
func collectUnknown[T any](member string, names *[]string, kept map[string]json.RawMessage) func(*pcs.Options) {
	collect := func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		answer, ok := out.RawResponse.(*smithyhttp.Response)
		if err != nil || !ok || answer.StatusCode != 200 {
			return out, metadata, err
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return out, metadata, fmt.Errorf("reading the answer: %w", err)
		}
		answer.Body = io.NopCloser(bytes.NewReader(body))
		var things map[string]json.RawMessage
		if json.Unmarshal(body, &things) == nil { // else it is the decoder's to refuse
			var members map[string]json.RawMessage
			_ = json.Unmarshal(things[member], &members)
			for name := range kept {
				kept[name] = members[name]
			}
			*names = slices.DeleteFunc(unknownIn(reflect.TypeFor[T](), things[member], ""), func(name string) bool {
				_, keeps := kept[name]
				return keeps
			})
			slices.Sort(*names)
		}
		return out, metadata, nil
	}
	return func(o *pcs.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			// After the SDK's own decoder, so nearer to the wire.
			return stack.Deserialize.Insert(middleware.DeserializeMiddlewareFunc("UnknownSettings", collect), "OperationDeserializer", middleware.After)
		})
	}
}

// unknownIn names the members of a JSON value that are set and that an SDK type has no field for. Its fields have the
// names on the wire but for the first letter. Lists and maps of structures are searched as well.
func unknownIn(t reflect.Type, value json.RawMessage, path string) []string {
	var names []string
	switch t.Kind() {
	case reflect.Pointer:
		return unknownIn(t.Elem(), value, path)
	case reflect.Slice:
		var items []json.RawMessage
		_ = json.Unmarshal(value, &items) // a value that is no list has nothing unknown
		for _, item := range items {
			names = append(names, unknownIn(t.Elem(), item, path)...)
		}
		slices.Sort(names)
		return slices.Compact(names)
	case reflect.Struct:
	default:
		return nil
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(value, &members) // a time is a number
	for name, value := range members {
		if name == "" || emptyValue(value) {
			continue
		}
		if field, found := t.FieldByName(fieldName(name)); !found {
			names = append(names, path+name)
		} else {
			names = append(names, unknownIn(field.Type, value, path+name+".")...)
		}
	}
	return names
}

// emptyValue reports whether a JSON value says nothing.
func emptyValue(value json.RawMessage) bool {
	return slices.Contains([]string{"", "null", "{}", "[]"}, string(value))
}

// LostBy are the unknown settings that an update of the group to the wanted one could lose. A
// wanted group without TemplateVersion gets a version that does not exist yet.
func (g NodeGroup) LostBy(want NodeGroup) []string {
	in, _ := updateGroupInput(want, g)
	return lostBy(g.Unknown, in)
}

// LostBy are the unknown settings that an update of the queue with the wanted Slurm settings
// could lose; each update sends the list of its node groups.
func (q Queue) LostBy(want Queue) []string {
	return lostBy(q.Unknown, updateQueueInput(q, q.GroupIDs, q.withSettings(want.SlurmSettings)))
}

// lostBy are the unknown settings that lie in a member that an update, a pointer to one of
// the SDK's inputs, sends. PCS replaces each member that it gets, and keeps all others.
func lostBy(unknown []string, update any) []string {
	in := reflect.ValueOf(update).Elem()
	var lost []string
	for _, name := range unknown {
		member, _, _ := strings.Cut(name, ".")
		if sent := in.FieldByName(fieldName(member)); sent.IsValid() && !sent.IsZero() {
			lost = append(lost, name)
		}
	}
	return lost
}

// fieldName is the SDK's name for a member on the wire.
func fieldName(member string) string { return strings.ToUpper(member[:1]) + member[1:] }

// ErrUnknown is the refusal of a change that could lose settings of PCS unknown to this program.
var ErrUnknown = errors.New("it has settings that this version of pcs-capacity does not know, and this change could lose them")

// keeps refuses a change that could lose settings.
func (p Provisioner) keeps(what, name string, lost []string) error {
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s is not updated: %w: %s; change it in PCS",
		what, name, ErrUnknown, strings.Join(lost, ", "))
}

// LifecycleActions are the nodeLifecycleActions of a node group, as PCS said them: scripts that
// mount file systems and install software when a node boots. The SDK has no field for them, so they
// go over the wire as they came. nil stands for none.
type LifecycleActions json.RawMessage

// The stages of a node's boot: before slurmd starts, and after it has registered.
const bootstrapped, ready = "nodeBootstrapped", "nodeReady"

type script struct {
	Name   string `json:"name"`
	Source struct {
		Location string `json:"scriptLocation"`
	} `json:"scriptSource"`
}

// scripts are those of a stage; of actions in a form that this version does not know there are none.
func (a LifecycleActions) scripts(stage string) []script {
	var said struct {
		Stages map[string][]script `json:"stages"`
	}
	_ = json.Unmarshal(a, &said) // String says that the form is not known
	return said.Stages[stage]
}

// FromS3 reports whether nodes fetch a script from Amazon S3.
func (a LifecycleActions) FromS3() bool {
	return slices.ContainsFunc(slices.Concat(a.scripts(bootstrapped), a.scripts(ready)), func(s script) bool {
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
func (a LifecycleActions) Equal(b LifecycleActions) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(x, y)
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
	add := func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (out middleware.SerializeOutput, m middleware.Metadata, err error) {
		request := in.Request.(*smithyhttp.Request) // as the SDK's own serializer has made it
		var members map[string]json.RawMessage
		if err = json.NewDecoder(request.GetStream()).Decode(&members); err == nil {
			members[lifecycleMember] = json.RawMessage(actions)
			body, _ := json.Marshal(members) // what has been decoded can be encoded
			in.Request, err = request.SetStream(bytes.NewReader(body))
		}
		if err != nil {
			return out, m, fmt.Errorf("adding the lifecycle actions: %w", err)
		}
		return next.HandleSerialize(ctx, in)
	}
	return func(o *pcs.Options) {
		if len(actions) > 0 {
			o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
				return stack.Serialize.Insert(middleware.SerializeMiddlewareFunc("LifecycleActions", add), "OperationSerializer", middleware.After)
			})
		}
	}
}
